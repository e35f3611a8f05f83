package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// openAt returns a store on the server's own clock.
func openAt(t testing.TB, config Config) *Store {
	t.Helper()
	s, err := OpenStore(config)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return s
}

// entry is the text of a grant of one unit.
const entry = " daily=1\ngrant list 1 @1 % %"

// hour is for how long these logs keep an entry, in µs.
const hour = int64(time.Hour / time.Microsecond)

// put writes an entry to the log of youtube, as a host that puts it back.
func put(ctx context.Context, s *Store, id string) error {
	_, err := s.Run(ctx, "youtube", slidinglog.Restore, []any{"epoch", "", hour, 0, id, time.Now().UnixMicro(), 0, entry})
	return err
}

// has reports whether the log of youtube has an entry.
func has(t testing.TB, s *Store, id string) bool {
	t.Helper()
	values, err := s.Run(t.Context(), "youtube", slidinglog.Mirror, []any{0, "", 1, id})
	must(t, err)
	return len(values) > 2
}

// An idle log vanishes when it was kept for twice as long as it is needed. What else is at its keys is said, and a log of
// a version before is found.
func TestKeys(t *testing.T) {
	for _, wrong := range []Config{{}, {Addrs: []string{"a"}}, {Addrs: []string{"a:1"}, KeyPrefix: "{x}"}} {
		if _, err := OpenStore(wrong); err == nil {
			t.Errorf("%+v is a mistake", wrong)
		}
	}
	bounds := lua.Usual()
	bounds.QuietMicros = 0
	server := redistest.Start(t)
	s, err := openStore(Config{Addrs: []string{server.Addr}}, lua.All(bounds))
	must(t, err)
	defer s.Close()
	acquire := func(keep int64) error {
		_, err := s.Run(t.Context(), "youtube", slidinglog.Acquire,
			[]any{"id", entry, "", "epoch", 0, keep, 0, "drawn", 0, "daily", hour, 0, 100, 1, 0})
		return err
	}
	must(t, errors.Join(put(t.Context(), s, "a"), acquire(hour/4)))
	keys := s.keys("youtube")
	for _, key := range keys {
		if left := server.Do(t, "PTTL", key).(int64); left <= (15*time.Minute).Milliseconds() || left > (30*time.Minute).Milliseconds() {
			t.Errorf("%s expires in %d ms, want half an hour", key, left)
		}
	}
	server.Do(t, "HSET", keys[1], "=a", " daily=1") // has no second line, so is no entry
	if values, err := s.Run(t.Context(), "youtube", slidinglog.Walk, []any{"daily", 0, 1, hour}); err != nil {
		t.Errorf("a walk over what is no entry: %v, %v", values, err)
	}
	server.Do(t, "SET", keys[1], "text")
	if err := acquire(hour); !errors.Is(err, quota.ErrUnusable) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("got %v, want that it is something else", err)
	}
	for _, older := range []string{"", "quotad:{youtube}:log"} {
		if older != "" {
			server.Do(t, "XADD", older, "*", "r", "record")
		}
		if key, err := s.Older(t.Context(), "youtube"); err != nil || key != older {
			t.Errorf("the log of an older version: %q, %v, want %q", key, err, older)
		}
	}
}

func TestStoreHealth(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, Config{Addrs: []string{server.Addr}})
	for range 3 {
		warnings, err := s.Health(t.Context())
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "appendonly is no") {
			t.Errorf("got %q, %v, want that appendonly is no", warnings, err)
		}
	}
	if n := commandCalls(t, server, "info"); n != 1 {
		t.Errorf("three looks at the health asked the server %d times, want once", n)
	}
	for _, row := range []struct{ version, good, want string }{
		{"6.2.6", "1", "before Redis 6.2.7 "}, {"6.2.7", "1", ""}, {"7.0.15", "", "min-replicas-to-write is 0"}, {"8.0.2", "0", ""}, {"", "0", ""},
	} {
		lacks := info{"redis_version": row.version, "connected_slaves": "1", "min_slaves_good_slaves": row.good}.lacks()
		if len(lacks) > 1 || !strings.HasPrefix(strings.Join(lacks, ""), row.want) || (len(lacks) > 0) != (row.want != "") {
			t.Errorf("Redis %s with a replica lacks %q, want %q", row.version, lacks, row.want)
		}
	}
	proxy := redistest.NewProxy(t, server)
	s = openAt(t, Config{Addrs: []string{proxy.Addr}})
	for n, fault := range []redistest.Fault{"-BUSY Redis is busy running a script\r\n", "", redistest.CutAfter, "-NOPERM\r\n"} {
		proxy.Disturb(func(command []string) redistest.Fault {
			if strings.EqualFold(command[0], "info") {
				return fault
			}
			return redistest.Pass
		})
		s.asked = time.Time{} // a minute later
		if warnings, err := s.Health(t.Context()); err != nil || len(warnings) != min(n, 1) {
			t.Errorf("look %d: got %q, %v, want what the server said last", n, warnings, err)
		}
	}
	server.Kill()
	if _, err := s.Health(t.Context()); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, quota.ErrUnavailable)
	}
}

// commandCalls is how often a server carried out a command.
func commandCalls(t *testing.T, server *redistest.Server, command string) (n int) {
	t.Helper()
	_, line, _ := strings.Cut(server.Do(t, "INFO", "commandstats").(string), "cmdstat_"+command+":calls=")
	fmt.Sscan(line, &n)
	return n
}

// What Redis answers is said with its cure, whatever a server before 7 or a proxy puts in front of it. What only a
// person can change is no outage. A client whose server says that it is a replica is replaced.
func TestRefusals(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	for _, row := range []struct {
		answer, says string
		unusable     bool
	}{
		{"OOM command not allowed when used memory > 'maxmemory'.", "OOM command not allowed when used memory > 'maxmemory': raise maxmemory", false},
		{"ERR Error running script (call to f_1): @user_script: 31: -OOM command not allowed", "OOM command not allowed: raise maxmemory", false},
		{"NOREPLICAS Not enough good replicas to write. script: " + strings.Repeat("ab", 20) + ", on @user_script:43.", "NOREPLICAS Not enough good replicas to write: bring the replicas back", false},
		{"MISCONF Redis is configured to save RDB snapshots", "look at its log and its disk", false},
		{"LOADING Redis is loading the dataset in memory", "wait until", false},
		{"READONLY You can't write against a read only replica.", "name the master", false},
		{"ERR READONLY You can't write against a read only replica.", "redis refuses: READONLY You can't", false},
		{"ERR Error running script (call to f_1): @user_script: 43: -READONLY You can't write against a read only...", "name the master", false},
		{"MASTERDOWN Link with MASTER is down", "name the master", false},
		{"CLUSTERDOWN The cluster is down", "CLUSTER INFO", false},
		{"NOAUTH Authentication required.", "set username and password_file", false},
		{"WRONGPASS invalid username-password pair or user is disabled.", "as Redis has them", false},
		{"NOPERM this user has no permissions to run the 'evalsha' command", "ACL SETUSER", false},
		{"ERR The user executing the script can't run this command or subcommand script", "ACL SETUSER", false},
		{"ERR max number of clients reached", "raise maxclients", false},
		{"WRONGTYPE Operation against a key holding the wrong kind of value", "key_prefix", true},
		{"MOVED 8528 127.0.0.1:7312", "this is a Cluster", true},
		{"ERR unknown command 'evalsha'", "Redis 6.2 or later", true},
		{"ERR something that nobody has met", "redis refuses: ERR something", true},
	} {
		s := openAt(t, Config{Addrs: []string{proxy.Addr}})
		proxy.Disturb(func([]string) redistest.Fault { return redistest.Fault("-" + row.answer + "\r\n") })
		before := s.current()
		err := put(t.Context(), s, "a")
		if err == nil || !strings.HasPrefix(err.Error(), "redis refuses: ") || !strings.Contains(err.Error(), row.says) ||
			!errors.Is(err, quota.ErrUnavailable) {
			t.Errorf("%s\ngot %v\nwant %q", row.answer, err, row.says)
		}
		if unusable := errors.Is(err, quota.ErrUnusable); unusable != row.unusable {
			t.Errorf("%s: only a person can change it: %v", row.answer, unusable)
		}
		if left := s.current() != before; left != strings.Contains(row.answer, "READONLY") {
			t.Errorf("%s: the client is replaced: %v", row.answer, left)
		}
	}
}

// What a server refuses it has not carried out. A script is learnt again after a restart. What was not sent has done
// nothing. Whatever becomes of a call or its reply, go-redis does not send it again.
func TestOutcomes(t *testing.T) {
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	s := openAt(t, Config{Addrs: []string{proxy.Addr}})
	s.dial(t.Context(), "unix", "/nowhere") // fails, and explains nothing once a connection was made
	for _, id := range []string{"a", "b"} {
		if err := put(t.Context(), s, id); err != nil || !has(t, s, id) {
			t.Errorf("%s: %v", id, err)
		}
		server.Order(t, "SCRIPT FLUSH")
	}
	server.Order(t, "CONFIG SET min-replicas-to-write 1")
	if err := put(t.Context(), s, "c"); !errors.Is(err, quota.ErrUnavailable) || !strings.Contains(err.Error(), "NOREPLICAS") {
		t.Errorf("got %v, want that nothing was done", err)
	}
	server.Order(t, "CONFIG SET min-replicas-to-write 0")
	if has(t, s, "c") {
		t.Error("what was refused is in the log")
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := put(ended, s, "c"); !errors.Is(err, context.Canceled) || errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("got %v though nothing was sent", err)
	}
	late, end := context.WithTimeout(t.Context(), 0)
	defer end()
	if err := put(late, s, "c"); !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "nowhere") {
		t.Errorf("got %v, want that it was late", err)
	}
	for _, fault := range []redistest.Fault{redistest.Swallow, redistest.CutAfter, redistest.CutBefore} {
		wait := hanging
		if fault == redistest.Swallow {
			wait = 50 * time.Millisecond
		}
		ctx, cancel := context.WithTimeout(t.Context(), wait)
		proxy.Meet(fault)
		sent := commandCalls(t, server, "evalsha")
		if err := put(ctx, s, string(fault)); !errors.Is(err, quota.ErrOutcomeUnknown) {
			t.Errorf("%s: got %v, want that nobody knows", fault, err)
		}
		cancel()
		if n := commandCalls(t, server, "evalsha") - sent; n > 1 || has(t, s, string(fault)) != (fault != redistest.CutBefore) {
			t.Errorf("%s: the call was sent %d times, or the log is wrong", fault, n)
		}
	}
	direct := openAt(t, Config{Addrs: []string{server.Addr}})
	must(t, put(t.Context(), direct, "d"))
	server.Kill()
	_ = put(t.Context(), direct, "e") // its connection is cut
	err := put(t.Context(), direct, "e")
	if !errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) ||
		strings.Count(err.Error(), "cannot reach redis") != 1 {
		t.Errorf("got %v", err)
	}
}

// A new connection declares which server it leads to, for all logs that were used, before anything else.
func TestConnectionsDeclare(t *testing.T) {
	first, second := redistest.Start(t), redistest.Start(t)
	proxy := redistest.NewProxy(t, first)
	s := openAt(t, Config{Addrs: []string{proxy.Addr}})
	must(t, put(t.Context(), s, "a"))
	copied(t, first, second)
	proxy.Lead(second)
	first.Kill() // and the connections with it
	for range 3 {
		if _, err := s.Run(t.Context(), "youtube", slidinglog.Mirror, []any{0, "", 1}); err == nil {
			break
		}
	}
	if got := second.Do(t, "HGET", s.keys("youtube")[1], "epoch"); got == "epoch" {
		t.Error("the other server was not declared")
	}
}

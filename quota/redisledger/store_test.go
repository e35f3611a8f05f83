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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// noQuiet are the scripts, without quiet: nobody else has anything to put back.
func noQuiet() map[string]string {
	bounds := lua.Usual()
	bounds.QuietMicros = 0
	return lua.All(bounds)
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
	if err != nil {
		t.Fatal(err)
	}
	return len(values) > 2
}

// acquireArgs ask for a unit of a limit of an hour.
func acquireArgs(id, epoch string, keep int64, max int) []any {
	return []any{id, entry, "", epoch, 0, keep, 0, "drawn", 0, "daily", hour, 0, max, 1, 0}
}

// useScripts calls each script of a log so that it uses each command that it may.
func useScripts(ctx context.Context, s *Store) error {
	now := time.Now().UnixMicro()
	restore := []any{"epoch", "", hour, 1, "old", now - hour/2, 0, entry, "new", now - 1e6, 0, entry, "alone", now + hour, 1, entry}
	settled := []any{"epoch", "epoch", hour, 0, "settled", now - 1000, 0, "\nsettle new 3 @1 % %"}
	correct := func(id, text string) []any { return []any{id, text, "", "epoch", 0, hour, 0, "drawn", 0} }
	for _, call := range []struct {
		script slidinglog.Script
		args   []any
		want   string // the word of the answer, if it has one
	}{
		{slidinglog.Restore, restore, "epoch"},
		{slidinglog.Restore, settled, "epoch"},
		{slidinglog.Acquire, acquireArgs("", "epoch", hour, 100), "fits"},
		{slidinglog.Acquire, acquireArgs("first", "epoch", hour/4, 100), "granted"}, // it drops the old one
		{slidinglog.Acquire, acquireArgs("first", "epoch", hour, 100), "again"},
		{slidinglog.Acquire, acquireArgs("more", "epoch", hour, 1), "denied"},
		{slidinglog.Correct, correct("settles", "\nsettle first 7 @1 % %"), "done"},
		{slidinglog.Correct, correct("closes", fmt.Sprintf("\nclose daily %d @1 %% %%", now+hour)), "done"},
		{slidinglog.Correct, correct("resets", "\nreset - 0 @1 % %"), "done"},
		{slidinglog.Walk, []any{"daily", 0, 1, hour}, ""},
		{slidinglog.Mirror, []any{0, "", 10}, "epoch"},
		{slidinglog.Mirror, []any{0, now + 2*hour, 10}, "epoch"},
		{slidinglog.Mirror, []any{0, "", 10, "first"}, "epoch"},
		{slidinglog.Hosts, []any{"host", "{}", 1000}, ""},
		{slidinglog.Hosts, []any{"host", "", 1000}, ""},
	} {
		name := "youtube"
		if call.script == slidinglog.Hosts {
			name = slidinglog.AllHosts
		}
		values, err := s.Run(ctx, name, call.script, call.args)
		if err != nil {
			return err
		}
		if call.want != "" && values[0] != call.want {
			return fmt.Errorf("script %s answers %v, want %s", call.script, values, call.want)
		}
	}
	return nil
}

// An idle log vanishes when it was kept for twice as long as it is needed. What else is at its keys is said, and a log of
// a version before is found.
func TestKeys(t *testing.T) {
	for _, wrong := range []Config{{}, {Addrs: []string{"a"}}, {Addrs: []string{"a:1"}, KeyPrefix: "{x}"}} {
		if _, err := OpenStore(wrong); err == nil {
			t.Errorf("%+v is a mistake", wrong)
		}
	}
	server := redistest.Start(t)
	s, err := openStore(Config{Addrs: []string{server.Addr}}, noQuiet())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := useScripts(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	keys := []string{"quotad:{youtube}:entries", "quotad:{youtube}:state"}
	for _, key := range keys { // the call that dropped something named a quarter of an hour
		if left := server.Do(t, "PTTL", key).(int64); left <= (15*time.Minute).Milliseconds() || left > (30*time.Minute).Milliseconds() {
			t.Errorf("%s expires in %d ms, want half an hour", key, left)
		}
	}
	server.Do(t, "SET", keys[1], "text")
	_, err = s.Run(t.Context(), "youtube", slidinglog.Acquire, acquireArgs("", "epoch", hour, 1))
	if !errors.Is(err, quota.ErrUnusable) || !strings.Contains(err.Error(), "WRONGTYPE") {
		t.Errorf("got %v, want that it is something else", err)
	}
	if key, err := s.Older(t.Context(), "youtube"); err != nil || key != "" {
		t.Errorf("the log of an older version, which is not there: %q, %v", key, err)
	}
	server.Do(t, "XADD", "quotad:{youtube}:log", "*", "r", "record")
	if key, err := s.Older(t.Context(), "youtube"); err != nil || key != "quotad:{youtube}:log" {
		t.Errorf("the log of an older version: %q, %v", key, err)
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
	silent := openAt(t, withRights(t, server, strings.Replace(leastRights, " +info", "", 1)))
	if warnings, err := silent.Health(t.Context()); err != nil || len(warnings) != 0 || !silent.silent {
		t.Errorf("got %q, %v of a server that does not say", warnings, err)
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
		proxy := redistest.NewProxy(t, server)
		s := openAt(t, Config{Addrs: []string{proxy.Addr}})
		proxy.Rewrite(func(string) string { return "-" + row.answer + "\r\n" })
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
// nothing.
func TestOutcomes(t *testing.T) {
	server := redistest.Start(t)
	s := openAt(t, Config{Addrs: []string{server.Addr}})
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
	server.Kill()
	for range 2 {
		put(t.Context(), s, "c")
	}
	err := put(t.Context(), s, "c")
	if !errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) || strings.Count(err.Error(), "cannot reach redis") != 1 {
		t.Errorf("got %v", err)
	}
}

// Whatever becomes of a call or its reply, go-redis does not send it again.
func TestLostReply(t *testing.T) {
	for name, row := range map[string]struct {
		fault redistest.Fault
		done  bool
	}{
		"swallowed":  {redistest.Swallow, true},
		"cut after":  {redistest.CutAfter, true},
		"cut before": {redistest.CutBefore, false},
	} {
		server := redistest.Start(t)
		proxy := redistest.NewProxy(t, server)
		s := openAt(t, Config{Addrs: []string{proxy.Addr}})
		if err := put(t.Context(), s, "a"); err != nil {
			t.Fatal(err)
		}
		proxy.Meet(row.fault)
		ctx, cancel := context.WithTimeout(t.Context(), hanging)
		if row.fault == redistest.Swallow {
			cancel()
			ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
		}
		sent := commandCalls(t, server, "evalsha")
		if err := put(ctx, s, "b"); !errors.Is(err, quota.ErrOutcomeUnknown) {
			t.Errorf("%s: got %v, want that nobody knows", name, err)
		}
		cancel()
		if n := commandCalls(t, server, "evalsha") - sent; n > 1 || has(t, s, "b") != row.done {
			t.Errorf("%s: the call was sent %d times, and the log has it: %v", name, n, !row.done)
		}
	}
}

// A new connection declares which server it leads to, for all logs that were used, before anything else.
func TestConnectionsDeclare(t *testing.T) {
	first, second := redistest.Start(t), redistest.Start(t)
	proxy := redistest.NewProxy(t, first)
	s := openAt(t, Config{Addrs: []string{proxy.Addr}})
	if err := put(t.Context(), s, "a"); err != nil {
		t.Fatal(err)
	}
	for _, key := range s.keys("youtube") { // what a replica has
		second.Do(t, "RESTORE", key, "0", first.Do(t, "DUMP", key).(string))
	}
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

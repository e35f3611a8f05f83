package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// openStoreAt returns a store on the server's own clock.
func openStoreAt(t testing.TB, config Config) *Store {
	t.Helper()
	s, err := OpenStore(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// storesOf opens stores that read their clock from keys, behind the prefix.
func storesOf(config Config, scripts lua.Scripts, clocks ...string) ledgertest.OpenStore {
	return func(t testing.TB) (slidinglog.Store, func(ms int64)) {
		config := config
		config.KeyPrefix = "quotad:" + t.Name() + ":"
		client := connect(t, config)
		s, err := openStore(config, scripts)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s, func(ms int64) {
			for _, key := range clocks {
				if err := client.Set(context.Background(), config.KeyPrefix+key, ms, 0).Err(); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

func TestStore(t *testing.T) {
	t.Parallel()
	ledgertest.RunStore(t, storesOf(Config{Addrs: []string{redistest.Start(t).Addr}}, guarded(t, clockOfPrefix), "clock"))
}

func TestStoreInCluster(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	config := Config{Addrs: []string{nodes[0].Addr, nodes[1].Addr}}
	var clocks []string
	for _, name := range ledgertest.StoreCredentials {
		clocks = append(clocks, "{"+name+"}:clock")
	}
	ledgertest.RunStore(t, storesOf(config, onClock(t, clockOfCredential), clocks...))
}

var drawn atomic.Int64 // tags

// record is a call that appends text at any time; without any it is a look.
func record(at slidinglog.Position, text string) slidinglog.Call {
	c := slidinglog.Call{Credential: "youtube", At: at, NotAfter: 1 << 52, Keep: time.Hour}
	if text != "" {
		c.Body = fmt.Appendf(nil, "tag%09d%s", drawn.Add(1), text)
	}
	return c
}

// only makes one call and expects a status.
func only(t testing.TB, s *Store, c slidinglog.Call, want slidinglog.Result) slidinglog.Outcome {
	t.Helper()
	o := s.Append(t.Context(), []slidinglog.Call{c})[0]
	if o.Result != want {
		t.Fatalf("got status %d (%v), want %d", o.Result, o.Err, want)
	}
	return o
}

func doneAt(t testing.TB, c slidinglog.Call, o slidinglog.Outcome) slidinglog.Position {
	t.Helper()
	p := slidinglog.Position{ID: o.At}
	copy(p.Tag[:], c.Body)
	return p
}

func appended(t testing.TB, s *Store, at slidinglog.Position, text string) slidinglog.Position {
	t.Helper()
	c := record(at, text)
	return doneAt(t, c, only(t, s, c, slidinglog.Done))
}

// Many hosts append where they believe the end is: each place is won once.
func TestStoreHostsRace(t *testing.T) {
	t.Parallel()
	config := Config{Addrs: []string{redistest.Start(t).Addr}}
	const hosts, records = 8, 50
	var running sync.WaitGroup
	for range hosts {
		s := openStoreAt(t, config)
		running.Go(func() {
			var at slidinglog.Position
			for won := 0; won < records; {
				c := record(at, "record")
				switch o := s.Append(t.Context(), []slidinglog.Call{c})[0]; o.Result {
				case slidinglog.Done:
					at, won = doneAt(t, c, o), won+1
				case slidinglog.Behind:
					last := o.Tail[len(o.Tail)-1]
					at.ID = last.At
					copy(at.Tag[:], last.Body)
				default:
					t.Errorf("got status %d (%v)", o.Result, o.Err)
					return
				}
			}
		})
	}
	running.Wait()
	s := openStoreAt(t, config)
	if n := s.current().XLen(t.Context(), s.key("youtube")).Val(); n != hosts*records {
		t.Errorf("the log has %d records, want %d", n, hosts*records)
	}
}

// A log that was lost, by whichever way, is no outage.
func TestStoreLosesTheLog(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	key := s.key("youtube")
	for _, way := range [][]string{{"FLUSHALL"}, {"DEL", key}, {"XTRIM", key, "MAXLEN", "0"}} {
		t.Run(way[0], func(t *testing.T) {
			server.Do(t, "DEL", key)
			at := appended(t, s, slidinglog.Position{}, "a")
			server.Do(t, way...)
			only(t, s, record(at, "b"), slidinglog.Lost)
			only(t, s, record(slidinglog.Position{}, ""), slidinglog.End)
			at = appended(t, s, slidinglog.Position{}, "c")
			only(t, s, record(at, ""), slidinglog.End)
		})
	}
}

// Redis refuses ids up to the greatest that a stream has ever had, also when its entry is gone.
func TestStoreIDsAreUsedUp(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	key := s.key("youtube")
	at := appended(t, s, slidinglog.Position{}, "a")
	ahead := quota.ID{Ms: at.ID.Ms + 86_400_000, Seq: 7}
	server.Do(t, "XADD", key, ahead.String(), "r", "123456789012")
	server.Do(t, "XDEL", key, ahead.String())
	at = appended(t, s, at, "b")
	if !ahead.Less(at.ID) {
		t.Errorf("the record stands at %v, want it behind %v", at.ID, ahead)
	}
	server.Do(t, "XTRIM", key, "MAXLEN", "0")
	at = appended(t, s, slidinglog.Position{}, "c")
	wipe := record(at, "d")
	wipe.Wipe = true
	if o := only(t, s, wipe, slidinglog.Done); !o.At.Less(ahead) {
		t.Errorf("the record stands at %v, want it at the clock again", o.At)
	}
}

// What stands under the key and is no record is returned as what it is.
func TestStoreReturnsForeignEntries(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	key := s.key("youtube")
	server.Do(t, "XADD", key, "1700000000000-0", "e", "g videos.list 1", "a", "x")
	server.Do(t, "XADD", key, "1700000000000-1", "r", "short")
	for _, call := range []slidinglog.Call{record(slidinglog.Position{}, ""), record(slidinglog.Position{}, "a")} {
		o := only(t, s, call, slidinglog.Behind)
		if got, want := string(o.Tail[0].Body), "not a record: e g videos.list 1 a x"; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		if got := string(o.Tail[1].Body); got != "short" {
			t.Errorf("got %q, want the record as it is", got)
		}
	}
	server.Do(t, "DEL", key)
	server.Do(t, "SET", key, "text")
	if o := only(t, s, record(slidinglog.Position{}, ""), slidinglog.Failed); !strings.Contains(o.Err.Error(), "WRONGTYPE") {
		t.Errorf("got %v, want that it is no stream", o.Err)
	}
}

// A reply has no more than some 256 KiB of records, or to read large ones would take longer than a call may.
func TestStorePagesOfLargeRecords(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	at := appended(t, s, slidinglog.Position{}, "a")
	call := record(at, "mine")
	call.Slack = 1
	end := at
	for range 450 {
		end = appended(t, s, end, strings.Repeat("x", 4<<10))
	}
	if o := only(t, s, call, slidinglog.Behind); !o.More || len(o.Tail) < 60 || len(o.Tail) > 200 {
		t.Errorf("%d records, more: %v", len(o.Tail), o.More)
	}
	read := 0
	for more := true; more; {
		o := only(t, s, record(at, ""), slidinglog.Behind)
		read, more = read+len(o.Tail), o.More
		last := o.Tail[len(o.Tail)-1]
		at = slidinglog.Position{ID: last.At, Tag: slidinglog.Tag(last.Body)}
	}
	if read != 450 || at != end {
		t.Errorf("%d records are read, up to %v", read, at)
	}
}

// An idle log vanishes when it was kept for twice as long as it is needed.
func TestStoreLogExpires(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	appended(t, s, slidinglog.Position{}, "a")
	if left := server.Do(t, "PTTL", s.key("youtube")).(int64); left <= time.Hour.Milliseconds() || left > 2*time.Hour.Milliseconds() {
		t.Errorf("the log expires in %d ms, want two hours", left)
	}
}

func TestStoreNames(t *testing.T) {
	open := func(c Config) string { return openStoreAt(t, c).Name() }
	a := open(Config{Addrs: []string{"b:1", "a:1"}})
	if b := open(Config{Addrs: []string{"a:1", "b:1"}, KeyPrefix: "quotad:", Password: "secret"}); a != b {
		t.Errorf("the same store is called %q and %q", a, b)
	}
	if want := `redis a:1,b:1, database 0, key prefix "quotad:"`; a != want {
		t.Errorf("got %q, want %q", a, want)
	}
	if got, want := open(Config{Addrs: []string{"a:1"}, MasterName: "budget", DB: 2}), `redis master budget, database 2, key prefix "quotad:"`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	for _, wrong := range []Config{{}, {Addrs: []string{"a"}}, {Addrs: []string{"a:1"}, KeyPrefix: "{x}"}} {
		if _, err := OpenStore(wrong); err == nil {
			t.Errorf("%+v is a mistake", wrong)
		}
	}
}

func TestStoreHealth(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	for range 3 {
		warnings, err := s.Health(t.Context())
		if err != nil || len(warnings) != 1 || !strings.Contains(warnings[0], "appendonly is no") {
			t.Errorf("got %q, %v, want that appendonly is no", warnings, err)
		}
	}
	if n := commandCalls(t, server, "info"); n != 1 {
		t.Errorf("three looks at the health asked the server %d times, want once", n)
	}
	config := withRights(t, server, leastRights)
	s = openStoreAt(t, config)
	for range 3 {
		s.asked = time.Time{} // long ago
		if warnings, err := s.Health(t.Context()); err != nil || len(warnings) != 0 {
			t.Errorf("got %q, %v of a server that does not say", warnings, err)
		}
	}
	if !s.silent {
		t.Error("a refused INFO is asked for again")
	}
	server.Kill()
	if _, err := s.Health(t.Context()); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("got %v, want %v", err, quota.ErrUnavailable)
	}
}

// commandCalls is how often a server carried out a command.
func commandCalls(t *testing.T, server *redistest.Server, command string) (n int) {
	t.Helper()
	info := server.Do(t, "INFO", "commandstats").(string)
	_, line, _ := strings.Cut(info, "cmdstat_"+command+":calls=")
	fmt.Sscan(line, &n)
	return n
}

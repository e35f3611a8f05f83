package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// useScripts calls each script of a log so that it uses each command that it may.
func useScripts(ctx context.Context, s *Store) error {
	now := time.Now().UnixMicro()
	old := now - hour/2
	restore := []any{"epoch", "", hour, 1, "old", old, 0, entry, "new", now - 1e6, 0, entry, "alone", now + hour, 1, entry}
	settled := []any{"epoch", "epoch", hour, 0, "settled", now - 1000, 0, "\nsettle new 3 @1 % %"}
	correct := func(id, text string) []any { return []any{id, text, "", "epoch", 0, hour, 0, "drawn", 0} }
	calls := []struct {
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
	}
	for _, call := range calls {
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
	_, _, err := s.Older(ctx, "youtube")
	return err
}

func TestStoreNames(t *testing.T) {
	for _, wrong := range []Config{{}, {Addrs: []string{"a"}}, {Addrs: []string{"a:1"}, KeyPrefix: "{x}"}} {
		if _, err := OpenStore(wrong); err == nil {
			t.Errorf("%+v is a mistake", wrong)
		}
	}
	s := openStoreAt(t, Config{Addrs: []string{"a:1"}})
	if got, want := fmt.Sprint(s.keys("one")), "[quotad:{one}:entries quotad:{one}:state]"; got != want {
		t.Errorf("got the keys %s, want %s", got, want)
	}
}

// An idle log vanishes when it was kept for twice as long as it is needed.
func TestLogExpires(t *testing.T) {
	server := redistest.Start(t)
	s, err := openStore(Config{Addrs: []string{server.Addr}}, noQuiet())
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := useScripts(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	for _, key := range s.keys("youtube") { // the call that dropped something named a quarter of an hour
		if left := server.Do(t, "PTTL", key).(int64); left <= 0 || left > (30*time.Minute).Milliseconds() {
			t.Errorf("%s expires in %d ms, want half an hour", key, left)
		}
	}
}

// What is at the keys and is no log is said; a log of a version before is found.
func TestForeignKeys(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	for _, key := range s.keys("youtube") {
		server.Do(t, "FLUSHALL")
		server.Do(t, "SET", key, "text")
		_, err := s.Run(t.Context(), "youtube", slidinglog.Acquire, acquireArgs("", "epoch", hour, 1))
		if key == s.keys("youtube")[0] && err == nil {
			continue // there is no log yet: it is lost, and a restore begins it
		}
		if !errors.Is(err, quota.ErrUnusable) || !strings.Contains(err.Error(), "WRONGTYPE") {
			t.Errorf("%s: got %v, want that it is something else", key, err)
		}
	}
	if key, older, err := s.Older(t.Context(), "youtube"); err != nil || older {
		t.Errorf("%s: %v %v", key, older, err)
	}
	server.Do(t, "XADD", "quotad:{youtube}:log", "*", "r", "record")
	if _, older, err := s.Older(t.Context(), "youtube"); err != nil || !older {
		t.Errorf("a stream is not found: %v", err)
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
	config := withRights(t, server, strings.Replace(leastRights, " +info", "", 1))
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

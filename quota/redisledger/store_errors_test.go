package redisledger

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// What a server refuses it has not carried out, and says why.
func TestStoreServerRefuses(t *testing.T) {
	for _, test := range []struct {
		name         string
		breaks, mend []string
		says         string
	}{
		{"READONLY", []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}, "READONLY"},
		{"MASTERDOWN", []string{"REPLICAOF", "127.0.0.1", "1"}, []string{"REPLICAOF", "NO", "ONE"}, "MASTERDOWN"},
		{"OOM", []string{"CONFIG", "SET", "maxmemory", "1"}, []string{"CONFIG", "SET", "maxmemory", "0"}, "OOM"},
		{"NOREPLICAS", []string{"CONFIG", "SET", "min-replicas-to-write", "1"}, []string{"CONFIG", "SET", "min-replicas-to-write", "0"}, "NOREPLICAS"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
			if err := put(t.Context(), s, "a"); err != nil {
				t.Fatal(err)
			}
			if test.name == "MASTERDOWN" {
				server.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
			}
			server.Do(t, test.breaks...)
			err := put(t.Context(), s, "b")
			if !errors.Is(err, quota.ErrUnavailable) || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %v, want %s, and that nothing was done", err, test.says)
			}
			server.Do(t, test.mend...)
			if !has(t, s, "a") || has(t, s, "b") {
				t.Error("the log has not what was answered")
			}
			if err := put(t.Context(), s, "c"); err != nil {
				t.Error(err)
			}
		})
	}
}

// A script is learnt again after a restart, and by a call in a pipeline too.
func TestStoreServerForgetsTheScript(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	for _, id := range []string{"a", "b"} {
		if err := put(t.Context(), s, id); err != nil || !has(t, s, id) {
			t.Errorf("%s: %v", id, err)
		}
		server.Order(t, "SCRIPT FLUSH")
	}
	server.Kill()
	server.Run(t)
	for range 2 { // the first may use the connection that there was
		if err := put(t.Context(), s, "c"); err == nil {
			break
		}
	}
	if !has(t, s, "c") {
		t.Error("the scripts are not learnt after a restart")
	}
}

func TestStoreUnreachable(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	if err := put(t.Context(), s, "a"); err != nil {
		t.Fatal(err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if err := put(ended, s, "b"); !errors.Is(err, context.Canceled) || errors.Is(err, quota.ErrOutcomeUnknown) {
		t.Errorf("got %v though nothing was sent", err)
	}
	server.Kill()
	for range 2 {
		put(t.Context(), s, "c")
	}
	err := put(t.Context(), s, "c")
	if !errors.Is(err, quota.ErrUnavailable) || strings.Count(err.Error(), "cannot reach redis") != 1 {
		t.Errorf("got %v", err)
	}
}

// Whatever becomes of a call or its reply, go-redis does not send it again.
func TestStoreLostReply(t *testing.T) {
	for name, row := range map[string]struct {
		fault redistest.Fault
		done  bool
	}{
		"swallowed":  {redistest.Swallow, true},
		"cut after":  {redistest.CutAfter, true},
		"cut before": {redistest.CutBefore, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			proxy := redistest.NewProxy(t, server)
			s := openStoreAt(t, Config{Addrs: []string{proxy.Addr}})
			if err := put(t.Context(), s, "a"); err != nil {
				t.Fatal(err)
			}
			proxy.Meet(row.fault)
			ctx, cancel := context.WithTimeout(t.Context(), hanging)
			defer cancel()
			if row.fault == redistest.Swallow {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
			}
			sent := commandCalls(t, server, "evalsha")
			if err := put(ctx, s, "b"); !errors.Is(err, quota.ErrOutcomeUnknown) {
				t.Fatalf("got %v, want that nobody knows", err)
			}
			if n := commandCalls(t, server, "evalsha") - sent; n > 1 {
				t.Errorf("the call was sent %d times", n)
			}
			if has(t, s, "b") != row.done {
				t.Errorf("the log has it: %v", !row.done)
			}
		})
	}
}

// A new connection declares which server it leads to, for all logs that were used, before anything else.
func TestConnectionsDeclare(t *testing.T) {
	first, second := redistest.Start(t), redistest.Start(t)
	proxy := redistest.NewProxy(t, first)
	s := openStoreAt(t, Config{Addrs: []string{proxy.Addr}})
	if err := put(t.Context(), s, "a"); err != nil {
		t.Fatal(err)
	}
	epoch := func(server *redistest.Server) any { return server.Do(t, "HGET", s.keys("youtube")[1], "epoch") }
	if got := epoch(first); got != "epoch" {
		t.Fatalf("the log begins as %v", got)
	}
	for _, key := range s.keys("youtube") { // what a replica has
		dump := first.Do(t, "DUMP", key).(string)
		second.Do(t, "RESTORE", key, "0", dump)
	}
	proxy.Lead(second)
	first.Kill() // and the connections with it
	for range 3 {
		if _, err := s.Run(t.Context(), "youtube", slidinglog.Mirror, []any{0, "", 1}); err == nil {
			break
		}
	}
	if got := epoch(second); got == "epoch" {
		t.Error("the other server was not declared")
	}
}

// A client that was replaced leads to nobody: calls on the new one declare again.
func TestReplacedClientDeclares(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	if err := put(t.Context(), s, "a"); err != nil {
		t.Fatal(err)
	}
	server.Do(t, "HSET", s.keys("youtube")[1], "server", "another")
	s.replace(s.current(), s.config)
	if _, err := s.Run(t.Context(), "youtube", slidinglog.Mirror, []any{0, "", 1}); err != nil {
		t.Fatal(err)
	}
	if got := server.Do(t, "HGET", s.keys("youtube")[1], "epoch"); got == "epoch" {
		t.Error("the new connections did not declare")
	}
}

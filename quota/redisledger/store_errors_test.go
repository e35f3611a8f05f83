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
			at := appended(t, s, slidinglog.Position{}, "a")
			if test.name == "MASTERDOWN" {
				server.Do(t, "CONFIG", "SET", "replica-serve-stale-data", "no")
			}
			server.Do(t, test.breaks...)
			calls := []slidinglog.Call{record(at, "b"), record(at, "c")}
			calls[1].Wipe = true
			if test.name == "OOM" {
				calls = calls[:1] // a wipe makes room
			}
			for _, call := range calls {
				o := only(t, s, call, slidinglog.Failed)
				if !errors.Is(o.Err, quota.ErrUnavailable) || !strings.Contains(o.Err.Error(), test.says) {
					t.Errorf("got %v, want %s, and that nothing was done", o.Err, test.says)
				}
			}
			server.Do(t, test.mend...)
			only(t, s, record(at, ""), slidinglog.End)
			appended(t, s, at, "d")
		})
	}
}

func TestStoreServerForgetsTheScript(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	at := appended(t, s, slidinglog.Position{}, "a")
	server.Order(t, "SCRIPT FLUSH")
	other := record(slidinglog.Position{}, "other")
	other.Credential = "other"
	for i, o := range s.Append(t.Context(), []slidinglog.Call{record(at, "b"), other}) {
		if o.Result != slidinglog.Done {
			t.Errorf("call %d: got status %d (%v), want done", i, o.Result, o.Err)
		}
	}
}

func TestStoreUnreachable(t *testing.T) {
	server := redistest.Start(t)
	s := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	at := appended(t, s, slidinglog.Position{}, "a")
	server.Kill()
	for range 2 { // the first may use the connection that there was
		s.Append(t.Context(), []slidinglog.Call{record(at, "")})
	}
	o := only(t, s, record(at, "b"), slidinglog.Failed)
	if !errors.Is(o.Err, quota.ErrUnavailable) || strings.Count(o.Err.Error(), "cannot reach redis") != 1 {
		t.Errorf("got %v", o.Err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if o := s.Append(ended, []slidinglog.Call{record(at, "c")})[0]; o.Result != slidinglog.Failed || !errors.Is(o.Err, context.Canceled) {
		t.Errorf("got status %d (%v) though nothing was sent", o.Result, o.Err)
	}
}

// Whatever becomes of a call or its reply, the same call again tells, and is carried out once.
func TestStoreLostReply(t *testing.T) {
	for name, fault := range map[string]redistest.Fault{
		"swallowed": redistest.Swallow, "cut after": redistest.CutAfter, "cut before": redistest.CutBefore,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := redistest.NewProxy(t, redistest.Start(t))
			s := openStoreAt(t, Config{Addrs: []string{proxy.Addr}})
			at := appended(t, s, slidinglog.Position{}, "a")
			call := record(at, "b")
			proxy.Meet(fault)
			ctx, cancel := context.WithTimeout(t.Context(), hanging)
			defer cancel()
			if fault == redistest.Swallow {
				ctx, cancel = context.WithTimeout(t.Context(), 50*time.Millisecond)
				defer cancel()
			}
			o := s.Append(ctx, []slidinglog.Call{call})[0]
			if o.Result != slidinglog.Unknown || !errors.Is(o.Err, quota.ErrOutcomeUnknown) {
				t.Fatalf("got status %d (%v), want that nobody knows", o.Result, o.Err)
			}
			if fault == redistest.CutBefore {
				only(t, s, call, slidinglog.Done)
			}
			o = only(t, s, call, slidinglog.Behind)
			if len(o.Tail) != 1 || string(o.Tail[0].Body) != string(call.Body) {
				t.Errorf("got %q behind, want the record itself", o.Tail)
			}
		})
	}
}

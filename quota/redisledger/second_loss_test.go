package redisledger

import (
	"errors"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// A host that was granted nothing has nothing to put back after a loss. It must
// notice one all the same, or it begins a log in which others' grants are missing.
func TestLossIsNoticedByThoseWhoLostNothing(t *testing.T) {
	for _, test := range []struct {
		name  string
		known func(t *testing.T, l *Ledger) // what it knows of the log
	}{
		{"it saw the log when it was empty", func(t *testing.T, l *Ledger) {
			if _, err := l.Usage(t.Context(), hundred()); err != nil {
				t.Fatal(err)
			}
		}},
		{"it had nothing to put back after the last loss", func(t *testing.T, l *Ledger) {
			if err := l.Restore(t.Context(), hundred(), nil, 0); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := redistest.StartReal(t)
			idle := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "idle"})
			busy := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "busy"})
			test.known(t, idle)
			var grants []quota.Record
			for range 10 {
				_, id, err := quota.ParseGrantID(acquireOne(t, busy, hundred(), "").GrantID)
				if err != nil {
					t.Fatal(err)
				}
				grants = append(grants, quota.NewRecord(hundred(), ask("list", ""), id))
			}
			server.Order(t, "FLUSHALL")
			if err := idle.Check(t.Context(), hundred()); !errors.Is(err, quota.ErrLost) {
				t.Fatalf("got %v from an emptied log, want that it was lost", err)
			}
			if err := idle.Restore(t.Context(), hundred(), nil, time.Hour); err != nil {
				t.Fatal(err)
			}
			if err := idle.Check(t.Context(), hundred()); !errors.Is(err, quota.ErrResting) {
				t.Fatalf("got %v, want that the others have their time", err)
			}
			if err := busy.Restore(t.Context(), hundred(), grants, 0); err != nil {
				t.Fatal(err)
			}
			u, err := idle.Usage(t.Context(), hundred())
			if err != nil || u.Limits[0].Used != 10 {
				t.Errorf("got %+v, %v; want 10 units used", u, err)
			}
		})
	}
}

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
			if err := putBack(t.Context(), l, hundred(), 0, time.Now()); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := redistest.StartReal(t)
			idle := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "idle"})
			busy := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "busy"})
			test.known(t, idle)
			var grants []quota.Entry
			for range 10 {
				_, id, err := quota.ParseGrantID(acquireOne(t, busy, hundred(), "").GrantID)
				if err != nil {
					t.Fatal(err)
				}
				grants = append(grants, quota.NewEntry(ask("list", ""), id))
			}
			server.Order(t, "FLUSHALL")
			if err := idle.account("one").check(t.Context(), hundred()); !errors.Is(err, quota.ErrLost) {
				t.Fatalf("got %v from an emptied log, want that it was lost", err)
			}
			if err := putBack(t.Context(), idle, hundred(), time.Hour, time.Now()); err != nil {
				t.Fatal(err)
			}
			if err := idle.account("one").check(t.Context(), hundred()); !errors.Is(err, quota.ErrRecovering) {
				t.Fatalf("got %v, want that the others have their time", err)
			}
			if err := putBack(t.Context(), busy, hundred(), time.Hour, time.Now(), grants...); err != nil {
				t.Fatal(err)
			}
			if _, err := idle.Usage(t.Context(), hundred()); !errors.Is(err, quota.ErrRecovering) {
				t.Errorf("got %v from a log that may lack something, want that it is not known", err)
			}
			if n := server.Do(t, "ZCARD", idle.keys("one", "")[5]); n != int64(10) {
				t.Errorf("%v grants are staged, want 10", n)
			}
		})
	}
}

// What was granted alone goes into the log that is known. One that was lost since is
// not begun anew with it: others' grants would be missing.
func TestNothingIsBookedIntoALostLog(t *testing.T) {
	server := redistest.StartReal(t)
	l := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "a"})
	acquireOne(t, l, hundred(), "")
	server.Order(t, "FLUSHALL")
	alone := offlineGrant{id: quota.ID{Ms: time.Now().UnixMilli(), Seq: 1 << 16}, text: grantText(ask("list", ""), "-"), settledTo: "-"}
	if err := l.account("one").bookNow(t.Context(), hundred(), []offlineGrant{alone}); !errors.Is(err, quota.ErrLost) {
		t.Errorf("got %v, want that the log was lost", err)
	}
	if n := server.Do(t, "DBSIZE"); n != int64(0) {
		t.Errorf("a log was begun: %v keys", n)
	}
}

// loseMany empties Redis, and returns records that take two calls of a restore.
func (r *rig) loseMany() []quota.Entry {
	r.Helper()
	var records []quota.Entry
	for i := range stageStep + 1 {
		records = append(records, quota.NewEntry(ask("list", ""), quota.ID{Ms: time.Now().UnixMilli() - 1, Seq: int64(i)}))
	}
	r.must(putBack(r.Context(), r.ledger, r.c, 0, time.Now())) // loads the script
	r.server.Order(r, "FLUSHALL")
	return records
}

// A log that is lost between two calls of a restore lacks what the first one put back.
func TestLossDuringARestore(t *testing.T) {
	r := newRig(t, redistest.StartReal(t))
	records := r.loseMany()
	calls := 0
	r.proxy.Disturb(func(command []string) redistest.Fault {
		if redistest.IsScript(command) {
			if calls++; calls == 2 {
				r.server.Order(t, "FLUSHALL")
			}
		}
		return redistest.Pass
	})
	if err := putBack(t.Context(), r.ledger, r.c, time.Minute, time.Now(), records...); !errors.Is(err, quota.ErrLost) {
		t.Fatalf("got %v, want that the log was lost", err)
	}
	if err := putBack(t.Context(), r.ledger, r.c, 0, time.Now(), records...); err != nil {
		t.Fatal(err)
	}
	u, err := r.ledger.Usage(t.Context(), r.c)
	if err != nil || u.Limits[0].Used != stageStep+1 {
		t.Errorf("got %+v, %v; want every record once", u, err)
	}
}

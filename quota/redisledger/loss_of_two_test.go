package redisledger

import (
	"errors"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// beginTwo returns two daemons with one log.
func beginTwo(t *testing.T) (a, b *restoring) {
	t.Helper()
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	h := harness(redistest.Start(t))
	first, _ := h.Open(t, clock)
	second := h.Join(t)
	t.Cleanup(func() {
		first.Close()
		second.Close()
	})
	c := restored()
	return &restoring{t, clock, first.(*Ledger), c}, &restoring{t, clock, second.(*Ledger), c}
}

// keep copies the log, and returns what brings the copy back: as a failover to a
// lagging replica would.
func (r *restoring) keep() (back func()) {
	r.Helper()
	copies := make(map[string]string)
	for _, key := range r.ledger.keys("youtube", newView(r.c).digest) {
		if value, err := r.ledger.client.Dump(r.Context(), key).Result(); err == nil {
			copies[key] = value
		}
	}
	return func() {
		r.Helper()
		r.flush()
		for key, value := range copies {
			if err := r.ledger.client.RestoreReplace(r.Context(), key, 0, value).Err(); err != nil {
				r.Fatal(err)
			}
		}
	}
}

// The newest entry that a daemon knows may be another's. Once that one has put it
// back, the log must not look whole to the first.
func TestOneRestoreDoesNotHideAnothersLoss(t *testing.T) {
	for _, test := range []struct {
		name string
		lose func(r *restoring, back func())
	}{
		{"an older copy", func(_ *restoring, back func()) { back() }},
		{"the stream is evicted", func(r *restoring, _ func()) { r.evict("log") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := beginTwo(t)
			before := a.granted(5, "")
			back := a.keep()
			ofA := a.granted(10, "")
			a.clock.Add(time.Millisecond)
			ofB := b.granted(20, "")
			a.used(35) // a has heard of b's
			test.lose(a, back)
			b.missed()
			b.restore(0, ofB)
			a.missed()
			a.restore(0, before, ofA)
			a.used(35)
		})
	}
}

// A daemon that is known to have written to the log is waited for, longer than the log is
// quiet for the others.
func TestMissingDaemonIsWaitedFor(t *testing.T) {
	const quiet = 20 * time.Millisecond
	a, b := beginTwo(t)
	ofA := a.granted(10, "")
	b.used(10) // b has heard of a
	b.flush()
	b.missed()
	b.restore(quiet)
	account := b.ledger.account("youtube")
	for account.quiet.waited < 3*quiet {
		if err := account.check(t.Context(), b.c); !errors.Is(err, quota.ErrRecovering) {
			t.Fatalf("got %v, want that the missing daemon has its time", err)
		}
	}
	a.missed()
	a.restore(quiet, ofA)
	for err := error(quota.ErrRecovering); errors.Is(err, quota.ErrRecovering); {
		err = account.check(t.Context(), b.c)
	}
	b.used(10)
}

// A call that was sent before the daemon knew a log, and is answered by the next one,
// does not pass the next one off as the one it knows.
func TestLateAnswerOfAnotherLog(t *testing.T) {
	server := redistest.StartReal(t)
	proxy := redistest.NewProxy(t, server)
	late := openAt(t, Config{Addrs: []string{proxy.Addr}, Daemon: "late"})
	other := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "other"})
	acquireOne(t, other, hundred(), "")
	held, goOn, answered := make(chan struct{}), make(chan struct{}), make(chan error)
	first := true
	proxy.Disturb(func(command []string) redistest.Fault {
		if first && redistest.IsScript(command) {
			first = false
			close(held)
			<-goOn
		}
		return redistest.Pass
	})
	go func() {
		_, err := late.Usage(t.Context(), hundred())
		answered <- err
	}()
	<-held
	acquireOne(t, late, hundred(), "")
	server.Order(t, "FLUSHALL")
	stranger := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "stranger"})
	acquireOne(t, stranger, hundred(), "") // begins another log
	close(goOn)
	<-answered
	if err := late.account("one").check(t.Context(), hundred()); !errors.Is(err, quota.ErrLost) {
		t.Errorf("got %v, want that the log is lost", err)
	}
}

// The log is lost between the look that finds the rest over and the call that ends it.
func TestLossAsTheRestEnds(t *testing.T) {
	r := newRig(t, redistest.StartReal(t))
	r.acquire(ask("ten", ""))
	wake := func() error {
		r.must(putBack(t.Context(), r.ledger, r.c, time.Millisecond, time.Now()))
		for {
			if err := r.ledger.account(r.c.Name).check(t.Context(), r.c); !errors.Is(err, quota.ErrRecovering) {
				return err
			}
		}
	}
	r.must(wake()) // loads the script
	calls := make(map[string]int)
	r.proxy.Disturb(func(command []string) redistest.Fault {
		if redistest.IsScript(command) && command[1] == r.ledger.scripts.merge.Hash() {
			if calls["wake"]++; calls["wake"] == 1 {
				r.server.Order(t, "FLUSHALL")
			}
		}
		return redistest.Pass
	})
	if err := wake(); !errors.Is(err, quota.ErrLost) {
		t.Errorf("got %v, want that the log is lost", err)
	}
}

// What is broken off is begun again, however much of it is there.
func TestRestoreThatBreaksOff(t *testing.T) {
	r := newRig(t, redistest.StartReal(t))
	records := r.loseMany()
	calls := 0
	r.proxy.Disturb(func(command []string) redistest.Fault {
		if redistest.IsScript(command) {
			if calls++; calls > 1 {
				return redistest.CutBefore
			}
		}
		return redistest.Pass
	})
	if err := putBack(short(t), r.ledger, r.c, 0, time.Now(), records...); err == nil {
		t.Fatal("half a restore succeeds")
	}
	r.proxy.Disturb(func([]string) redistest.Fault { return redistest.Pass })
	if err := r.ledger.account(r.c.Name).check(t.Context(), r.c); !errors.Is(err, quota.ErrLost) {
		t.Errorf("got %v, want that a record is missing", err)
	}
}

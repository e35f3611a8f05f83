package redisledger

import (
	"errors"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

func TestOneKeyEvicted(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"account", "log", "settled"} {
		t.Run(name, func(t *testing.T) {
			r := beginRestoring(t)
			first := r.granted(20, "")
			if _, err := r.ledger.Settle(t.Context(), r.c, quota.Settlement{Grant: first.ID, Units: 0}); err != nil {
				t.Fatal(err)
			}
			r.granted(100, "")
			journal := r.journal()
			r.evict(name)
			r.missed()
			r.stage(0, journal...)
			r.used(100)
			r.clock.Add(time.Hour)
			r.used(0)
			r.granted(100, "")
		})
	}
}

func TestAccountEvictedAlone(t *testing.T) {
	t.Parallel()
	t.Run("before older records are put back", func(t *testing.T) {
		r := beginRestoring(t)
		older := r.alone(10, "")
		r.clock.Add(time.Millisecond)
		newer := r.granted(20, "")
		r.evict("account")
		r.lost()
		r.restore(0, older, newer)
		r.used(30)
	})
	t.Run("unnoticed, with settlements", func(t *testing.T) {
		r := beginRestoring(t)
		r.c.Limits[0].Units = 1000
		for range 200 {
			if _, err := r.ledger.Settle(t.Context(), r.c, quota.Settlement{Grant: r.granted(1, "").ID}); err != nil {
				t.Fatal(err)
			}
		}
		r.evict("account")
		r.expect(position{})
		r.used(0)
		r.clock.Add(time.Hour)
		r.many(300) // trims the settlements
		r.used(300)
	})
}

func TestCountingNoticesALoss(t *testing.T) {
	t.Parallel()
	r := beginRestoring(t)
	r.granted(100, "")
	r.flush()
	if err := r.ledger.account("youtube").count(t.Context(), r.c); err != nil {
		t.Fatal(err)
	}
	r.lost()
}

// A replica that lagged behind takes over, and another daemon is granted first.
func TestLaggingReplica(t *testing.T) {
	t.Parallel()
	r, _ := beginTwo(t)
	r.granted(10, "")
	back := r.keep()
	other := r.known()
	r.clock.Add(time.Second)
	r.granted(80, "")
	own := r.known()
	back()
	r.clock.Add(time.Second)
	r.expect(other)
	r.granted(1, "")
	r.expect(own)
	r.lost()
}

func TestAnotherDaemonsLogIsNoticed(t *testing.T) {
	t.Parallel()
	r := beginRestoring(t)
	r.granted(60, "")
	mark := r.known()
	r.flush()
	r.expect(position{}) // as a daemon that knows nothing
	r.granted(60, "")
	r.expect(mark)
	r.lost()
}

func TestOlderCopy(t *testing.T) {
	t.Parallel()
	r := beginRestoring(t)
	first := r.granted(10, "")
	mark := r.known()
	mark.newest.Ms += 5 // an entry that this copy does not have
	r.expect(mark)
	r.lost()
	missing := first
	missing.ID = mark.newest
	r.restore(0, first, missing)
	r.used(20)
}

// A daemon that is only denied hears how far the log goes, as one that is granted does.
func TestDeniedDaemonsKnowTheLog(t *testing.T) {
	t.Parallel()
	a, b := beginTwo(t)
	a.granted(100, "")
	if _, d, err := b.ask(1, ""); err != nil || d.Granted() {
		t.Fatalf("got %+v, %v; want a denial", d, err)
	}
	if got, want := b.known(), a.known(); got != want {
		t.Errorf("got the position %+v, want %+v", got, want)
	}
}

func TestNothingIsLostThatHadExpired(t *testing.T) {
	t.Parallel()
	r := beginRestoring(t)
	r.granted(100, "")
	r.clock.Add(time.Hour)
	r.flush() // as Redis does with the keys of a credential that nobody uses
	r.granted(100, "")
}

// A host that was granted nothing has nothing to put back after a loss. It must
// notice one all the same, or it begins a log in which others' grants are missing.
func TestLossIsNoticedByThoseWhoLostNothing(t *testing.T) {
	t.Parallel()
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
			server := redistest.Start(t)
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

// A call that was sent before the daemon knew a log, and is answered by the next one,
// does not pass the next one off as the one it knows.
func TestLateAnswerOfAnotherLog(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
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

// The newest entry that a daemon knows may be another's. Once that one has put it
// back, the log must not look whole to the first.
func TestOneRestoreDoesNotHideAnothersLoss(t *testing.T) {
	t.Parallel()
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

package redisledger

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

func TestQuietPeriodAfterALoss(t *testing.T) {
	t.Parallel()
	r := beginRestoring(t)
	record := r.granted(30, "")
	r.flush()
	r.restore(time.Hour, record)
	if _, _, err := r.ask(1, ""); !errors.Is(err, quota.ErrRecovering) {
		t.Fatalf("got %v right after a loss, want ErrRecovering", err)
	}
	r.clock.Add(59 * time.Minute) // Redis' clock was set
	if _, _, err := r.ask(1, ""); !errors.Is(err, quota.ErrRecovering) {
		t.Fatalf("got %v before the quiet period is over, want ErrRecovering", err)
	}
	const short = 30 * time.Millisecond
	begun := time.Now()
	r.restore(short, record) // by another daemon
	for err := quota.ErrRecovering; errors.Is(err, quota.ErrRecovering); {
		_, _, err = r.ask(30, "")
	}
	if lasted := time.Since(begun); lasted < short {
		t.Errorf("the quiet period lasted %v, want %v", lasted, short)
	}
	r.used(60)
}

// A daemon that is known to have written to the log is waited for, longer than the log is
// quiet for the others: until it has staged all that it knows.
func TestMissingDaemonIsWaitedFor(t *testing.T) {
	t.Parallel()
	const quiet = 20 * time.Millisecond
	for _, test := range []struct {
		name  string
		until func(a *restoring) // what the missing one does meanwhile
	}{
		{"it has not noticed", func(*restoring) {}},
		{"it has staged nothing yet", func(a *restoring) {
			if _, err := a.ledger.account("youtube").stage(t.Context(), a.c, nil, false, nil); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, b := beginTwo(t)
			ofA := a.granted(10, "")
			b.used(10) // b has heard of a
			a.ledger.quietTime = quiet
			b.flush()
			b.missed()
			b.restore(quiet)
			test.until(a)
			account := b.ledger.account("youtube")
			for account.quiet.waited < 3*quiet {
				if err := account.check(t.Context(), b.c); !errors.Is(err, quota.ErrRecovering) {
					t.Fatalf("got %v, want that the missing daemon has its time", err)
				}
			}
			a.missed()
			a.restore(quiet, ofA)
			b.settled()
			b.used(10)
		})
	}
}

// A log is lost twice, and nobody wrote to it in between, for all of it was spent. The daemon
// that is not there the second time is waited for nevertheless: nobody else can put back what it
// was granted.
func TestMissingDaemonIsWaitedForAfterASecondLoss(t *testing.T) {
	t.Parallel()
	const quiet = 20 * time.Millisecond
	hosts := beginSome(t, 3)
	a, b, c := hosts[0], hosts[1], hosts[2]
	ofA, ofB, ofC := a.granted(30, ""), b.granted(30, ""), c.granted(40, "")
	for _, h := range hosts {
		h.used(100) // it has heard of the others
	}
	a.flush()
	for _, h := range hosts {
		h.missed()
	}
	a.restore(quiet, ofA)
	b.restore(quiet, ofB)
	c.restore(quiet, ofC)
	for _, h := range hosts {
		h.settled()
		h.used(100)
	}

	a.flush() // c is not there
	a.missed()
	b.missed()
	a.restore(quiet, ofA)
	b.restore(quiet, ofB)
	account := a.ledger.account("youtube")
	for account.quiet.waited < 3*quiet {
		if err := account.check(t.Context(), a.c); !errors.Is(err, quota.ErrRecovering) {
			t.Fatalf("got %v, want that the missing daemon has its time", err)
		}
	}
	c.missed()
	c.restore(quiet, ofC)
	a.settled()
	for _, h := range hosts {
		h.used(100)
		if _, d, err := h.ask(1, ""); err != nil || d.Granted() {
			t.Errorf("got %+v, %v; want a denial: all was spent before", d, err)
		}
	}
}

// A daemon that never comes back is waited for ten times as long as the log is quiet.
func TestGoneDaemonIsNotWaitedForForEver(t *testing.T) {
	t.Parallel()
	const quiet = 20 * time.Millisecond
	a, b := beginTwo(t)
	a.granted(10, "")
	ofB := b.granted(20, "")
	b.used(30)
	b.flush()
	b.missed()
	b.restore(quiet, ofB)
	begun := time.Now()
	b.settled()
	if waited := time.Since(begun); waited < absence*quiet {
		t.Errorf("it was waited for %v, want %v", waited, absence*quiet)
	}
	b.used(20)
}

// A journal takes long to read. From before its first line on, and from step to step, nothing is
// granted, also to a host that knows nothing.
func TestQuietPeriodBeginsBeforeTheJournalIsRead(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	l, err := Open(Config{Addrs: []string{proxy.Addr}, Daemon: "a"}, Local{Journal: t.TempDir(), Keep: 48 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := hundred()
	c.Limits[0].Units = 10_000
	for range 6 {
		if _, err := l.Acquire(t.Context(), c, slices.Repeat([]quota.Ask{ask("list", "")}, 100)); err != nil {
			t.Fatal(err)
		}
	}
	fresh := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "b"})
	server.Order(t, "FLUSHALL")
	var steps []int // entries of each call
	proxy.Disturb(func(command []string) redistest.Fault {
		if command[0] != "evalsha" || command[1] != l.scripts.restore.Hash() {
			return redistest.Pass
		}
		if len(steps) > 0 {
			if d, err := fresh.Acquire(t.Context(), c, []quota.Ask{ask("list", "")}); !errors.Is(err, quota.ErrRecovering) {
				t.Errorf("got %+v, %v before step %d, want ErrRecovering", d, err, len(steps))
			}
		}
		steps = append(steps, (len(command)-3-6-7)/2)
		return redistest.Pass
	})
	if err := l.account(c.Name).recover(c); err != nil {
		t.Fatal(err)
	}
	if want := []int{0, stageStep, stageStep, 600 - 2*stageStep}; !slices.Equal(steps, want) {
		t.Errorf("got steps of %v entries, want %v", steps, want)
	}
}

// A daemon is forgotten when nothing that it wrote counts any more, also by one that is started
// again in between.
func TestDaemonIsForgottenWithItsEntries(t *testing.T) {
	t.Parallel()
	a, b := beginTwo(t)
	a.granted(10, "")
	known := func() bool {
		b.used(0)
		account := b.ledger.account("youtube")
		account.mu.Lock()
		defer account.mu.Unlock()
		_, ok := parseDaemons(formatDaemons(account.daemons))[a.ledger.tag]
		return ok
	}
	a.clock.Add(time.Hour)
	if !known() {
		t.Error("the daemon is forgotten in the hour in which the journal may not have been told of it")
	}
	a.clock.Add(time.Hour + time.Millisecond)
	if known() {
		t.Error("the daemon is known for ever")
	}
}

// More than twenty daemons share a log: none of them is waited for that is there.
func TestManyDaemonsPutBack(t *testing.T) {
	t.Parallel()
	const quiet = 20 * time.Millisecond
	hosts := beginSome(t, 30)
	entries := make([]quota.Entry, len(hosts))
	for i, h := range hosts {
		entries[i] = h.granted(1, "")
	}
	first := hosts[0]
	first.used(30)
	first.flush()
	for i, h := range hosts {
		h.missed()
		h.restore(quiet, entries[i])
	}
	account := first.ledger.account("youtube")
	for err := error(quota.ErrRecovering); errors.Is(err, quota.ErrRecovering); {
		if account.quiet.waited >= 2*quiet {
			t.Fatal("somebody is waited for")
		}
		err = account.check(t.Context(), first.c)
	}
	first.used(30)
}

// More leaves the windows during a quiet period than one call takes out of them. A daemon with
// an unanswered call, which it settles first, must end it all the same.
func TestMuchLeavesDuringTheQuietPeriod(t *testing.T) {
	t.Parallel()
	r := beginRestoring(t)
	r.c.Limits[0].Units = 10_000
	r.many(2000)
	r.clock.Add(time.Minute)
	r.granted(1, "")
	r.forget()
	r.restore(time.Millisecond)
	r.clock.Add(59*time.Minute + 30*time.Second)
	for err := quota.ErrRecovering; errors.Is(err, quota.ErrRecovering); {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		err = r.ledger.account("youtube").check(ctx, r.c)
		cancel()
		if err != nil && !errors.Is(err, quota.ErrRecovering) {
			t.Fatalf("got %v, want that the quiet period ends", err)
		}
	}
	r.used(0)
}

// The log is lost between the look that finds the quiet period over and the call that ends it.
func TestLossAsTheQuietPeriodEnds(t *testing.T) {
	t.Parallel()
	r := newProxied(t, redistest.Start(t))
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

package redisledger

import (
	"context"
	"errors"
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
			for err := error(quota.ErrRecovering); errors.Is(err, quota.ErrRecovering); {
				err = account.check(t.Context(), b.c)
			}
			b.used(10)
		})
	}
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

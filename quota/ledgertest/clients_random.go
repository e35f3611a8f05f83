package ledgertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/seedtest"
)

// RandomClients plays random histories of both algorithms, as many of each as seedtest.LongVariable says, against the
// store and the naive model at once, and compares every answer.
func RandomClients(t *testing.T, harness ClientHarness, lives int) {
	seedtest.SkipUnderRace(t)
	seed, lives := seedtest.Seed(t, 1), seedtest.Long(t, lives)
	for _, algorithm := range []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter} {
		t.Run(string(algorithm), func(t *testing.T) {
			r := &randomClients{clientHistory: beginClients(t, harness, algorithm, time.Minute, true)}
			stores := []clientlimit.Store{r.store}
			if harness.Join != nil {
				stores = append(stores, harness.Join(t), harness.Join(t))
			}
			for n := 0; n < lives && !t.Failed(); n++ {
				if harness.Join == nil && n%20 == 0 { // a restart takes as long as there are records
					r.store, r.reopen = harness.Open(t, r.clock)
					stores[0] = r.store
				}
				r.play(n, stores, rand.New(rand.NewPCG(seed, uint64(n))))
			}
		})
	}
}

// stepsOfClients is how long a history is.
const stepsOfClients = 40

// A randomClients is hosts that share records, and a model that is asked the same.
type randomClients struct {
	*clientHistory
	Transcript
	rand  *rand.Rand
	model *clientModel
	hosts []clientHost
}

// A clientHost is a store, and what is configured there.
type clientHost struct {
	store clientlimit.Store
	c     clientlimit.Clients
}

// play plays a history of clients with a name of their own.
func (r *randomClients) play(n int, stores []clientlimit.Store, random *rand.Rand) {
	r.rand, r.c.Name = random, fmt.Sprint("random", n)
	r.Transcript = Transcript{Now: r.clock.Now}
	r.Say("history %d", n)
	r.clock.Set(nineOClock)
	r.model = &clientModel{clock: r.clock.Now, subjects: make(map[string]*modelSubject)}
	r.draw()
	r.hosts = nil
	for _, store := range stores {
		r.hosts = append(r.hosts, clientHost{store, r.c})
	}
	for range stepsOfClients {
		r.step()
	}
	r.configure()
	for _, subject := range subjectsOfClients {
		r.compareUsage(subject)
	}
	stores[0] = r.hosts[0].store // it may have been opened again
}

var subjectsOfClients = []string{"alice", "192.0.2.1", "c"}

// draw draws limits of few sets of windows, so that hosts meet in one.
func (r *randomClients) draw() {
	r.c.Limits = nil
	windows := []time.Duration{time.Minute, 61 * time.Second, 7 * time.Minute, time.Hour}
	windows = windows[r.rand.IntN(4):]
	for _, window := range windows {
		r.c.Limits = append(r.c.Limits, quota.Limit{
			Name: fmt.Sprint("w", int(window.Seconds())), Window: quota.Sliding(window), Units: quota.Units(1 + r.rand.IntN(60)),
			DryRun: r.rand.IntN(5) == 0,
		})
	}
}

func (r *randomClients) step() {
	n := r.rand.IntN(len(r.hosts))
	r.store, r.c = r.hosts[n].store, r.hosts[n].c
	r.configure()
	subject := subjectsOfClients[r.rand.IntN(len(subjectsOfClients))]
	switch what := r.rand.IntN(100); {
	case what < 60:
		units := quota.Units(1 + r.rand.IntN(9))
		r.Say("host %d: %s asks for %d of %+v", n, subject, units, r.c.Limits)
		got, want := r.ask(subject, units), r.model.ask(&r.c, subject, units)
		got.Detail, got.Hint, want.Detail, want.Hint = "", "", "", ""
		r.same(r, "the decision", got, want)
	case what < 85:
		r.moveClock()
	case what < 93:
		r.compareUsage(subject)
	case what < 94:
		r.Say("reset %s", subject)
		Must(r, r.service.Reset(context.Background(), r.c.Name, subject))
		r.model.reset(&r.c, subject)
	case what < 98:
		r.draw()
		r.Say("host %d has limits %+v", n, r.c.Limits)
	case len(r.hosts) == 1:
		r.Say("restart")
		r.store = r.reopen()
	}
	r.hosts[n] = clientHost{r.store, r.c}
}

func (r *randomClients) moveClock() {
	steps := []time.Duration{
		time.Millisecond, 17 * time.Millisecond, time.Second, 9 * time.Second, time.Minute - time.Millisecond, time.Minute,
		7 * time.Minute, 31 * time.Minute, -time.Second, -2 * time.Hour,
	}
	now, step := r.clock.Now(), steps[r.rand.IntN(len(steps))]
	// Back to before a record's end a store may know it still, or not.
	if step < 0 && r.model.ends(now.Add(step), now) {
		return
	}
	r.Say("clock %+v", step)
	r.clock.Add(step)
}

func (r *randomClients) compareUsage(subject string) {
	r.Helper()
	got, _, err := r.service.Usage(context.Background(), r.c.Name, subject)
	Must(r, err)
	r.same(r, "usage of "+subject, got, r.model.usage(&r.c, subject))
}

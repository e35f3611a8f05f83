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

// RandomClients plays random histories, of both algorithms, against the ledger and the
// naive model at once, and compares every answer.
func RandomClients(t *testing.T, harness ClientHarness) {
	seedtest.SkipUnderRace(t)
	seed, steps := seedtest.Seed(t, 1), stepsOf(t)
	const life = 1000
	for n := 0; n*life < steps; n++ {
		algorithm := []clientlimit.Algorithm{clientlimit.Log, clientlimit.Counter}[n%2]
		t.Run(fmt.Sprint(n, " ", algorithm), func(t *testing.T) {
			r := newRandomClients(t, harness, algorithm, rand.New(rand.NewPCG(seed, uint64(n))))
			for range min(life, steps-n*life) {
				r.step()
			}
			for _, subject := range r.subjects {
				r.compareUsage(subject)
			}
		})
		if t.Failed() {
			return
		}
	}
}

// A randomClients is ledgers of the same records and a model that are asked the same.
type randomClients struct {
	*clientHistory
	transcript
	rand     *rand.Rand
	model    *ClientModel
	subjects []string
	hosts    []clientHost
	salts    map[string]clientlimit.Salt // by group
}

// A clientHost is a ledger, and what is configured there.
type clientHost struct {
	ledger ClientLedger
	c      *clientlimit.Clients
}

func newRandomClients(t *testing.T, harness ClientHarness, algorithm clientlimit.Algorithm, random *rand.Rand) *randomClients {
	r := &randomClients{clientHistory: beginClients(t, harness, algorithm), rand: random, subjects: []string{"alice", "192.0.2.1", "c"}, salts: make(map[string]clientlimit.Salt)}
	r.model = NewClientModel(r.clock.Now)
	r.transcript = transcript{test: t, now: r.clock.Now}
	r.hosts = []clientHost{{r.ledger, r.clients()}}
	for harness.Join != nil && len(r.hosts) < 3 {
		r.hosts = append(r.hosts, clientHost{harness.Join(t), r.hosts[0].c})
	}
	return r
}

// clients draws limits of few sets of windows, so that hosts meet in one.
func (r *randomClients) clients() *clientlimit.Clients {
	c := &clientlimit.Clients{Name: "random", Algorithm: r.c.Algorithm}
	windows := []time.Duration{time.Minute, 61 * time.Second, 7 * time.Minute, time.Hour}
	windows = windows[r.rand.IntN(4):]
	r.rand.Shuffle(len(windows), func(i, j int) { windows[i], windows[j] = windows[j], windows[i] })
	for _, window := range windows {
		c.Limits = append(c.Limits, quota.Limit{
			Name: window.String(), Window: quota.Sliding(window), Units: quota.Units(1 + r.rand.IntN(60)), DryRun: r.rand.IntN(5) == 0,
		})
	}
	return c
}

func (r *randomClients) step() {
	n := r.rand.IntN(len(r.hosts))
	r.ledger, r.c = r.hosts[n].ledger, r.hosts[n].c
	switch what := r.rand.IntN(100); {
	case what < 60:
		r.askBoth()
	case what < 85:
		r.moveClock()
	case what < 93:
		r.compareUsage(r.subject())
	case what < 94:
		r.resetBoth()
	case what < 98:
		r.c = r.clients()
		r.say("host %d has limits %+v", n, r.c.Limits)
	case len(r.hosts) == 1:
		r.say("reopen")
		r.ledger = r.reopen()
	}
	r.hosts[n] = clientHost{r.ledger, r.c}
}

func (r *randomClients) subject() string { return r.subjects[r.rand.IntN(len(r.subjects))] }

// ask returns what a subject asks for, of the ledger in the period that it is, and of the model.
func (r *randomClients) ask(subject string, units quota.Units) (ask, ofModel clientlimit.Ask) {
	group := r.c.Place("").Group
	r.salts[group] = r.salts[group].At(r.c, r.clock.Now().UnixMilli())
	return r.c.Ask(r.salts[group], subject, units), clientlimit.Ask{Subject: clientlimit.Key(subject), Units: units}
}

func (r *randomClients) askBoth() {
	n := 1 + r.rand.IntN(4)
	asks, ofModel := make([]clientlimit.Ask, n), make([]clientlimit.Ask, n)
	for i := range asks {
		asks[i], ofModel[i] = r.ask(r.subject(), quota.Units(1+r.rand.IntN(9)))
	}
	r.say("ask %+v by %+v", ofModel, r.c.Limits)
	got := r.decide(asks...)
	want := r.model.Decide(context.Background(), r.c, ofModel)
	for i := range asks {
		got[i].Detail, got[i].Hint, want[i].Detail = "", "", ""
		r.same(fmt.Sprintf("ask %d %+v", i, ofModel[i]), got[i], want[i])
	}
}

func (r *randomClients) moveClock() {
	steps := []time.Duration{
		time.Millisecond, 17 * time.Millisecond, time.Second, 9 * time.Second, time.Minute - time.Millisecond, time.Minute,
		7 * time.Minute, 31 * time.Minute, -time.Second, -2 * time.Hour,
	}
	now := r.clock.Now()
	step := append(steps, now.Truncate(24*time.Hour).Add(24*time.Hour-2*time.Minute).Sub(now))[r.rand.IntN(len(steps)+1)] // a period ends soon
	// Back to before a record's end a ledger may know it still, or not.
	if step < 0 && r.model.ends(now.Add(step), now) {
		return
	}
	r.say("clock %+v", step)
	r.clock.Add(step)
}

func (r *randomClients) resetBoth() {
	subject := r.subject()
	r.say("reset %q", subject)
	ask, ofModel := r.ask(subject, 0)
	if err := r.ledger.Reset(context.Background(), r.c, ask); err != nil {
		r.Fatal(err)
	}
	_ = r.model.Reset(context.Background(), r.c, ofModel)
}

func (r *randomClients) compareUsage(subject string) {
	r.Helper()
	ask, ofModel := r.ask(subject, 0)
	got, err := r.ledger.Usage(context.Background(), r.c, ask)
	if err != nil {
		r.Fatal(err)
	}
	want, _ := r.model.Usage(context.Background(), r.c, ofModel)
	r.same("usage of "+subject, got, want)
}

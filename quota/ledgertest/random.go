package ledgertest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/seedtest"
)

// Random plays a random history against the ledger and the naive model at once,
// and compares every answer.
func Random(t *testing.T, h Harness) {
	seedtest.SkipUnderRace(t)
	seed, steps := seedtest.Seed(t, 1), stepsOf(t)
	// Several lives, so that each begins with an empty ledger and new limits.
	const life = 1000
	for n := 0; n*life < steps; n++ {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			r := newRandom(t, h, seed, uint64(n))
			for range min(life, steps-n*life) {
				r.step()
			}
			r.compareAll()
		})
		if t.Failed() {
			return
		}
	}
}

// stepsOf returns how many steps are played.
func stepsOf(t *testing.T) int { return seedtest.Long(t, 5000) }

// A random is a ledger and a model that are asked the same.
type random struct {
	*history
	transcript
	rand   *rand.Rand
	model  *Model
	grants []granted
	hosts  []host
}

func newRandom(t *testing.T, h Harness, seed, n uint64) *random {
	r := &random{rand: rand.New(rand.NewPCG(seed, n))}
	r.history = begin(t, h, nil)
	r.transcript = transcript{test: t, now: r.clock.Now}
	r.model = NewModel(r.clock.Now)
	r.hosts = []host{{r.history.ledger, r.credential()}}
	if h.Join != nil {
		joined := h.Join(t)
		t.Cleanup(func() { joined.Close() })
		r.hosts = append(r.hosts, host{joined, r.credential()})
	}
	r.c = r.hosts[0].c
	return r
}

// A granted is a grant as the ledger names it, and as the model does: a ledger draws the
// second number of an id.
type granted struct{ ledger, model quota.ID }

// A host is a ledger of the shared log, and what is configured there.
type host struct {
	ledger quota.Ledger
	c      *quota.Credential
}

// credential draws limits and costs. The first limit's window is the longest
// there will ever be, so that the log always reaches back far enough: how a
// ledger answers when it does not is a history of its own.
func (r *random) credential() *quota.Credential {
	longest := quota.Limit{Name: "longest", Units: quota.Units(50 + r.rand.IntN(500)), Window: quota.Sliding(time.Hour)}
	c := &quota.Credential{Name: "random", Limits: []quota.Limit{longest}, Operations: map[string]quota.Cost{
		"one":   {Every: 1},
		"seven": {Every: 7},
		"per":   {Per: map[string]quota.Units{"longest": quota.Units(1 + r.rand.IntN(40))}},
	}}
	windows := []quota.Window{
		quota.Sliding(time.Minute), quota.Sliding(10*time.Minute + 7*time.Millisecond), quota.Sliding(time.Hour),
		quota.Calendar(quota.Hour, time.UTC), quota.Anchored(20*time.Minute, time.Date(2030, 1, 1, 0, 7, 13, 5e6, time.UTC)),
	}
	for _, name := range []string{"a", "b"}[:r.rand.IntN(3)] {
		limit := quota.Limit{Name: name, Units: quota.Units(40 + r.rand.IntN(200)), Window: windows[r.rand.IntN(len(windows))]}
		limit.Reserve = quota.Units(r.rand.IntN(20))
		if r.rand.IntN(2) == 0 {
			limit.Only = []string{"seven"}
		}
		limit.DryRun = r.rand.IntN(5) == 0
		switch r.rand.IntN(4) {
		case 0:
			limit.Jobs = r.someJobs()
		case 1:
			limit.ExceptJobs = r.someJobs()
		}
		c.Limits = append(c.Limits, limit)
		if r.rand.IntN(2) == 0 && len(limit.Only) == 0 {
			c.Operations["per"].Per[name] = quota.Units(1 + r.rand.IntN(20))
		}
	}
	return c
}

// someJobs draws some of the jobs and the remote caller, "" of callers outside any pass left out.
func (r *random) someJobs() []string {
	return [][]string{{"job"}, {"other", "remote/shop"}, {"job", "other"}}[r.rand.IntN(3)]
}

func (r *random) step() {
	n := r.rand.IntN(len(r.hosts))
	r.history.ledger, r.c = r.hosts[n].ledger, r.hosts[n].c
	if len(r.hosts) > 1 {
		r.say("host %d", n)
	}
	r.act()
	r.hosts[n] = host{r.history.ledger, r.c}
}

func (r *random) act() {
	switch n := r.rand.IntN(100); {
	case n < 60:
		r.askBoth()
	case n < 65:
		r.peekBoth()
	case n < 78:
		r.moveClock()
	case n < 86:
		r.settleBoth()
	case n < 88:
		r.adjustBoth()
	case n < 90:
		r.closeBoth()
	case n < 95:
		r.compareUsage()
	case n < 97:
		r.changeLimits()
	case n < 98:
		if len(r.hosts) == 1 {
			r.say("reopen")
			r.again()
		}
	default:
		r.compareLog()
	}
}

func (r *random) askBoth() {
	asks := make([]quota.Ask, 1+r.rand.IntN(4))
	for i := range asks {
		asks[i] = r.randomAsk()
		r.say("ask %+v", asks[i])
	}
	got := r.acquireAll(asks...)
	want, _ := r.model.Acquire(context.Background(), r.c, asks)
	for i := range asks {
		r.same(fmt.Sprintf("ask %d %+v", i, asks[i]), r.comparable(got[i]), r.comparable(want[i]))
		_, ledger, err1 := quota.ParseGrantID(got[i].GrantID)
		_, model, err2 := quota.ParseGrantID(want[i].GrantID)
		if err1 == nil && err2 == nil {
			r.grants = append(r.grants, granted{ledger, model})
		}
	}
}

func (r *random) peekBoth() {
	ask := r.randomAsk()
	r.say("peek %+v", ask)
	got, err := r.ledger.Peek(context.Background(), r.c, []string{ask.Operation}, ask.Charges, ask.UseReserve)
	if err != nil {
		r.Fatal(err)
	}
	want, _ := r.model.Peek(context.Background(), r.c, []string{ask.Operation}, ask.Charges, ask.UseReserve)
	r.same("peek", r.comparable(got), r.comparable(want))
}

// randomAsk draws a request that fits an empty window: what never can does not
// reach a ledger.
func (r *random) randomAsk() quota.Ask {
	for {
		operation := []string{"one", "one", "seven", "per"}[r.rand.IntN(4)]
		request := quota.Request{Operation: operation, Count: quota.Units(1 + r.rand.IntN(4)), UseReserve: r.rand.IntN(4) == 0}
		if r.rand.IntN(3) > 0 {
			request.Caller = []quota.Caller{{Job: "job", Run: "s"}, {Job: "other", Run: "s"}, {Remote: "shop", UID: -1}}[r.rand.IntN(3)]
		}
		if r.rand.IntN(3) == 0 {
			request.RequestID = strconv.Itoa(r.rand.IntN(30))
			request.Caller = quota.Caller{Job: "job", Run: "r", Region: []string{"US", "GB"}[r.rand.IntN(2)]}
		}
		ask := r.ask(request)
		if r.canFit(ask) {
			return ask
		}
	}
}

func (r *random) canFit(ask quota.Ask) bool {
	for _, charge := range ask.Charges {
		limit, _ := r.c.Limit(charge.Limit)
		if limit.DryRun {
			continue
		}
		if charge.Units > limit.Budget(ask.UseReserve) {
			return false
		}
	}
	return true
}

// comparable leaves out what is worded by each ledger itself.
func (r *random) comparable(d quota.Decision) quota.Decision {
	d.Detail, d.Hint = "", ""
	if c, id, err := quota.ParseGrantID(d.GrantID); err == nil {
		d.GrantID = quota.GrantID(c, instant(id))
	}
	if d.Reason == quota.RequestIDConflict {
		return quota.Decision{Reason: d.Reason}
	}
	return d
}

// instant is what an id says of the time.
func instant(id quota.ID) quota.ID { return quota.ID{Ms: id.Ms} }

// instants leaves of a page what any ledger says.
func instants(page quota.LogPage) quota.LogPage {
	page.Next = instant(page.Next)
	for i := range page.Entries {
		e := &page.Entries[i]
		e.ID, e.Gen = instant(e.ID), 0
		switch b := e.Body.(type) {
		case quota.Grant:
			b.SettledBy = quota.ID{}
			e.Body = b
		case quota.Settled:
			b.Grant = instant(b.Grant)
			e.Body = b
		case quota.Adjusted:
			b.Gives = nil
			e.Body = b
		case quota.Reset:
			e.Body = quota.Reset{}
		}
	}
	return page
}

func (r *random) moveClock() {
	steps := []time.Duration{
		time.Millisecond, 17 * time.Millisecond, time.Second, time.Minute - time.Millisecond, time.Minute,
		7 * time.Minute, 31 * time.Minute, -time.Second, -2 * time.Hour,
	}
	step := steps[r.rand.IntN(len(steps))]
	// A ledger's time stands still from its newest entry on. Further than that a
	// step back would show what a ledger has trimmed already.
	if step < 0 && r.model.newest(r.c).Ms != r.clock.Now().UnixMilli() {
		return
	}
	r.say("clock %+v", step)
	r.clock.Add(step)
}

func (r *random) settleBoth() {
	if len(r.grants) == 0 {
		return
	}
	// Mostly a recent grant; older ones may have left the window.
	recent := min(len(r.grants), 10)
	at := len(r.grants) - 1 - r.rand.IntN(recent)
	if r.rand.IntN(5) == 0 {
		at = r.rand.IntN(len(r.grants))
	}
	s := quota.Settlement{
		Grant: r.grants[at].ledger, Units: quota.Units(r.rand.IntN(60)), Caller: quota.Caller{UID: 1},
		Bounded: r.rand.IntN(2) == 0, UseReserve: r.rand.IntN(4) == 0,
	}
	if r.rand.IntN(3) == 0 {
		s.Units, s.Caller = s.Units*s.Units, quota.Caller{Remote: "shop"}
	}
	r.say("settle %+v", s)
	got, err := r.ledger.Settle(context.Background(), r.c, s)
	if err != nil {
		r.Fatal(err)
	}
	s.Grant = r.grants[at].model
	want, _ := r.model.Settle(context.Background(), r.c, s)
	if !got.Granted() {
		got = quota.Decision{Reason: got.Reason}
	}
	r.same("settle", r.comparable(got), r.comparable(want))
}

func (r *random) adjustBoth() {
	a := quota.Adjustment{Limit: r.c.Limits[r.rand.IntN(len(r.c.Limits))].Name, Units: int64(1 + r.rand.IntN(40))}
	if r.rand.IntN(3) > 0 {
		a.Units = -2 * a.Units
	}
	r.say("adjust %+v", a)
	got, err := r.ledger.Adjust(context.Background(), r.c, a)
	if err != nil {
		r.Fatal(err)
	}
	want, _ := r.model.Adjust(context.Background(), r.c, a)
	r.same("adjust", got.Units, want.Units)
}

// closeBoth closes a limit for a while, or opens it.
func (r *random) closeBoth() {
	k := quota.Change{Kind: quota.KindOpening, Limit: r.c.Limits[r.rand.IntN(len(r.c.Limits))].Name, Note: "says, the upstream", Caller: quota.Caller{UID: 1}}
	if r.rand.IntN(4) > 0 {
		k.Kind, k.Until = quota.KindClosing, time.UnixMilli(r.clock.Now().UnixMilli()).UTC().Add(time.Duration(r.rand.IntN(600)-60)*time.Second)
	}
	r.say("close %+v", k)
	got, err := r.ledger.ChangeLimit(context.Background(), r.c, k)
	if err != nil {
		r.Fatal(err)
	}
	want, _ := r.model.ChangeLimit(context.Background(), r.c, k)
	r.same("close", got, want)
}

func (r *random) compareUsage() {
	want, _ := r.model.Usage(context.Background(), r.c)
	r.same("usage", r.usage(), want)
}

// compareLog compares what is in some window; further back a ledger forgets as
// it sees fit.
func (r *random) compareLog() {
	u := r.usage()
	q := quota.LogQuery{Max: 1 + r.rand.IntN(50), Newest: r.rand.IntN(2) == 0, Since: u.Now.Add(-time.Hour + time.Millisecond)}
	want, _ := r.model.Log(context.Background(), r.c, q)
	r.same("log", instants(r.history.log(q)), instants(want))
}

func (r *random) compareAll() {
	for _, h := range r.hosts {
		r.history.ledger, r.c = h.ledger, h.c
		r.compareUsage()
		r.compareLog()
	}
	r.history.ledger, r.c = r.hosts[0].ledger, r.hosts[0].c
	r.again()
	r.compareUsage()
	r.compareLog()
}

// changeLimits draws new limits and costs; what the log holds stays.
func (r *random) changeLimits() {
	r.c = r.credential()
	r.say("limits %+v", r.c)
}

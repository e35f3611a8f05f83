package ledgertest

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/seedtest"
)

// stepsOfALife is how long a ledger is played: then an empty one begins.
const stepsOfALife = 150

// Random plays random histories against the ledger and the naive model at once, and compares every answer. It plays
// lives ledgers, or as many as seedtest.LongVariable says.
func Random(t *testing.T, h Harness, lives int) {
	seedtest.SkipUnderRace(t)
	seed := seedtest.Seed(t, 1)
	for n := range seedtest.Long(t, lives) {
		t.Run(strconv.Itoa(n), func(t *testing.T) {
			r := newRandom(t, h, seed, uint64(n))
			for range stepsOfALife {
				r.step()
			}
			r.compareAll()
		})
		if t.Failed() {
			return
		}
	}
}

// A random is a ledger and a model that are asked the same.
type random struct {
	*history
	Transcript
	rand   *rand.Rand
	model  *Model
	grants []quota.ID // of grants and bookings
	asked  []request
	hosts  []host
}

// A request was made at a time. Its id is used again until the log may forget it.
type request struct {
	quota.Request
	at time.Time
}

// A host is a ledger of the shared log, and what is configured there.
type host struct {
	*history
	c *quota.Credential
}

// kept is for how long all logs keep entries: what a window counts does not depend on what was forgotten.
const kept = 30 * time.Hour

// starts are times at which histories begin: the hours around changes of the clocks in California, and any.
var starts = []time.Time{
	time.Date(2126, 3, 10, 4, 0, 0, 0, time.UTC), time.Date(2126, 11, 2, 22, 0, 0, 0, time.UTC), begins,
}

func newRandom(t *testing.T, h Harness, seed, n uint64) *random {
	r := &random{rand: rand.New(rand.NewPCG(seed, n))}
	r.history = begin(t, h, nil)
	r.clock.Set(starts[r.rand.IntN(len(starts))])
	r.Transcript = Transcript{Now: r.clock.Now}
	r.model = NewModel(r.clock.Now)
	c := r.credential()
	r.use(c)
	r.hosts = []host{{r.history, c}}
	if h.Join != nil {
		c := r.credential()
		r.hosts = append(r.hosts, host{r.join(c), c})
	}
	return r
}

// credential draws limits and costs.
func (r *random) credential() *quota.Credential {
	longest := quota.Limit{Name: "longest", Units: quota.Units(50 + r.rand.IntN(500)), Window: quota.Sliding(time.Hour)}
	c := &quota.Credential{Name: "random", Keep: kept, Limits: []quota.Limit{longest}, Operations: map[string]quota.Cost{
		"one":   {Every: 1},
		"seven": {Every: 7},
		"per":   {Per: map[string]quota.Units{"longest": quota.Units(1 + r.rand.IntN(40))}},
	}}
	california, err := time.LoadLocation("America/Los_Angeles")
	Must(r, err)
	windows := []quota.Window{
		quota.Sliding(time.Minute), quota.Sliding(10*time.Minute + 7*time.Millisecond), quota.Sliding(24 * time.Hour),
		quota.Calendar(quota.Hour, time.UTC), quota.Calendar(quota.Day, california),
		quota.Anchored(20*time.Minute, time.Date(2030, 1, 1, 0, 7, 13, 5e6, time.UTC)),
	}
	for _, name := range []string{"would", "b-a", "a"}[:r.rand.IntN(4)] {
		limit := quota.Limit{Name: name, Units: quota.Units(40 + r.rand.IntN(200))}
		limit.Window = windows[r.rand.IntN(len(windows))]
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
	r.history, r.c = r.hosts[n].history, r.hosts[n].c
	if len(r.hosts) > 1 {
		r.Say("host %d", n)
	}
	r.act()
	r.hosts[n].c = r.c
}

func (r *random) act() {
	switch n := r.rand.IntN(100); {
	case n < 55:
		r.askBoth()
	case n < 60:
		r.peekBoth()
	case n < 76:
		r.moveClock()
	case n < 85:
		r.settleBoth()
	case n < 87:
		r.bookBoth()
	case n < 90:
		for range 1 + r.rand.IntN(3) { // of several that are closed, one is named
			r.closeBoth()
		}
	case n < 94:
		r.compareUsage()
	case n < 96:
		r.use(r.credential()) // what the log has stays
		r.Say("limits %+v", r.c)
	case n < 97:
		r.resetBoth()
	case n < 98:
		if len(r.hosts) == 1 {
			r.Say("reopen")
			r.again()
		}
	default:
		r.compareLog()
	}
}

// both asks the ledger and the model the same.
func both[T any](r *random, verb string, of any, ask func(quota.Ledger) (T, error)) (got, want T) {
	r.Say("%s %+v", verb, of)
	got, err := ask(r.ledger)
	Must(r, err)
	want, err = ask(r.model)
	Must(r, err)
	return got, want
}

func (r *random) askBoth() {
	ask := r.randomAsk()
	got, want := both(r, "ask", ask, func(l quota.Ledger) (quota.Decision, error) {
		return l.Acquire(context.Background(), r.c, ask)
	})
	r.same(r, "ask", comparable(got), comparable(want))
	if want.Granted() && !want.Replayed {
		r.grants = append(r.grants, ask.ID())
		r.asked = append(r.asked, request{ask.Request, r.clock.Now()})
	}
}

func (r *random) peekBoth() {
	ask := r.randomAsk()
	got, want := both(r, "peek", ask, func(l quota.Ledger) (quota.Decision, error) {
		return l.Peek(context.Background(), r.c, []string{ask.Operation}, ask.Charges, ask.UseReserve)
	})
	r.same(r, "peek", comparable(got), comparable(want))
}

// randomAsk draws a request that fits an empty window: what never can does not reach a ledger.
func (r *random) randomAsk() quota.Ask {
	for {
		request := quota.Request{Operation: []string{"one", "one", "seven", "per"}[r.rand.IntN(4)],
			Count: quota.Units(1 + r.rand.IntN(4)), UseReserve: r.rand.IntN(4) == 0}
		callers := []quota.Caller{
			{UID: 7}, {UID: 8}, {Job: "job", Run: "s"}, {Job: "other", Run: "s", Region: "US"}, {Remote: "shop", UID: -1},
		}
		request.Caller = callers[r.rand.IntN(len(callers))]
		request.RequestID = strconv.Itoa(len(r.asked))
		if r.rand.IntN(6) == 0 {
			request = r.onceMore(request)
		}
		ask := r.ask(request)
		if r.canFit(ask) {
			return ask
		}
	}
}

// onceMore returns a request that was granted a while ago, or another one under its id.
func (r *random) onceMore(other quota.Request) quota.Request {
	if len(r.asked) == 0 {
		return other
	}
	was := r.asked[len(r.asked)-1-r.rand.IntN(min(len(r.asked), 8))]
	if r.clock.Now().Sub(was.at) > kept-time.Hour {
		return other
	}
	switch r.rand.IntN(6) {
	case 0, 1:
		was.Operation, was.Count = other.Operation, other.Count
	case 2:
		was.Caller = other.Caller
	}
	return was.Request
}

func (r *random) canFit(ask quota.Ask) bool {
	return !slices.ContainsFunc(ask.Charges, func(charge quota.Charge) bool {
		limit, _ := r.c.Limit(charge.Limit)
		return !limit.DryRun && charge.Units > limit.Budget(ask.UseReserve)
	})
}

// comparable leaves out what is worded by each ledger itself.
func comparable(d quota.Decision) quota.Decision {
	if !d.Granted() && !d.Denied() {
		return quota.Decision{Reason: d.Reason}
	}
	d.Detail, d.Hint = "", ""
	return d
}

func (r *random) moveClock() {
	steps := []time.Duration{
		time.Microsecond, 17 * time.Millisecond, time.Second, time.Minute - time.Millisecond, time.Minute,
		7*time.Minute + 3*time.Microsecond, 31 * time.Minute, 5 * time.Hour, -time.Second, -2 * time.Hour,
	}
	step := steps[r.rand.IntN(len(steps))]
	r.Say("clock %+v", step)
	r.clock.Add(step)
}

func (r *random) settleBoth() {
	if len(r.grants) == 0 {
		return
	}
	at := len(r.grants) - 1 - r.rand.IntN(min(len(r.grants), 10)) // mostly a recent one; older ones may have left
	if r.rand.IntN(5) == 0 {
		at = r.rand.IntN(len(r.grants))
	}
	s := quota.Settlement{
		Grant: r.grants[at], Units: quota.Units(r.rand.IntN(60)), Caller: quota.Caller{UID: 1},
		Bounded: r.rand.IntN(2) == 0, UseReserve: r.rand.IntN(4) == 0,
	}
	if r.rand.IntN(3) == 0 {
		s.Units, s.Caller = s.Units*s.Units, quota.Caller{Remote: "shop"}
	}
	r.usage() // so that the ledger has read the clock, which was moved
	got, want := both(r, "settle", s, func(l quota.Ledger) (quota.Decision, error) {
		return l.Settle(context.Background(), r.c, s)
	})
	if got.Reason == quota.SettledTooHigh && want.Reason == quota.UnknownGrant {
		return // either may be said first
	}
	r.same(r, "settle", comparable(got), comparable(want))
}

func (r *random) bookBoth() {
	b := quota.Booking{Limit: r.anyLimit(), Units: quota.Units(1 + r.rand.IntN(40)), Note: "as their console says"}
	got, want := both(r, "book", b, func(l quota.Ledger) (quota.Decision, error) {
		return l.Book(context.Background(), r.c, b)
	})
	_, id, err := quota.ParseGrantID(got.GrantID)
	if err != nil {
		r.Fatal(got, err)
	}
	r.model.name(r.c, id) // each draws one
	r.grants, want.GrantID = append(r.grants, id), got.GrantID
	r.same(r, "book", comparable(got), comparable(want))
}

func (r *random) anyLimit() string { return r.c.Limits[r.rand.IntN(len(r.c.Limits))].Name }

// closeBoth closes a limit for a while, or opens it.
func (r *random) closeBoth() {
	k := quota.Change{Kind: quota.KindOpening, Limit: r.anyLimit(), Note: "says, the upstream"}
	k.Caller = quota.Caller{UID: 1}
	if r.rand.IntN(4) > 0 {
		until := time.Duration(r.rand.IntN(1800)-60) * time.Second
		k.Kind, k.Until = quota.KindClosing, time.UnixMilli(r.clock.Now().UnixMilli()).UTC().Add(until)
	}
	got, want := both(r, "close", k, func(l quota.Ledger) (bool, error) {
		return l.ChangeLimit(context.Background(), r.c, k)
	})
	r.same(r, "close", got, want)
}

// resetBoth resets the log. Where hosts share one that a wrong clock wrote, the others put back a part of it until they
// know of the reset: that is not drawn.
func (r *random) resetBoth() {
	usage, _ := r.model.Usage(context.Background(), r.c)
	if len(r.hosts) > 1 && usage.Now.Sub(r.clock.Now()) > time.Minute {
		return
	}
	r.Say("reset")
	r.reset("a new project")
	r.model.Reset(context.Background(), r.c, quota.Caller{UID: 3}, "a new project")
}

func (r *random) compareUsage() {
	want, _ := r.model.Usage(context.Background(), r.c)
	r.same(r, "usage", r.usage(), want)
}

// compareLog compares what the log keeps; further back a ledger forgets as it sees fit.
func (r *random) compareLog() {
	u := r.usage()
	q := quota.LogQuery{Max: 1 + r.rand.IntN(50), Newest: r.rand.IntN(2) == 0, Since: u.Now.Add(-kept + time.Millisecond)}
	recent, _ := r.model.Log(context.Background(), r.c, quota.LogQuery{Newest: true, Max: 5})
	if n := len(recent.Entries); n > 0 && r.rand.IntN(2) == 0 && recent.Entries[n-1].At.After(q.Since) {
		q.Since = recent.Entries[n-1].At
	}
	of := *r.history
	of.ledger = r.model
	r.same(r, "log", r.named(r.log(q)), r.named(of.log(q)))
}

// named leaves out the ids that each ledger draws.
func (r *random) named(entries []quota.Entry) []quota.Entry {
	for i := range entries {
		if !slices.Contains(r.grants, entries[i].ID) {
			entries[i].ID = ""
		}
	}
	return entries
}

func (r *random) compareAll() {
	for _, h := range r.hosts {
		r.history, r.c = h.history, h.c
		r.compareUsage()
		r.compareLog()
	}
	r.history, r.c = r.hosts[0].history, r.hosts[0].c
	if len(r.hosts) == 1 {
		r.again()
		r.compareUsage()
		r.compareLog()
	}
}

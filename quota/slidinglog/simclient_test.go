package slidinglog_test

import (
	"context"
	"errors"
	"fmt"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

func (h *simHost) time(ms int64) time.Time {
	return time.UnixMilli(h.w.now + h.w.offset + ms).UTC()
}

func (h *simHost) creds() []*quota.Credential {
	if h.w.beside {
		return []*quota.Credential{h.c, besideCredential()}
	}
	return []*quota.Credential{h.c}
}

// A told is a grant as its caller was told of it.
type told struct {
	id     quota.ID
	key    string
	units  quota.Units
	by     *simHost
	host   slidinglog.HostID
	at     int64 // of the world
	outage bool
	void   bool // a reset, or the loss of its file, has made it void
	fresh  bool // not an answer to a request that was granted before
	read   bool // by has it from the log, not by writing it: in its tables from the next fold
	soft   bool // a crash or a kill may have taken it, if the store loses it too

	mark string // of a correction: who made it, each another one
}

// corrector is who makes the next correction.
func (w *world) corrector() quota.Caller {
	w.counts.corrections++
	return quota.Caller{UID: w.counts.corrections}
}

// corrected records that a client was told of a correction. One that changes nothing has no entry.
func (h *simHost) corrected(by quota.Caller) {
	o, t := &h.w.oracle, &told{mark: by.By(), by: h, host: h.ledger.Host(), at: h.w.now}
	id, placed := o.marked[t.mark]
	for _, e := range h.ledger.Entries(h.c) {
		if !placed && e.By == t.mark { // made offline
			id, t.outage = e.ID, true
		}
	}
	if t.id = id; !id.IsZero() {
		t.void = id.Ms <= o.reset
		o.corrected = append(o.corrected, t)
	}
}

// client asks the host for something, as clients do.
func (h *simHost) client() {
	w := h.w
	if w.odd != nil && w.odd.IntN(8) == 0 {
		h.oddly()
		return
	}
	switch n := w.rand.IntN(100); {
	case w.beside && n%4 == 0:
		r := quota.Request{Credential: "beside", Operation: "one", Count: 1}
		_, err := h.ledger.Acquire(h.call(), besideCredential(), []quota.Ask{{Request: r, Charges: []quota.Charge{{Limit: "window", Units: 1}}}})
		if err != nil && h.ctx.Err() == nil && !known(err) {
			w.fail("acquire beside: %v", err)
		}
	case n < 74:
		h.acquire()
	case n < 86 && len(w.oracle.told) > 0:
		h.settle()
	case n < 90:
		h.adjust()
	case n < 92:
		h.closeLimit()
	case n == 94 && w.rand.IntN(2) == 0, n > 95 && w.temper == resets:
		h.reset()
	default:
		if _, err := h.ledger.Usage(h.call(), h.c); err != nil && h.ctx.Err() == nil && !known(err) {
			w.fail("usage: %v", err)
		}
	}
}

// oddly asks the host for something that few clients ask for.
func (h *simHost) oddly() {
	w := h.w
	r := quota.Request{Credential: "api", Operation: "seven", Count: quota.Units(1 + w.odd.IntN(2))}
	switch w.odd.IntN(9) {
	case 0:
		h.peek(r)
	case 1:
		h.log()
	case 2:
		if health := h.ledger.Health(h.ctx); health.Reachable && !h.ledger.Serves(h.c) {
			w.fail("host %s serves not, and says %+v", h.name, health)
		}
	case 3:
		if all := w.oracle.told; len(all) > 0 {
			h.settleBounded(all[w.odd.IntN(len(all))], quota.Units(w.odd.IntN(70)))
		}
	case 4: // with other arguments than the last time
		r.RequestID = fmt.Sprint(w.odd.IntN(3))
		h.acquireAll(h.call(), []quota.Ask{h.ask(r)})
	case 5: // twice in a batch
		r.RequestID = fmt.Sprint(w.odd.IntN(6))
		h.acquireAll(h.call(), []quota.Ask{h.ask(r), h.ask(r)})
	default: // at two hosts at once, maybe with other arguments
		r.RequestID = fmt.Sprint(w.odd.IntN(6))
		for _, other := range w.alive() {
			if other != h && w.now >= other.frozen && len(other.does) < simTasks {
				r := r
				r.Count = quota.Units(1 + w.odd.IntN(2))
				other.do(func() { other.acquireAll(other.call(), []quota.Ask{other.ask(r)}) })
				break
			}
		}
		h.acquireAll(h.call(), []quota.Ask{h.ask(r)})
	}
}

func (h *simHost) ask(r quota.Request) quota.Ask {
	charges, err := h.c.Charges(r.Operation, r.Count, r.Caller.Job)
	if err != nil {
		h.w.fail("charges: %v", err)
	}
	return quota.Ask{Request: r, Charges: charges}
}

func (h *simHost) peek(r quota.Request) {
	w, c, ask := h.w, h.c, h.ask(r)
	d, err := h.ledger.Peek(h.call(), c, []string{r.Operation}, ask.Charges, false)
	switch {
	case h.ctx.Err() != nil:
	case err != nil && !known(err):
		w.fail("peek: %v", err)
	case err == nil && d.Denied() && !d.Outage:
		w.oracle.retries(h, c, ask, d)
	}
}

// log reads the newest entries, or the oldest, in two pages.
func (h *simHost) log() {
	w := h.w
	q := quota.LogQuery{Newest: w.odd.IntN(2) == 0, Max: 1 + w.odd.IntN(5)}
	var all []quota.Entry
	for range 2 {
		page, err := h.ledger.Log(h.call(), h.c, q)
		if err != nil {
			if h.ctx.Err() == nil && !known(err) {
				w.fail("log: %v", err)
			}
			return
		}
		all, q.After = append(all, page.Entries...), page.Next
		if page.Next.IsZero() {
			break
		}
	}
	for i := 1; i < len(all); i++ {
		if x, y := all[i-1].ID, all[i].ID; x == y || x.Less(y) == q.Newest {
			w.fail("host %s has %v in its log before %v", h.name, x, y)
		}
	}
}

// settleBounded settles a grant as a caller does that is no operator.
func (h *simHost) settleBounded(of *told, units quota.Units) {
	w := h.w
	s := quota.Settlement{Grant: of.id, Units: units, Caller: w.corrector(), Bounded: true}
	most := of.units
	for _, limit := range h.c.Limits {
		most = max(most, limit.Budget(false))
	}
	d, err := h.ledger.Settle(h.call(), h.c, s)
	switch {
	case h.ctx.Err() != nil:
	case err != nil && !known(err):
		w.fail("settle: %v", err)
	case err == nil && d.Granted():
		h.corrected(s.Caller)
		if units > most {
			w.fail("host %s has a caller settle to %d, of %d", h.name, units, most)
		}
	}
}

func (h *simHost) acquire() {
	w := h.w
	operation := []string{"one", "one", "seven", "seven", "seven", "twenty", "closed"}[w.rand.IntN(7)]
	r := quota.Request{Credential: "api", Operation: operation, Count: 1}
	if w.rand.IntN(3) == 0 {
		r.Caller = quota.Caller{Job: "backfill", Run: "r"}
	}
	if w.rand.IntN(2) == 0 { // asked at any host, as long as there is no answer
		r.RequestID = fmt.Sprint(w.rand.IntN(12))
		r.Operation, r.Caller = "seven", quota.Caller{}
		if r.RequestID[0]%2 == 0 {
			r.Count = 2
		}
	}
	charges, err := h.c.Charges(r.Operation, r.Count, r.Caller.Job)
	if err != nil {
		w.fail("charges: %v", err)
		return
	}
	asks := []quota.Ask{{Request: r, Charges: charges}}
	for r.RequestID == "" && (w.rand.IntN(4) == 0 || w.temper == far && len(asks) < 12) {
		asks = append(asks, asks[0])
	}
	h.acquireAll(h.call(), asks)
}

// acquireAll asks in one call. It reports whether all asks were decided.
func (h *simHost) acquireAll(ctx context.Context, asks []quota.Ask) (decided bool) {
	w, r := h.w, asks[0].Request
	host, began, end, c := h.ledger.Host(), w.now, w.store.End("api"), h.c
	decisions, err := h.ledger.Acquire(ctx, c, asks)
	if h.ctx.Err() != nil {
		return false
	}
	if err != nil {
		w.counts.refusals++
		if !known(err) {
			w.fail("acquire: %v", err)
		}
		w.say("%s: %s %d %s: %v", h.name, r.Operation, r.Count, r.RequestID, err)
		return false
	}
	for i, d := range decisions {
		if d.Denied() && !d.Outage && w.oracle.loss < began {
			w.oracle.current(h, end)
			if i == 0 && w.counts.denials%2 == 0 { // the others are denied beside what is granted before them
				w.oracle.retries(h, c, asks[i], d)
			}
		}
		w.answered(h, host, asks[i], d)
		decided = d.Err == nil
	}
	return decided
}

func (w *world) answered(h *simHost, host slidinglog.HostID, ask quota.Ask, d quota.Decision) {
	switch {
	case d.Err != nil:
		w.counts.refusals++
	case !d.Granted():
		w.counts.denials++
		if d.RetryAt.IsZero() && d.Reason != quota.RequestIDConflict {
			w.fail("a denial without a time: %+v", d)
		}
	default:
		_, id, err := quota.ParseGrantID(d.GrantID)
		if err != nil {
			w.fail("%v", err)
			return
		}
		if d.Replayed {
			w.counts.replays++
		} else if d.Outage {
			w.counts.away++
		} else {
			w.counts.grants++
		}
		outage := d.Outage && id.Seq >= 1<<62 // not one of the log that was asked for again
		switch {
		case !outage || d.Replayed:
		case !simPolicies()["api"].Open[ask.Operation]:
			w.fail("host %s grants a closed operation in an outage", h.name)
		case !h.readAll:
			w.fail("host %s grants offline on a copy that it has not read to the end", h.name)
		case !h.at.trouble:
			w.fail("host %s grants offline, though the store answers", h.name)
		default:
			w.oracle.fitsCopy(h, ask, id)
		}
		w.oracle.tell(told{id: id, key: ask.Key(), units: d.Units, by: h, host: host, at: w.now, outage: outage, fresh: !d.Replayed}, d.Replayed)
	}
	w.say("%s: %s %d %q: %s%v %s replayed=%v outage=%v %v", h.name, ask.Operation, ask.Count, ask.RequestID, d.Reason, d.Err, d.GrantID, d.Replayed, d.Outage, d.Units)
}

// known tells the errors that a client may be answered.
func known(err error) bool {
	return errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) || errors.Is(err, context.DeadlineExceeded)
}

func (h *simHost) settle() {
	w := h.w
	all := w.oracle.told
	one := all[len(all)-1-w.rand.IntN(min(len(all), 8))]
	h.settleTo(one.id, quota.Units(w.rand.IntN(int(one.units)+3)))
}

func (h *simHost) settleTo(grant quota.ID, units quota.Units) {
	w := h.w
	by := w.corrector()
	d, err := h.ledger.Settle(h.call(), h.c, quota.Settlement{Grant: grant, Units: units, Caller: by})
	if h.ctx.Err() != nil {
		return
	}
	w.say("%s: settle %s to %d: %v %v", h.name, grant, units, d.Reason, err)
	if err != nil && !known(err) {
		w.fail("settle: %v", err)
	}
	if err == nil && d.Granted() {
		h.corrected(by)
		w.counts.settles++
	}
}

func (h *simHost) adjust() {
	w := h.w
	a := quota.Adjustment{Limit: "window", Units: w.rand.Int64N(30) - 20, Caller: w.corrector(), Note: "n"}
	if a.Units == 0 {
		return
	}
	d, err := h.ledger.Adjust(h.call(), h.c, a)
	if h.ctx.Err() == nil {
		w.say("%s: adjust %d: %v %v", h.name, a.Units, d.Units, err)
		if err == nil {
			h.corrected(a.Caller)
		}
	}
}

func (h *simHost) closeLimit() {
	w := h.w
	k := quota.Change{Kind: quota.KindOpening, Limit: "share", Note: "so", Caller: w.corrector()}
	if w.rand.IntN(3) > 0 {
		k.Kind, k.Until = quota.KindClosing, h.time(w.rand.Int64N(4000))
	}
	changed, err := h.ledger.ChangeLimit(h.call(), h.c, k)
	if h.ctx.Err() == nil {
		w.say("%s: close until %v: %v %v", h.name, k.Until, changed, err)
		if changed {
			h.corrected(k.Caller)
		}
	}
}

func (h *simHost) reset() {
	err := h.ledger.Reset(h.call(), h.c, h.w.corrector(), "again")
	if h.ctx.Err() == nil {
		h.w.counts.resets++
		h.w.say("%s: reset: %v", h.name, err)
	}
}

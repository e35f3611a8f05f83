package jobs

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"quotad/quota"
)

// Tokens knows the run tokens of the passes under way: who may spend as whom,
// and what each was granted and denied. A token is known from Issue to Revoke;
// of others nothing is known, and nothing is recorded. The zero value is ready
// to use, by any number of goroutines.
type Tokens struct {
	mu      sync.Mutex         // guards what follows, and what holders point to
	holders map[digest]*holder // by the token's hash: how long a look-up takes tells nothing about a token
}

type digest = [sha256.Size]byte

// A holder is the pass that a token was issued to.
type holder struct {
	bearer quota.Bearer
	run    *runBudget
	record Record
	// refusals are what was refused and not granted since, the last one at the end.
	refusals []setback
	made     map[string]quota.Units // calls that were granted, by operation
	grants   map[string]grant       // by its id
	// Of a run that may not spend all that it likes, what was asked under each request
	// id and not refused: the units that the run's budget holds for it, 0 once it is
	// granted. To ask again spends no more.
	asked map[string]quota.Units
}

// A setback is the last answer to a pass for an operation, which is none that lets it go on: of
// ours, or of the upstream.
type setback struct {
	operation string // "": a grant was settled to more than there was
	denied    bool   // by us
	capped    bool   // for the run, which may not spend more
	limit     string
	retryAt   time.Time
	wholeAt   time.Time // when all of the limit is back, at the latest; zero: nobody knows
}

// A grant is what a pass was granted.
type grant struct {
	units   quota.Units // as it stands after settling
	proxied bool        // of a call that the proxy sends, and settles
}

// A Record sums up what a pass was granted and denied.
type Record struct {
	Denied  bool        // what it needs, for want of budget, and was not granted later; not what could never be granted
	Capped  bool        // the last denial was for the run, which may not spend more
	Limit   string      // that refused last
	RetryAt time.Time   // when what was refused last would have been granted
	WholeAt time.Time   // when all of the limit is back, at the latest; zero: nobody knows
	Units   quota.Units // debited, less what was given back
	Calls   int64       // acquires that were granted
	Last    string      // the id of the last grant
	// Past is what the pass went past when it settled a grant to more than it was.
	Past string
	// Closed is the limit that the upstream called exhausted when the pass called it last;
	// RetryAt is then when it opens, unless something was denied since.
	Closed string
	// Refuses is why the upstream serves no call until a person changes something.
	Refuses string
}

// A runBudget is what the passes of a run have spent together, and may spend. The
// lock of the Tokens guards it.
type runBudget struct {
	most  quota.Units // 0: as much as the limits allow
	spent quota.Units // debited, less what was given back
	held  quota.Units // for requests that are not decided yet, or of which nobody knows
}

// issue returns a new token for a pass, which spends from its run's budget. It has
// more than 128 random bits.
func (t *Tokens) issue(b quota.Bearer, run *runBudget) string {
	token := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.holders == nil {
		t.holders = make(map[digest]*holder)
	}
	t.holders[hash(token)] = &holder{
		bearer: b, run: run, grants: make(map[string]grant), made: make(map[string]quota.Units), asked: make(map[string]quota.Units),
	}
	return token
}

// revoke makes a token unknown, and returns what its pass was granted and denied.
func (t *Tokens) revoke(token string) Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := hash(token)
	h := t.holders[key]
	if h == nil {
		return Record{}
	}
	delete(t.holders, key)
	return h.record
}

// Bearer returns the pass that a token was issued to, and how it spends.
func (t *Tokens) Bearer(token string) (b quota.Bearer, live bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holders[hash(token)]
	if h == nil {
		return quota.Bearer{}, false
	}
	return h.bearer, true
}

// Admit decides whether the token's pass may make a request that costs units: one that
// would take its run past what it may spend is refused. Of one that is admitted, decided
// records what became of it; it is called once.
func (t *Tokens) Admit(token string, r quota.Request, units quota.Units) (decided func(quota.Decision, error), d quota.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holders[hash(token)]
	if h == nil {
		return func(quota.Decision, error) {}, quota.Decision{} // it has ended meanwhile
	}
	if _, again := h.asked[r.RequestID]; again {
		units = 0
	}
	if run := h.run; units > 0 && run.most > 0 && units > run.left() {
		if !r.Optional {
			h.refuse(setback{operation: r.Operation, denied: true, capped: true})
		}
		return nil, quota.Decision{Reason: quota.RunCapExceeded, Units: units, Detail: run.shortage(units)}
	}
	h.hold(r, units)
	return func(d quota.Decision, err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		h.decided(r, units, d, err)
	}, quota.Decision{}
}

// left is what the run may still spend, if it may not spend all that it likes.
func (b *runBudget) left() quota.Units { return max(0, b.most-b.spent-b.held) }

// shortage says why the run may not spend units more.
func (b *runBudget) shortage(units quota.Units) string {
	return fmt.Sprintf("%s asked, and the run has %s of %s left", units.Text(), quota.Thousands(b.left()), quota.Thousands(b.most))
}

// hold has the run's budget hold units for a request until it is decided.
func (h *holder) hold(r quota.Request, units quota.Units) {
	if h.run.most == 0 {
		return
	}
	h.run.held += units
	if _, again := h.asked[r.RequestID]; !again && r.RequestID != "" {
		h.asked[r.RequestID] = units
	}
}

// free gives back what the run's budget holds for a request that is decided.
func (h *holder) free(r quota.Request, units quota.Units, granted bool) {
	if h.run.most == 0 {
		return
	}
	if r.RequestID != "" {
		units = h.asked[r.RequestID]
	}
	h.run.held -= units
	switch {
	case r.RequestID == "":
	case granted:
		h.asked[r.RequestID] = 0
	case units > 0:
		delete(h.asked, r.RequestID)
	}
}

// decided records what became of a request. While nobody knows, its units are taken to
// be spent as far as the run's budget goes.
func (h *holder) decided(r quota.Request, units quota.Units, d quota.Decision, err error) {
	if errors.Is(err, quota.ErrOutcomeUnknown) {
		return
	}
	h.free(r, units, err == nil && d.Granted())
	if err != nil {
		return
	}
	switch {
	case d.Denied() && !r.Optional:
		h.refuse(setback{operation: r.Operation, denied: true, limit: d.Limit, retryAt: d.RetryAt, wholeAt: wholeAt(d)})
	case d.Granted() && !r.Proxied: // what the proxy asks for counts when the upstream has answered
		h.serve(r.Operation)
	}
	if _, known := h.grants[d.GrantID]; known || !d.Granted() {
		return // a replay of what was counted, or nothing to count
	}
	h.grants[d.GrantID] = grant{units: d.Units, proxied: r.Proxied}
	h.made[r.Operation] += d.Calls(r)
	h.record.Units += d.Units
	h.record.Calls++
	h.record.Last = d.GrantID
	h.run.spent += d.Units
}

// wholeAt returns when all of the limit is back that denied.
func wholeAt(d quota.Decision) time.Time {
	for _, l := range d.Limits {
		if l.Name == d.Limit && l.Window.Length > 0 && d.Reason == quota.LimitExceeded {
			return d.RetryAt.Add(l.Window.Length - d.RetryAfter)
		}
	}
	return time.Time{}
}

// refuse records a refusal, in place of the last answer for its operation.
func (h *holder) refuse(one setback) {
	h.serve(one.operation)
	h.refusals = append(h.refusals, one)
	h.sum()
}

// serve takes back what was refused of an operation: a pass that waits until it fits, as
// libraries do that obey Retry-After, lacks nothing.
func (h *holder) serve(operation string) {
	h.refusals = slices.DeleteFunc(h.refusals, func(r setback) bool { return r.operation == operation })
	h.sum()
}

// sum has the record say what was refused last.
func (h *holder) sum() {
	r := &h.record
	r.Denied, r.Capped, r.Limit, r.RetryAt, r.WholeAt, r.Closed = false, false, "", time.Time{}, time.Time{}, ""
	for _, one := range h.refusals {
		r.RetryAt, r.WholeAt = one.retryAt, one.wholeAt
		if one.denied {
			r.Denied, r.Capped, r.Limit = true, one.capped, one.limit
		} else {
			r.Closed = one.limit
		}
	}
}

// left returns what a run may still spend, besides what its passes under way are
// expected to, each of them units; MaxUnits where it may spend all that it likes.
func (t *Tokens) left(run *runBudget, expected quota.Units) quota.Units {
	t.mu.Lock()
	defer t.mu.Unlock()
	if run.most == 0 {
		return quota.MaxUnits
	}
	left := run.left()
	for _, h := range t.holders {
		if h.run == run {
			left -= max(0, expected-h.record.Units)
		}
	}
	return left
}

// spent returns what a pass has been granted and denied until now.
func (t *Tokens) spent(token string) Record {
	t.mu.Lock()
	defer t.mu.Unlock()
	if h := t.holders[hash(token)]; h != nil {
		return h.record
	}
	return Record{}
}

// spentBy returns what the passes of a run have spent until now.
func (t *Tokens) spentBy(run *runBudget) quota.Units {
	t.mu.Lock()
	defer t.mu.Unlock()
	return run.spent
}

// made returns how many calls of each operation the token's pass was granted.
func (t *Tokens) made(token string) map[string]quota.Units {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holders[hash(token)]
	if h == nil {
		return nil
	}
	return maps.Clone(h.made)
}

// Owns tells whether the token's pass may settle that grant: one that it acquired
// itself. Of a call through the proxy only the proxy knows whether it was sent.
func (t *Tokens) Owns(token, grantID string) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holders[hash(token)]
	if h == nil {
		return false
	}
	g, known := h.grants[grantID]
	return known && !g.proxied
}

// Settled records that a grant of the token's pass was set to what it really cost, and how
// its limits are now. If that is more than the run or a limit may have, the pass is
// exhausted, which ends the run, and past says what of.
func (t *Tokens) Settled(token, grantID string, units quota.Units, limits []quota.LimitState) (past string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holders[hash(token)]
	if h == nil {
		return ""
	}
	g, known := h.grants[grantID]
	if !known {
		return ""
	}
	before := g.units
	h.record.Units += units - before
	h.run.spent += units - before
	g.units = units
	h.grants[grantID] = g
	if units <= before {
		return ""
	}
	past = h.overspent(limits)
	if past != "" {
		h.record.Past = past
	}
	return past
}

// overspent returns what a pass that has spent more than it was granted is past.
func (h *holder) overspent(limits []quota.LimitState) (past string) {
	if run := h.run; run.most > 0 && run.spent > run.most {
		h.refuse(setback{denied: true, capped: true})
		return fmt.Sprintf("the %s of the run by %s", run.most.Text(), quota.Thousands(run.spent-run.most))
	}
	for _, limit := range limits {
		if over := limit.Used - limit.Budget(h.bearer.UseReserve); limit.Refuses() && over > 0 {
			h.refuse(setback{denied: true, limit: limit.Name})
			return fmt.Sprintf("limit %q by %s", limit.Name, over.Text())
		}
	}
	return ""
}

// Observed records what the upstream answered to a call of the token's pass. The last answer
// for an operation counts.
func (t *Tokens) Observed(token string, word quota.Word) {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.holders[hash(token)]
	if h == nil {
		return
	}
	h.record.Refuses = word.Refuses
	if word.Limit != "" {
		h.refuse(setback{operation: word.Operation, limit: word.Limit, retryAt: word.Until})
	} else if word.Refuses == "" {
		h.serve(word.Operation)
	}
}

func hash(token string) digest { return sha256.Sum256([]byte(token)) }

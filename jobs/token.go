package jobs

import (
	"context"
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

// Tokens knows the run tokens of the passes under way: the pass that each one speaks for, and what each was
// granted and denied. A token is known from issue to revoke; of others nothing is recorded. The
// zero value is ready to use, by any number of goroutines.
type Tokens struct {
	mu       sync.Mutex                     // guards what follows, and what it points to
	spenders map[[sha256.Size]byte]*spender // by the token's hash: how long a look-up takes reveals nothing about a token
}

// A spender is a pass with a token.
type spender struct {
	bearer quota.Bearer
	end    func()      // ends the pass, after deniedGrace; nil before it has begun
	ending *time.Timer // calls end; nil while nothing is denied for good
	calls  quota.Calls // that it is expected to make; these units are spoken for
	record passCalls   // without what it lacks
	lacks  []Refusal   // the last answer for each operation, ours or the upstream's, that refuses it; the last one at the end
	past   *Stop       // it settled a grant past what it may spend
	grants map[string]*grant
}

// A grant is what a pass was granted.
type grant struct {
	units     quota.Units // as it stands after settling
	proxied   bool        // of a call that the proxy sends, and settles
	operation string
	calls     quota.Units
}

// passCalls are what a pass was granted and denied, as far as that decides what became of it.
type passCalls struct {
	Spent
	// Lacks is what the pass was refused last, by whomever, and not granted since; nil: it lacks nothing.
	Lacks *Stop
	// WholeAt is when all of the limit that denied it last has returned, at the latest; zero: unknown.
	WholeAt time.Time
	// Refuses is why the upstream serves no call until a person changes something.
	Refuses string
	// Refused is how many calls quotad did not take, other than for want of budget, or got no answer to, and Why the
	// first.
	Refused int64
	Why     string
	Served  bool // a call was granted on the socket, or answered by the upstream
}

// maxRefusals is how many refusals are kept of a pass.
const maxRefusals = 10

// issue returns a new token for a pass. It has more than 128 random bits.
func (t *Tokens) issue(b quota.Bearer) string {
	token := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spenders == nil {
		t.spenders = make(map[[sha256.Size]byte]*spender)
	}
	record := passCalls{Spent: Spent{Made: Made{}}}
	t.spenders[sha256.Sum256([]byte(token))] = &spender{bearer: b, grants: make(map[string]*grant), record: record}
	return token
}

// with calls do with the pass of a token, and returns false if the token is unknown.
func (t *Tokens) with(token string, do func(*spender)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.spenders[sha256.Sum256([]byte(token))]
	if s == nil {
		return false
	}
	do(s)
	return true
}

// reserve records the calls that a token's pass is expected to make, and returns those that the other
// passes of its credential are expected to make still.
func (t *Tokens) reserve(token string, calls quota.Calls) (others []quota.Calls) {
	t.with(token, func(s *spender) {
		s.calls = calls
		for _, other := range t.spenders {
			if other == s || other.bearer.Credential != s.bearer.Credential {
				continue
			}
			for operation, count := range other.calls.Count {
				if more := count - other.record.Made[operation]; more > 0 {
					count := map[string]quota.Units{operation: more}
					others = append(others, quota.Calls{Job: other.calls.Job, Count: count})
				}
			}
		}
	})
	return others
}

// began records until when the token's pass may run, and how it is ended once nothing that it was
// denied returns before that: after deniedGrace, whatever it calls meanwhile.
func (t *Tokens) began(token string, deadline time.Time, end func()) {
	t.with(token, func(s *spender) {
		s.bearer.Deadline, s.end = deadline, end
	})
}

// revoke makes a token unknown, and returns what its pass was granted and denied.
func (t *Tokens) revoke(token string) (r passCalls) {
	t.with(token, func(s *spender) {
		r = s.sum()
		s.keepsOn()
		delete(t.spenders, sha256.Sum256([]byte(token)))
	})
	return r
}

// Bearer returns the pass that a token was issued to, and how it spends.
func (t *Tokens) Bearer(token string) (b quota.Bearer, live bool) {
	live = t.with(token, func(s *spender) { b = s.bearer })
	return b, live
}

// Decided records what became of a request of the token's pass: granted, replayed, refused, or not known.
func (t *Tokens) Decided(token string, r quota.Request, d quota.Decision, err error) {
	t.with(token, func(s *spender) {
		switch {
		case errors.Is(err, quota.ErrOutcomeUnknown), errors.Is(err, context.Canceled): // its caller has gone
		case err != nil:
			s.record.refuse(err.Error())
		case d.Granted():
			s.granted(r, d)
		case !d.Denied():
			s.record.refuse(d.Detail)
		case !r.Optional:
			says := fmt.Sprintf("denied by limit %q", d.Limit)
			refusal := Refusal{r.Operation, d.Remaining(), Stop{BudgetGone, says, d.Limit, d.State().Cost, d.RetryAt}}
			known := s.record.Refusals
			s.record.Refusals = append(known[max(0, len(known)-maxRefusals+1):], refusal)
			s.answer(r.Operation, refusal)
			s.record.WholeAt = wholeAt(d)
		}
	})
}

// wholeAt returns when all of the limit that denied has returned.
func wholeAt(d quota.Decision) time.Time {
	if window := d.State().Window.Length; window > 0 && d.Reason == quota.LimitExceeded {
		return d.RetryAt.Add(window - d.RetryAfter)
	}
	return time.Time{}
}

// granted counts a grant, unless it is a replay of one that was counted.
func (s *spender) granted(r quota.Request, d quota.Decision) {
	if !r.Proxied { // what the proxy asks for counts when the upstream has answered
		s.answer(r.Operation)
		s.record.Served = true
	}
	if s.grants[d.GrantID] != nil {
		return
	}
	s.record.Made[r.Operation] += r.Count
	s.record.Calls++
	if d.GrantID != "" { // else it costs nothing, and is not settled
		s.grants[d.GrantID] = &grant{units: d.Units, proxied: r.Proxied, operation: r.Operation, calls: r.Count}
		s.record.Units += d.Units
	}
}

// answer records the last answer for an operation: that it was refused, or that it was not. A pass
// that waits until it fits, as libraries do that obey Retry-After, lacks nothing.
func (s *spender) answer(operation string, refused ...Refusal) {
	s.lacks = slices.DeleteFunc(s.lacks, func(r Refusal) bool { return r.Operation == operation })
	s.lacks = append(s.lacks, refused...)
	if s.end == nil || !slices.ContainsFunc(s.lacks, s.outlasts) {
		s.keepsOn()
	} else if s.ending == nil {
		s.ending = time.AfterFunc(deniedGrace, s.end)
	}
}

// keepsOn has the pass not be ended for what it was denied.
func (s *spender) keepsOn() {
	if s.ending != nil {
		s.ending.Stop()
		s.ending = nil
	}
}

// outlasts returns whether a call that was refused, by whomever, cannot be made before the pass is ended.
func (s *spender) outlasts(r Refusal) bool {
	if r.RetryAt.IsZero() {
		return r.Reason == BudgetGone
	}
	return s.bearer.EndsBefore(r.RetryAt)
}

// sum returns a copy of the record, with what the pass lacks.
func (s *spender) sum() passCalls {
	r := s.record
	r.Made, r.Refusals = maps.Clone(r.Made), slices.Clone(r.Refusals)
	if n := len(s.lacks); s.past != nil {
		r.Lacks = s.past
	} else if n > 0 {
		r.Lacks = &s.lacks[n-1].Stop
	}
	r.Denied = r.Lacks != nil && r.Lacks.Reason == BudgetGone
	return r
}

// unserved reports whether none of the calls was made that quotad knows of.
func (r *passCalls) unserved() bool { return r.Refused > 0 && !r.Served }

// refuse counts a call that was not made, or not answered.
func (r *passCalls) refuse(why string) {
	if r.Refused++; r.Why == "" {
		r.Why = why
	}
}

// Refused records that a call of the token's pass was not made, or not answered, and why.
func (t *Tokens) Refused(token, why string) {
	t.with(token, func(s *spender) { s.record.refuse(why) })
}

// spent returns what a pass has been granted and denied until now.
func (t *Tokens) spent(token string) (r passCalls) {
	t.with(token, func(s *spender) { r = s.sum() })
	return r
}

// Owns returns whether the token's pass may settle that grant: one that it acquired
// itself. Of a call through the proxy only the proxy knows whether it was sent.
func (t *Tokens) Owns(token, grantID string) (owns bool) {
	t.with(token, func(s *spender) {
		g := s.grants[grantID]
		owns = g != nil && !g.proxied
	})
	return owns
}

// Settled records that a grant of the token's pass was set to what it really cost, and how its limits are now. If
// that is more than a limit may have, the pass is exhausted, which ends the run, and past says what it exceeded.
func (t *Tokens) Settled(token, grantID string, units quota.Units, limits []quota.LimitState) (past string) {
	t.with(token, func(s *spender) {
		g := s.grants[grantID]
		if g == nil {
			return
		}
		if g.units > 0 && units == 0 {
			s.record.Made[g.operation] -= g.calls // a released call was not sent
		} else if g.units == 0 && units > 0 {
			s.record.Made[g.operation] += g.calls
		}
		more := units - g.units
		g.units = units
		s.record.Units += more
		if limit, by := quota.Overspent(limits, s.bearer.UseReserve); more > 0 && by > 0 {
			past = fmt.Sprintf("limit %q by %s", limit, by.Text())
			s.past = &Stop{Reason: BudgetGone, Limit: limit, Detail: "settled a grant past " + past}
		}
	})
	return past
}

// Observed records what the upstream answered to a call of the token's pass. The last answer for an operation counts.
func (t *Tokens) Observed(token string, word quota.Word) {
	t.with(token, func(s *spender) {
		s.record.Served = true
		if word.Unclear {
			return
		}
		s.record.Refuses = word.Refuses
		if word.Limit != "" {
			says := fmt.Sprintf("the upstream says that limit %q is exhausted", word.Limit)
			s.answer(word.Operation, Refusal{word.Operation, 0, Stop{Closed, says, word.Limit, 0, word.Until}})
		} else if word.Refuses == "" {
			s.answer(word.Operation)
		}
	})
}

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
	run    *lacking
	end    func()      // ends the pass, after deniedGrace; nil before it has begun
	ending *time.Timer // calls end; nil while nothing is denied for good
	calls  quota.Calls // that it is expected to make; these units are spoken for
	record passCalls   // without what the refusals say
	// refusals are what was refused and not granted since, the last one at the end.
	refusals  []refusedCall
	grants    map[string]*grant // by id
	tokenless passCalls         // the calls to the credential's upstream without a token, while the pass was under way
}

// A refusedCall is the last answer to a pass for an operation, ours or the upstream's, if that
// does not let it continue.
type refusedCall struct {
	operation string
	denied    bool // by us
	settled   bool // more than there was, for a call that was made
	limit     string
	units     quota.Units // that it needs there
	retryAt   time.Time
	wholeAt   time.Time // when all of the limit has returned, at the latest; zero: unknown
}

// A grant is what a pass was granted.
type grant struct {
	units     quota.Units // as it stands after settling
	proxied   bool        // of a call that the proxy sends, and settles
	operation string
	calls     quota.Units
}

// passCalls sum up what a pass was granted and denied.
type passCalls struct {
	Denied  bool        // what it needs, for want of budget, and was not granted later; not what could never be granted
	Limit   string      // that refused last
	Needs   quota.Units // there, of the call that was refused last; 0: unknown
	RetryAt time.Time   // when what was refused last would have been granted
	WholeAt time.Time   // when all of the limit has returned, at the latest; zero: unknown
	Units   quota.Units // debited, less what was returned
	Calls   int64       // acquires that were granted
	// Unanswered is the last grant, if no answer of the upstream to its call was seen.
	Unanswered string
	// Past is what the pass exceeded when it settled a grant to more than it was.
	Past string
	// Closed is the limit that the upstream called exhausted when the pass called it last;
	// RetryAt is then when it opens, unless something was denied since.
	Closed string
	// Refuses is why the upstream serves no call until a person changes something.
	Refuses string
	// Refused is how many calls quotad did not take, other than for want of budget, or got no
	// answer to, and Why the first. Of a pass that made no call with its token, they are those
	// that came without any.
	Refused int64
	Why     string
	Served  bool // a call was granted on the socket, or answered by the upstream

	Made     Made      // calls that were granted, less those that were released
	Refusals []Refusal // the last ones
}

// limit returns which limit stopped the pass; empty: none.
func (r *passCalls) limit() string {
	if r.Closed != "" && !r.Denied {
		return r.Closed
	}
	return r.Limit
}

// maxRefusals is how many refusals are kept of a pass.
const maxRefusals = 10

// A lacking counts the passes of a run that were refused something and not granted it since: while there are
// any, the run launches none. A pass that is over counts until resume. The lock of the Tokens guards it.
type lacking struct {
	passes int
	none   chan struct{} // signalled when there are none any more
}

// issue returns a new token for a pass of a run. It has more than 128 random bits.
func (t *Tokens) issue(b quota.Bearer, run *lacking) string {
	token := rand.Text()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.spenders == nil {
		t.spenders = make(map[[sha256.Size]byte]*spender)
	}
	t.spenders[sha256.Sum256([]byte(token))] = &spender{bearer: b, run: run, grants: make(map[string]*grant), record: passCalls{Made: Made{}}}
	return token
}

// with calls do with the pass of a token, and returns false if the token is unknown.
func (t *Tokens) with(token string, do func(*spender)) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.spenders[sha256.Sum256([]byte(token))]
	if s != nil {
		do(s)
	}
	return s != nil
}

// reserve records the calls that a token's pass is expected to make, and returns those that the other
// passes of its credential are expected to make still.
func (t *Tokens) reserve(token string, calls quota.Calls) (others []quota.Calls) {
	t.with(token, func(s *spender) {
		s.calls = calls
		for _, other := range t.spenders {
			if other != s && other.bearer.Credential == s.bearer.Credential {
				others = append(others, stillExpected(other.calls, other.record.Made)...)
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

// revoke makes a token unknown, and returns what its pass was granted and denied. A run whose pass
// was refused something launches none until resume.
func (t *Tokens) revoke(token string) (r passCalls) {
	t.with(token, func(s *spender) {
		r = s.sum()
		if s.ending != nil {
			s.ending.Stop()
		}
		delete(t.spenders, sha256.Sum256([]byte(token)))
	})
	return r
}

// resume lets the run of a pass launch again: what the end of the pass means for it is settled.
func (t *Tokens) resume(run *lacking, r passCalls) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.Denied || r.Closed != "" {
		run.count(-1)
	}
}

// count counts passes of the run that were refused something, or with -1 no longer.
func (l *lacking) count(more int) {
	if l.passes += more; l.passes == 0 {
		wake(l.none)
	}
}

// isRefused returns whether a pass of the run lacks what it was refused.
func (t *Tokens) isRefused(run *lacking) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return run.passes > 0
}

// Bearer returns the pass that a token was issued to, and how it spends.
func (t *Tokens) Bearer(token string) (b quota.Bearer, live bool) {
	live = t.with(token, func(s *spender) { b = s.bearer })
	return b, live
}

// Decided records what became of a request of the token's pass: granted, replayed, refused, or not known.
func (t *Tokens) Decided(token string, r quota.Request, d quota.Decision, err error) {
	t.with(token, func(s *spender) { s.decided(r, d, err) })
}

func (s *spender) decided(r quota.Request, d quota.Decision, err error) {
	if errors.Is(err, quota.ErrOutcomeUnknown) {
		return
	}
	if err != nil {
		if !errors.Is(err, context.Canceled) { // its caller has gone
			s.record.refuse(err.Error())
		}
		return
	}
	switch {
	case !d.Granted() && !d.Denied():
		s.record.refuse(d.Detail)
	case d.Denied() && !r.Optional:
		known := s.record.Refusals
		s.record.Refusals = append(known[max(0, len(known)-maxRefusals+1):], Refusal{r.Operation, d.Limit, d.State().Cost, d.Remaining(), d.RetryAt})
		s.answer(r.Operation, refusedCall{operation: r.Operation, denied: true, limit: d.Limit, units: d.State().Cost, retryAt: d.RetryAt, wholeAt: wholeAt(d)})
	case d.Granted() && !r.Proxied: // what the proxy asks for counts when the upstream has answered
		s.answer(r.Operation)
		s.record.Served = true
	}
	if s.grants[d.GrantID] != nil || !d.Granted() {
		return // a replay of what was counted, or nothing to count
	}
	s.record.Made[r.Operation] += r.Count
	s.record.Calls++
	s.record.Unanswered = d.GrantID
	if d.GrantID == "" { // it costs nothing, and is not settled
		return
	}
	s.grants[d.GrantID] = &grant{units: d.Units, proxied: r.Proxied, operation: r.Operation, calls: r.Count}
	s.record.Units += d.Units
}

// wholeAt returns when all of the limit that denied has returned.
func wholeAt(d quota.Decision) time.Time {
	if window := d.State().Window.Length; window > 0 && d.Reason == quota.LimitExceeded {
		return d.RetryAt.Add(window - d.RetryAfter)
	}
	return time.Time{}
}

// answer records the last answer for an operation: that it was refused, or that it was not. A pass
// that waits until it fits, as libraries do that obey Retry-After, lacks nothing.
func (s *spender) answer(operation string, refused ...refusedCall) {
	before := len(s.refusals)
	s.refusals = slices.DeleteFunc(s.refusals, func(r refusedCall) bool { return r.operation == operation && !r.settled })
	s.refusals = append(s.refusals, refused...)
	switch after := len(s.refusals); {
	case before == 0 && after > 0:
		s.run.count(1)
	case before > 0 && after == 0:
		s.run.count(-1)
	}
	hopeless := s.end != nil && slices.ContainsFunc(s.refusals, s.outlasts)
	if hopeless && s.ending == nil {
		s.ending = time.AfterFunc(deniedGrace, s.end)
	} else if !hopeless && s.ending != nil {
		s.ending.Stop()
		s.ending = nil
	}
}

// outlasts returns whether a call that was refused, by whomever, cannot be made before the pass is ended.
func (s *spender) outlasts(r refusedCall) bool {
	if r.settled || r.retryAt.IsZero() && !r.denied {
		return false
	}
	return r.retryAt.IsZero() || s.bearer.EndsBefore(r.retryAt)
}

// sum returns a copy of the record, with what was refused last.
func (s *spender) sum() passCalls {
	r := s.record
	r.Made, r.Refusals = maps.Clone(r.Made), slices.Clone(r.Refusals)
	for _, one := range s.refusals {
		r.RetryAt, r.WholeAt = one.retryAt, one.wholeAt
		if one.denied {
			r.Denied, r.Limit, r.Needs = true, one.limit, one.units
		} else {
			r.Closed = one.limit
		}
	}
	if r.Calls == 0 && r.Refused == 0 && !r.Denied {
		r.Refused, r.Why = s.tokenless.Refused, s.tokenless.Why
	}
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
	t.with(token, func(s *spender) {
		s.record.refuse(why)
		if last := s.grants[s.record.Unanswered]; last != nil && last.proxied {
			s.record.Unanswered = "" // that it has no answer says nothing of the budget
		}
	})
}

// Tokenless records that a call to a credential's upstream was refused because it had no run
// token. Which pass made it is not known, so it counts for those that make no other.
func (t *Tokens) Tokenless(credential, why string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, s := range t.spenders {
		if s.bearer.Credential == credential {
			s.tokenless.refuse(why)
		}
	}
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

// Settled records that a grant of the token's pass was set to what it really cost, and how
// its limits are now. If that is more than a limit may have, the pass is
// exhausted, which ends the run, and past says what it exceeded.
func (t *Tokens) Settled(token, grantID string, units quota.Units, limits []quota.LimitState) (past string) {
	t.with(token, func(s *spender) {
		g := s.grants[grantID]
		if g == nil {
			return
		}
		if g.units > 0 && units == 0 {
			s.record.Made[g.operation] -= g.calls // a released call was not sent
			if s.record.Unanswered == grantID {
				s.record.Unanswered = ""
			}
		} else if g.units == 0 && units > 0 {
			s.record.Made[g.operation] += g.calls
		}
		more := units - g.units
		g.units = units
		s.record.Units += more
		if more <= 0 {
			return
		}
		if past = s.overspent(limits); past != "" {
			s.record.Past = past
		}
	})
	return past
}

// overspent returns what a pass exceeds that has spent more than it was granted.
func (s *spender) overspent(limits []quota.LimitState) (past string) {
	limit, by := quota.Overspent(limits, s.bearer.UseReserve)
	if by == 0 {
		return ""
	}
	s.answer("", refusedCall{denied: true, limit: limit, settled: true})
	return fmt.Sprintf("limit %q by %s", limit, by.Text())
}

// Observed records what the upstream answered to a call of the token's pass. The last answer
// for an operation counts.
func (t *Tokens) Observed(token string, word quota.Word) {
	t.with(token, func(s *spender) {
		s.record.Unanswered, s.record.Served = "", true
		if word.Unclear {
			return
		}
		s.record.Refuses = word.Refuses
		if word.Limit != "" {
			s.answer(word.Operation, refusedCall{operation: word.Operation, limit: word.Limit, retryAt: word.Until})
		} else if word.Refuses == "" {
			s.answer(word.Operation)
		}
	})
}

// stillExpected returns the calls that a pass is expected to make beyond those that it made.
func stillExpected(calls quota.Calls, made Made) (list []quota.Calls) {
	left := make(map[string]quota.Units)
	for operation, count := range calls.Count {
		if more := count - made[operation]; more > 0 {
			left[operation] = more
		}
	}
	if len(left) > 0 {
		list = append(list, quota.Calls{Job: calls.Job, Count: left})
	}
	return list
}

package upstream

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"quotad/quota"
)

// A Profile says of a credential how its upstream answers.
type Profile struct {
	Format Format
	Limits map[string]Counterpart // by our limit's name
}

// A Counterpart is the upstream's side of one of our limits.
type Counterpart struct {
	Names  []string     // what the upstream calls it, in its answers
	Resets quota.Window // the calendar window by which it resets; zero: not known
	Units  quota.Units  // how large it is by default, as Source says; 0: not known
	Source string       // "preset youtube-classic"
}

// An Observation is what an upstream answered to a call.
type Observation struct {
	Credential string
	// Operation is what was called; or Grant is what was spent on it, by its public id.
	Operation, Grant string
	Answer           Answer
	// Silent stands for an answer that was not kept: a job stopped because the budget was
	// exhausted, though nothing was denied here. Answer is not read.
	Silent bool
	Caller quota.Caller
}

// An Outcome is what was made of an observation.
type Outcome struct {
	// Refused says why nothing was made of it; then the rest is zero.
	Refused quota.Decision
	Verdict
	Credential, Operation string
	// Limit is the one that the answer is about, by our name for it; empty where none
	// is concerned, or none is known to be.
	Limit string
	// Closed is how that limit is closed now, and Changed whether this observation closed it.
	Closed  quota.Closed
	Changed bool
}

// Report reports to the pass that holds a token what the outcome means for it.
func (out *Outcome) Report(token string, passes interface {
	Observed(token string, word quota.Word)
}) {
	word := quota.Word{Operation: out.Operation}
	switch {
	case out.Limit != "":
		word.Limit, word.Until = out.Limit, out.Closed.Until
	case out.Class == Config || out.Class == Billing:
		word.Refuses = out.Says
	case out.Class != OK:
		word.Unclear = true
	}
	passes.Observed(token, word)
}

// An Observer classifies what upstreams answer, and closes limits accordingly. Any number
// of goroutines may use it at the same time.
type Observer struct {
	service *quota.Service
	report  func(Outcome)

	mu       sync.Mutex // guards what follows
	profiles map[string]Profile
	drifts   map[string]map[string]Drift // by credential and limit
	strange  map[string]Strange          // by credential
}

// Strange is a refusal that nothing explained: a reason that is not known, or none.
type Strange struct {
	At                time.Time
	Operation, Reason string // Reason is what the upstream calls it, if anything
	Says              string
}

// NewObserver returns an observer of a service's credentials. It passes each outcome that
// was not refused to report, which returns at once.
func NewObserver(service *quota.Service, profiles map[string]Profile, report func(Outcome)) *Observer {
	return &Observer{service: service, report: report, profiles: profiles, drifts: make(map[string]map[string]Drift), strange: make(map[string]Strange)}
}

// SetProfiles replaces what is known of the upstreams. What nothing explained may be explained now.
func (o *Observer) SetProfiles(profiles map[string]Profile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.profiles = profiles
	clear(o.strange)
}

// Strange returns the last refusal of a credential's calls that nothing explained.
func (o *Observer) Strange(credential string) (last Strange, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	last, known = o.strange[credential]
	return last, known
}

func (o *Observer) setStrange(credential string, last Strange) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.strange[credential] = last
}

func (o *Observer) profile(credential string) Profile {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.profiles[credential]
}

// Observe classifies an answer, closes the limit that it is about, and compares counts. A remote
// caller's word closes its share, if it has one, and its counts are not compared. A
// malformed observation is an outcome that is refused, and closes nothing; the errors are
// those of quota.Ledger.
func (o *Observer) Observe(ctx context.Context, seen Observation) (Outcome, error) {
	c, refused, err := o.identify(ctx, &seen)
	if c == nil {
		return Outcome{Refused: refused}, err
	}
	s := &observing{observer: o, credential: c, profile: o.profile(c.Name)}
	s.out = Outcome{Verdict: Verdict{Class: OK}, Credential: c.Name, Operation: seen.Operation}
	if !seen.isSilentOfQuota(s.profile.Format) {
		if err := s.work(ctx, seen); err != nil {
			return Outcome{}, err
		}
	}
	if s.out.Refused.Reason == "" && !(seen.Caller.Remote != "" && s.out.Class == OK) {
		o.report(s.out)
	}
	return s.out, nil
}

// isSilentOfQuota recognizes most answers that say nothing of the quota, without reading the
// log.
func (seen *Observation) isSilentOfQuota(f Format) bool {
	a := seen.Answer
	return !seen.Silent && a.Status >= 100 && a.Status < 400 && len(a.Body) == 0 && f.Headers.left(a.Header) == nil
}

// identify returns the credential that was called, and completes the operation; no credential
// where the observation is refused.
func (o *Observer) identify(ctx context.Context, seen *Observation) (*quota.Credential, quota.Decision, error) {
	if seen.Grant != "" {
		e, ok, err := o.service.Grant(ctx, seen.Grant)
		if err != nil {
			return nil, quota.Decision{}, err
		}
		if !ok {
			return nil, quota.Decision{Reason: quota.UnknownGrant, Detail: fmt.Sprintf("grant %.120q is not in the log", seen.Grant)}, nil
		}
		seen.Credential, _, _ = quota.ParseGrantID(seen.Grant)
		g, _ := e.Grant()
		seen.Operation = g.Operation
	}
	c, refused := o.service.Lookup(seen.Credential, seen.Operation)
	return c, refused, nil
}

// An observing is an observation that is being worked on.
type observing struct {
	observer   *Observer
	credential *quota.Credential
	profile    Profile
	usage      quota.Usage
	out        Outcome
}

// work completes the outcome.
func (s *observing) work(ctx context.Context, seen Observation) (err error) {
	if s.usage, err = s.observer.service.Usage(ctx, s.credential.Name); err != nil {
		return err
	}
	s.out.Verdict = Verdict{Class: Unknown, Says: "a job reported that the budget was exhausted, though quotad denied nothing"}
	if !seen.Silent {
		if s.out.Verdict, err = Classify(seen.Answer, s.profile.Format, s.usage.Now); err != nil {
			s.out = Outcome{Refused: quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}}
			return nil
		}
	}
	if s.out.Class == Unknown && !seen.Silent {
		s.observer.setStrange(s.credential.Name, Strange{s.usage.Now, s.out.Operation, s.out.reason, s.out.Says})
	}
	if err := s.close(ctx, seen.Caller); err != nil || seen.Caller.Remote != "" {
		return err
	}
	s.compare()
	return nil
}

// close closes the limit that the verdict is about, if it is about one.
func (s *observing) close(ctx context.Context, by quota.Caller) error {
	if s.out.Class == OK || s.out.Class == Config {
		return nil
	}
	i := s.own(s.limit(), by)
	if i < 0 {
		return nil
	}
	limit := s.usage.Limits[i]
	s.out.Limit, s.out.Closed = limit.Name, limit.Closed
	until := s.until(limit)
	if !until.After(s.usage.Now) { // or it resets this minute
		return nil
	}
	k := quota.Change{Kind: quota.KindClosing, Limit: limit.Name, Until: until, Note: s.out.Says, Caller: by}
	d, changed, err := s.observer.service.ChangeLimit(ctx, s.credential.Name, k)
	if err != nil {
		return err
	}
	if d.Reason != "" {
		return fmt.Errorf("cannot close limit %q: %s", limit.Name, d.Detail)
	}
	if s.out.Changed = changed; changed {
		s.out.Closed = quota.Closed{Since: s.usage.Now, Until: k.Until, Says: k.Note, By: by.By()}
	}
	return nil
}

// limit returns the limit that is meant: the one that the upstream names, else the
// likeliest, which for a day's is one of an hour or more, and for a minute's a shorter one
// if there is any; -1 if there is none. One that is closed already is meant all the same: a
// call that counts against it now was sent before it was closed, and says nothing of a
// wider one.
func (s *observing) limit() int {
	if i := s.named(s.out.Names...); i >= 0 {
		return i
	}
	isLong := func(limit quota.Limit) bool { return limit.Window.Span() >= time.Hour }
	if s.out.Class != Day && s.out.Class != Billing {
		// A rate without a time is one of a minute at least, which a limit of a second is too short for.
		isTimed := s.out.Class != Minute || !s.out.Reset.IsZero()
		isShort := func(limit quota.Limit) bool {
			return !isLong(limit) && (isTimed || limit.Window.Span() >= shortClosing)
		}
		if i := s.likeliest(isShort); i >= 0 {
			return i
		}
	}
	return s.likeliest(isLong)
}

// own returns the limit that a caller's word may close, of what it is about: a remote caller that has
// shares closes the narrowest of them.
func (s *observing) own(i int, by quota.Caller) int {
	if i < 0 || by.Remote == "" {
		return i
	}
	own := -1
	for n, state := range s.usage.Limits {
		limit := state.Limit
		if !slices.Contains(limit.Jobs, by.By()) || s.cost(limit) == 0 {
			continue
		}
		if own < 0 || limit.Units < s.usage.Limits[own].Units {
			own = n
		}
	}
	if own >= 0 {
		return own
	}
	return i
}

// named returns the limit that the upstream calls by one of the names; -1 if there is none.
func (s *observing) named(names ...string) int {
	for _, name := range names {
		isName := func(own string) bool { return strings.EqualFold(own, name) }
		for i, limit := range s.usage.Limits {
			if slices.ContainsFunc(s.profile.Limits[limit.Name].Names, isName) {
				return i
			}
		}
	}
	return -1
}

// likeliest returns which of the limits that may be meant an answer without a name is about;
// -1 if there is none. It must count the operation, and is no share: the upstream knows
// nothing of one.
func (s *observing) likeliest(may func(quota.Limit) bool) int {
	best := -1
	for i, state := range s.usage.Limits {
		limit := state.Limit
		if limit.IsShare() || s.cost(limit) == 0 || !may(limit) {
			continue
		}
		if best < 0 || s.compareLimits(limit, s.usage.Limits[best].Limit) < 0 {
			best = i
		}
	}
	return best
}

// cost is what the operation costs in a limit.
func (s *observing) cost(limit quota.Limit) quota.Units {
	return s.credential.Operations[s.out.Operation].In(limit, s.out.Operation)
}

// compareLimits puts a limit that the profile knows before a cap of ours, then the one that
// counts fewer operations, then the one that has room for fewer calls.
func (s *observing) compareLimits(x, y quota.Limit) int {
	rank := func(limit quota.Limit) (unknown, operations int) {
		if _, known := s.profile.Limits[limit.Name]; !known {
			unknown = 1
		}
		for operation, cost := range s.credential.Operations {
			if cost.In(limit, operation) > 0 {
				operations++
			}
		}
		return unknown, operations
	}
	unknownX, operationsX := rank(x)
	unknownY, operationsY := rank(y)
	return cmp.Or(unknownX-unknownY, operationsX-operationsY, cmp.Compare(x.Units/s.cost(x), y.Units/s.cost(y)))
}

const (
	shortClosing = time.Minute // where nothing says how long a limit refuses, or whether it is one
	longClosing  = time.Hour   // where no reset is known
)

// until returns until when a limit is closed; the zero time leaves it as it is. Whatever
// the answer says, that is at most until what was debited by now does not count any more.
func (s *observing) until(limit quota.LimitState) time.Time {
	now, at := s.usage.Now, s.out.Reset
	switch {
	case s.out.Class == Unknown && !limit.Closed.IsZero():
		return time.Time{} // the call was sent before the limit was closed
	case s.out.Class == Unknown:
		at = now.Add(shortClosing)
	case s.out.Class == Minute && !at.After(now): // or "now" is what it says
		at = now.Add(shortClosing)
	case s.out.Class == Minute:
		at = quota.Earlier(at, now.Add(longClosing))
	case at.IsZero():
		at = s.reset(limit.Limit)
	}
	if _, end := limit.Window.Bounds(now); limit.Window.Restarts() {
		return quota.Earlier(at, end)
	}
	return quota.Earlier(at, now.Add(limit.Window.Length))
}

// reset returns when an exhausted limit resets where the answer does not say: as is known of
// the upstream, or of the limit's own period, else in an hour.
func (s *observing) reset(limit quota.Limit) time.Time {
	for _, w := range []quota.Window{s.profile.Limits[limit.Name].Resets, limit.Window} {
		if w.Restarts() {
			_, end := w.Bounds(s.usage.Now)
			return end
		}
	}
	return s.usage.Now.Add(longClosing)
}

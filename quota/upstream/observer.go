package upstream

import (
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
	Limits map[string]Limit // by our limit's name
}

// A Limit is the upstream's side of one of our limits.
type Limit struct {
	Names  []string     // what the upstream calls it, in its answers
	Resets quota.Window // the calendar window by which it resets; zero: not known
	Units  quota.Units  // how large it is by default, as Source says; 0: not known
	Source string       // "preset youtube-classic"
}

// An Observation is what somebody heard of an upstream.
type Observation struct {
	Credential string
	// Operation that was called; or the grant that was spent on it, by its public id.
	Operation, Grant string
	Answer           Answer
	// Silent is an answer that nobody kept: a job that stopped because the budget was
	// gone, though nothing was denied here. Answer is not looked at.
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
	// is concerned, or nobody knows which.
	Limit string
	// Closed is how that limit is closed now, and Changed whether this observation closed it.
	Closed  quota.Closed
	Changed bool
	// Drifts are those that began, or ended, with this observation.
	Drifts []Drift
}

// Tell tells the pass that holds a token what the outcome means for it. An answer that nobody
// understands means nothing.
func (out *Outcome) Tell(token string, passes interface {
	Observed(token string, word quota.Word)
}) {
	word := quota.Word{Operation: out.Operation}
	switch {
	case out.Limit != "":
		word.Limit, word.Until = out.Limit, out.Closed.Until
	case out.Class == Config || out.Class == Billing:
		word.Refuses = out.Says
	case out.Class != OK:
		return
	}
	passes.Observed(token, word)
}

// An Observer takes in what the upstream says, and closes limits accordingly. Any number
// of goroutines may use it at the same time.
type Observer struct {
	service *quota.Service
	told    func(Outcome)

	mu       sync.Mutex // guards what follows
	profiles map[string]Profile
	drifts   map[string]map[string]Drift // by credential and limit
}

// NewObserver returns an observer of a service's credentials. It passes each outcome that
// was not refused to told, which returns at once.
func NewObserver(service *quota.Service, profiles map[string]Profile, told func(Outcome)) *Observer {
	return &Observer{service: service, told: told, profiles: profiles, drifts: make(map[string]map[string]Drift)}
}

// SetProfiles replaces what is known of the upstreams.
func (o *Observer) SetProfiles(profiles map[string]Profile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.profiles = profiles
}

// Format returns how a credential's upstream answers.
func (o *Observer) Format(credential string) Format { return o.profile(credential).Format }

func (o *Observer) profile(credential string) Profile {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.profiles[credential]
}

// Observe takes in what an upstream answered. What is malformed about an observation is
// an outcome that is refused, and closes nothing; the errors are those of quota.Ledger.
func (o *Observer) Observe(ctx context.Context, heard Observation) (Outcome, error) {
	c, refused, err := o.identify(ctx, &heard)
	if c == nil {
		return Outcome{Refused: refused}, err
	}
	profile := o.profile(c.Name)
	if heard.saysNothing(profile.Format) {
		out := Outcome{Verdict: Verdict{Class: OK}, Credential: c.Name, Operation: heard.Operation}
		o.told(out)
		return out, nil
	}
	usage, _, err := o.service.Usage(ctx, c.Name)
	if err != nil {
		return Outcome{}, err
	}
	v := Verdict{Class: Unknown, Says: "a job reported that the budget was exhausted, though quotad denied nothing"}
	if !heard.Silent {
		if v, err = Classify(heard.Answer, profile.Format, usage.Now); err != nil {
			return Outcome{Refused: quota.Decision{Reason: quota.BadRequest, Detail: err.Error()}}, nil
		}
	}
	out := Outcome{Verdict: v, Credential: c.Name, Operation: heard.Operation}
	s := subject{observer: o, credential: c, profile: profile, usage: usage, out: &out}
	if err := s.close(ctx, heard.Caller); err != nil {
		return Outcome{}, err
	}
	if err := s.compare(ctx); err != nil {
		return Outcome{}, err
	}
	o.told(out)
	return out, nil
}

// saysNothing tells of most answers, without a look at the log, that they are none about
// the quota.
func (heard *Observation) saysNothing(f Format) bool {
	a := heard.Answer
	return !heard.Silent && a.Status >= 100 && a.Status < 400 && len(a.Body) == 0 && f.Headers.left(a.Header) == nil
}

// identify returns the credential that was called, and completes the operation.
func (o *Observer) identify(ctx context.Context, heard *Observation) (*quota.Credential, quota.Decision, error) {
	refuse := func(reason quota.Reason, format string, args ...any) (*quota.Credential, quota.Decision, error) {
		return nil, quota.Decision{Reason: reason, Detail: fmt.Sprintf(format, args...)}, nil
	}
	if heard.Grant != "" {
		e, ok, err := o.service.Grant(ctx, heard.Grant)
		if err != nil {
			return nil, quota.Decision{}, err
		}
		if !ok {
			return refuse(quota.UnknownGrant, "grant %.120q is not in the log", heard.Grant)
		}
		heard.Credential, _, _ = quota.ParseGrantID(heard.Grant)
		heard.Operation = e.Operation
	}
	c, d := o.service.Lookup(heard.Credential, heard.Operation)
	return c, d, nil
}

// A subject is an observation as it is being worked on.
type subject struct {
	observer   *Observer
	credential *quota.Credential
	profile    Profile
	usage      quota.Usage
	out        *Outcome
}

const (
	coolDown = time.Minute // of a limit of minutes that does not say for how long
	blind    = time.Hour   // of one whose reset nobody knows
)

// close closes the limit that the verdict is about, if it is about one.
func (s *subject) close(ctx context.Context, by quota.Caller) error {
	if s.out.Class == OK || s.out.Class == Config {
		return nil
	}
	i := s.limit()
	if i < 0 {
		return nil
	}
	limit := s.usage.Limits[i]
	s.out.Limit, s.out.Closed = limit.Name, limit.Closed
	until, err := s.until(ctx, limit)
	if err != nil || !until.After(s.usage.Now) { // or it is being given back this minute
		return err
	}
	k := quota.Closing{Limit: limit.Name, Until: until, Says: s.out.Says, Caller: by}
	d, changed, err := s.observer.service.CloseLimit(ctx, s.credential.Name, k)
	if err != nil || d.Reason != "" {
		return errorOf(d, err)
	}
	if s.out.Changed = changed; changed {
		s.out.Closed = quota.Closed{Since: s.usage.Now, Until: k.Until, Says: k.Says, By: by.By()}
	}
	return nil
}

func errorOf(d quota.Decision, err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf("cannot close a limit: %s", d.Detail)
}

// repeats tells whether a limit was closed within the last hour already.
func (s *subject) repeats(ctx context.Context, limit string) (again bool, err error) {
	err = s.observer.service.Walk(ctx, s.credential.Name, s.usage.Now.Add(-blind), func(e quota.Entry) bool {
		again = e.Kind == quota.KindClosing && e.Limit == limit
		return !again && e.Kind != quota.KindReset
	})
	return again, err
}

// counts tells whether a limit of that name counts the operation. The upstream knows
// nothing of a share.
func (s *subject) counts(name string) bool {
	limit, ok := s.credential.Limit(name)
	return ok && !limit.IsShare() && s.credential.Operations[s.out.Operation].In(limit, s.out.Operation) > 0
}

// limit returns the limit that is meant: the one that the upstream names, else the
// likeliest, which for a day's is one of an hour or more, and for a minute's a shorter one
// if there is any; -1 if there is none. One that is closed already is meant all the same: a
// call that counts against it now was sent before it was closed, and says nothing of a
// wider one.
func (s *subject) limit() int {
	if i := s.named(s.out.Names); i >= 0 {
		return i
	}
	lasting := func(limit quota.Limit) bool { return limit.Window.Span() >= time.Hour }
	if s.out.Class != Day && s.out.Class != Billing {
		if i := s.likeliest(func(limit quota.Limit) bool { return !lasting(limit) }); i >= 0 {
			return i
		}
	}
	return s.likeliest(lasting)
}

// likeliest returns which of the limits that count the operation, and may be meant, an
// answer without a name is about; -1 if there is none.
func (s *subject) likeliest(may func(quota.Limit) bool) int {
	best := -1
	for i, limit := range s.usage.Limits {
		if s.counts(limit.Name) && may(limit.Limit) && (best < 0 || s.likelier(limit.Limit, s.usage.Limits[best].Limit)) {
			best = i
		}
	}
	return best
}

// likelier tells whether x comes before y: what is known of the upstream before a cap of
// ours, then the narrower.
func (s *subject) likelier(x, y quota.Limit) bool {
	_, a := s.profile.Limits[x.Name]
	_, b := s.profile.Limits[y.Name]
	if a != b {
		return a
	}
	return s.narrower(x, y)
}

// named returns the limit that the upstream calls by one of the names.
func (s *subject) named(names []string) int {
	for _, name := range names {
		for i, limit := range s.usage.Limits {
			if slices.ContainsFunc(s.profile.Limits[limit.Name].Names, func(own string) bool { return strings.EqualFold(own, name) }) {
				return i
			}
		}
	}
	return -1
}

// narrower tells whether x counts fewer operations than y, or as many and fewer calls.
func (s *subject) narrower(x, y quota.Limit) bool {
	counted := func(limit quota.Limit) (n int) {
		for operation, cost := range s.credential.Operations {
			if cost.In(limit, operation) > 0 {
				n++
			}
		}
		return n
	}
	calls := func(limit quota.Limit) quota.Units {
		return limit.Units / s.credential.Operations[s.out.Operation].In(limit, s.out.Operation)
	}
	if a, b := counted(x), counted(y); a != b {
		return a < b
	}
	return calls(x) < calls(y)
}

// until returns until when a limit is closed; the zero time leaves it as it is. Whatever
// the answer says, that is at most until the limit's own window, or period, is over.
func (s *subject) until(ctx context.Context, limit quota.LimitState) (at time.Time, err error) {
	switch s.out.Class {
	case Minute:
		at = s.minutes()
	case Unknown:
		at, err = s.unknown(ctx, limit)
	default:
		at = s.reset(limit.Limit)
	}
	if last := windowEnd(limit.Window, s.usage.Now); at.After(last) {
		at = last
	}
	return at, err
}

// windowEnd is when what was debited until now counts no more.
func windowEnd(w quota.Window, now time.Time) time.Time {
	if _, end := w.Bounds(now); w.IsCalendar() {
		return end
	}
	return now.Add(w.Length)
}

// minutes is when a refusal of minutes ends: as the upstream says, but never later than
// in an hour.
func (s *subject) minutes() time.Time {
	last := s.usage.Now.Add(blind)
	switch {
	case s.out.Reset.IsZero():
		return s.usage.Now.Add(coolDown)
	case s.out.Reset.After(last):
		return last
	}
	return s.out.Reset
}

// unknown is when a refusal of unknown length ends: it is taken for one of minutes, and
// for one of an hour where it comes again after that.
func (s *subject) unknown(ctx context.Context, limit quota.LimitState) (time.Time, error) {
	if !limit.Closed.IsZero() {
		return time.Time{}, nil // of a call that was sent before
	}
	again, err := s.repeats(ctx, limit.Name)
	if again {
		return s.usage.Now.Add(blind), err
	}
	return s.minutes(), err
}

// reset is when an exhausted limit is given back: as the answer says, else as is known of
// the upstream, or of the limit's own period, else in an hour.
func (s *subject) reset(limit quota.Limit) time.Time {
	if !s.out.Reset.IsZero() {
		return s.out.Reset
	}
	for _, w := range []quota.Window{s.profile.Limits[limit.Name].Resets, limit.Window} {
		if w.IsCalendar() {
			_, end := w.Bounds(s.usage.Now)
			return end
		}
	}
	return s.usage.Now.Add(blind)
}

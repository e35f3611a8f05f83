package upstream

import (
	"context"
	"fmt"
	"maps"
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
	Names  []string     `toml:"names"`              // what the upstream calls it, in its answers
	Resets quota.Window `toml:"resets" is:"period"` // the calendar window by which it resets; zero: not known
}

// An Observation is what an upstream answered to a call.
type Observation struct {
	Credential string
	// Operation is what was called; or Grant is what was spent on it, by its public id.
	Operation, Grant string
	Answer           Answer
	Caller           quota.Caller
}

// An Outcome is what was made of an observation.
type Outcome struct {
	Verdict
	Credential, Operation string
	Limit                 string       // the one that the answer is about, by our name for it; empty: none, or none is known to be
	Closed                quota.Closed // how that limit is closed now
	Changed               bool         // this observation closed it
	Before                string       // what others had spent before quotad, and is booked now: "940 units of daily"
}

// Report reports to the pass that holds a token what the outcome means for it.
func (out *Outcome) Report(token string, passes interface {
	Observed(token string, word quota.Word)
}) {
	word := quota.Word{Operation: out.Operation}
	switch {
	case out.Limit != "":
		word.Limit, word.Until = out.Limit, out.Closed.Until
	case out.refusesKey():
		word.Refuses = out.Says
	case out.Class != OK:
		word.Unclear = true
	}
	passes.Observed(token, word)
}

// refusesKey reports whether a person has to change something, or to pay.
func (out *Outcome) refusesKey() bool { return out.Class == Key || out.Class == Billing }

// A Count is what an upstream said last of a limit, beside our own count.
type Count struct {
	Ours         quota.Units
	Theirs, Size Amount // of units counted, and of the limit, as the upstream says
}

// An Observer classifies what upstreams answer, and closes limits accordingly. Any number of goroutines may use it at
// the same time.
type Observer struct {
	service *quota.Service
	report  func(Outcome)

	mu       sync.Mutex // guards what follows
	profiles map[string]Profile
	counts   map[ofLimit]Count
	doubts   map[ofLimit]int   // refusals that nothing explained, since a good answer
	begun    map[ofLimit]bool  // what was spent before quotad is counted
	refused  map[string]string // by credential: in which words its key is refused, since a good answer
}

// An ofLimit is a key of what is known of a limit.
type ofLimit struct{ credential, limit string }

// NewObserver returns an observer of a service's credentials. It passes each outcome that was not refused to report,
// which returns at once.
func NewObserver(service *quota.Service, profiles map[string]Profile, report func(Outcome)) *Observer {
	o := &Observer{service: service, report: report, counts: map[ofLimit]Count{}, begun: map[ofLimit]bool{}}
	o.SetProfiles(profiles)
	return o
}

// SetProfiles replaces what is known of the upstreams. What nothing explained may be explained now.
func (o *Observer) SetProfiles(profiles map[string]Profile) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.profiles, o.doubts, o.refused = profiles, map[ofLimit]int{}, map[string]string{}
}

// Refuses returns the words in which the upstream refuses the key of a credential; empty: it does not.
func (o *Observer) Refuses(credential string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.refused[credential]
}

// Count returns what the upstream counts of a limit; the zero value: it never said.
func (o *Observer) Count(credential, limit string) Count {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.counts[ofLimit{credential, limit}]
}

// Observe classifies an answer, closes the limit that it is about, and compares counts. Of a remote caller, the word
// closes its share, if it has one, no longer than what it spent counts, and its counts are not compared. A malformed
// observation closes nothing, and is a *quota.RefusedError; the other errors are those of quota.Ledger.
func (o *Observer) Observe(ctx context.Context, seen Observation) (Outcome, error) {
	if seen.Grant != "" {
		e, ok, err := o.service.Grant(ctx, seen.Grant)
		switch {
		case err != nil:
			return Outcome{}, err
		case !ok:
			return Outcome{}, refuse(quota.UnknownGrant, fmt.Sprintf("grant %.120q is not in the log", seen.Grant))
		}
		seen.Credential, _, _ = quota.ParseGrantID(seen.Grant)
		g, _ := e.Grant()
		seen.Operation = g.Operation
	}
	c, refused := o.service.Lookup(seen.Credential, seen.Operation)
	if c == nil {
		return Outcome{}, &quota.RefusedError{Decision: refused}
	}
	s := &observing{observer: o, credential: c}
	o.mu.Lock()
	s.profile = o.profiles[c.Name]
	o.mu.Unlock()
	s.out = Outcome{Verdict: Verdict{Class: OK}, Credential: c.Name, Operation: seen.Operation}
	if !seen.isPlain(s.profile.Format) {
		if err := s.work(ctx, seen); err != nil {
			return Outcome{}, err
		}
	}
	s.remember(seen)
	if seen.Caller.Remote == "" || s.out.Class != OK {
		o.report(s.out)
	}
	return s.out, nil
}

func refuse(reason quota.Reason, detail string) error {
	return &quota.RefusedError{Decision: quota.Decision{Reason: reason, Detail: detail}}
}

// isPlain recognizes most answers that say nothing of the quota, without reading the log.
func (seen *Observation) isPlain(f Format) bool {
	a := seen.Answer
	return a.Status >= 100 && a.Status < 400 && (len(a.Body) == 0 || len(f.Reason) == 0) && f.Headers.left(a.Header) == nil
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
	if s.out.Verdict, err = Classify(seen.Answer, s.profile.Format, s.usage.Now); err != nil {
		return refuse(quota.BadRequest, err.Error())
	}
	if seen.Caller.Remote == "" {
		if err := s.count(ctx); err != nil {
			return err
		}
	}
	return s.close(ctx, seen.Caller)
}

// remember keeps in which words a key is refused. A good answer ends that, and the doubts about the limits that count
// its operation.
func (s *observing) remember(seen Observation) {
	o := s.observer
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case s.out.Class == OK && seen.Answer.Status < 400:
		delete(o.refused, s.credential.Name)
		maps.DeleteFunc(o.doubts, func(of ofLimit, _ int) bool {
			limit, _ := s.credential.Limit(of.limit)
			return of.credential == s.credential.Name && s.cost(limit) > 0
		})
	case s.out.refusesKey() && seen.Caller.Remote == "":
		o.refused[s.credential.Name] = s.out.Says
	}
}

// close closes the limit that the verdict is about, if it is about one.
func (s *observing) close(ctx context.Context, by quota.Caller) error {
	if s.out.Class == OK || s.out.Class == Key {
		return nil
	}
	limit := s.limit(by)
	if limit == nil {
		return nil
	}
	s.out.Limit, s.out.Closed = limit.Name, limit.Closed
	until := s.until(limit)
	if by.Remote != "" { // a stranger
		until = quota.Earlier(until, windowEnd(limit.Window, s.usage.Now))
	}
	if !until.After(s.usage.Now) { // or it resets this minute
		return nil
	}
	k := quota.Change{Kind: quota.KindClosing, Limit: limit.Name, Until: until, Note: s.out.Says, Caller: by}
	d, changed, err := s.observer.service.ChangeLimit(ctx, s.credential.Name, k)
	if err == nil && d.Reason != "" {
		err = fmt.Errorf("cannot close limit %q: %s", limit.Name, d.Detail)
	}
	if s.out.Changed = changed; changed {
		s.out.Closed = quota.Closed{Since: s.usage.Now, Until: until, Says: k.Note, By: by.By()}
	}
	return err
}

const (
	shortClosing = time.Minute // where nothing says how long a limit refuses, or whether it is one
	longClosing  = time.Hour   // where no reset is known
)

// until returns until when a limit is closed; the zero time leaves it as it is. A time that the answer names is kept,
// however long it is.
func (s *observing) until(limit *quota.LimitState) (reset time.Time) {
	now := s.usage.Now
	for _, w := range []quota.Window{limit.Window, s.profile.Limits[limit.Name].Resets} {
		if w.Restarts() {
			reset = quota.Earlier(windowEnd(w, now), windowEnd(limit.Window, now))
		}
	}
	switch {
	case s.out.Class == Unknown && !limit.Closed.IsZero():
		return time.Time{} // the call was sent before the limit was closed
	case s.out.Class == Unknown:
		return now.Add(s.doubt(limit.Name))
	case !s.out.Reset.IsZero():
		return s.out.Reset
	case s.out.Class == Minute && (reset.IsZero() || limit.Window.Span() >= time.Hour): // its period is not the rate's
		return now.Add(shortClosing)
	case reset.IsZero():
		return quota.Earlier(now.Add(longClosing), windowEnd(limit.Window, now))
	}
	return reset
}

// windowEnd returns when nothing that is debited now counts any more.
func windowEnd(w quota.Window, now time.Time) time.Time {
	if w.Restarts() {
		_, end := w.Bounds(now)
		return end
	}
	return now.Add(w.Length)
}

// doubt returns for how long a limit is closed without an explanation: a minute, and twice as long each time, up to an
// hour, until an answer is good.
func (s *observing) doubt(limit string) time.Duration {
	of := ofLimit{s.credential.Name, limit}
	s.observer.mu.Lock()
	defer s.observer.mu.Unlock()
	s.observer.doubts[of]++
	return min(shortClosing<<min(s.observer.doubts[of]-1, 6), longClosing)
}

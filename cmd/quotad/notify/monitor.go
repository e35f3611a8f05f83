package notify

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
	"quotad/regions"
)

// A Monitor finds the edges in what happens, and raises one alert for each. It
// remembers nothing over a restart: what is so when the daemon starts is an edge too.
// Any number of goroutines may use it at the same time.
type Monitor struct {
	emit func(event any)

	mu      sync.Mutex // guards what follows
	levels  map[limitName]*level
	outages map[string]bool // by credential: the ledger does not decide
	failing map[string]bool // by job
	// refusing upstreams want a person to change the key, the quota or the bill.
	refusing map[string]bool
}

type limitName struct{ credential, limit string }

// NewMonitor returns a monitor that emits its alerts.
func NewMonitor(emit func(event any)) *Monitor {
	return &Monitor{
		emit: emit, levels: map[limitName]*level{},
		outages: map[string]bool{}, failing: map[string]bool{}, refusing: map[string]bool{},
	}
}

func (m *Monitor) raise(one Alert) {
	one.At = time.Now()
	m.emit(one)
}

// Record takes an event in.
func (m *Monitor) Record(event any) {
	switch event := event.(type) {
	case server.Event:
		m.decided(event)
	case slidinglog.Event:
		m.outage(event)
	case upstream.Outcome:
		m.observed(event)
	case jobs.GateRefused:
		if event.Decision.Reason == quota.LimitExceeded {
			m.denied(event.Credential, event.Decision)
		}
	case jobs.Overdue:
		m.overdue(event)
	case jobs.PassChanged:
		m.passChanged(event.Run, event.Pass)
	case jobs.RunChanged:
		m.runChanged(event.Run)
		m.runEnded(event)
	}
}

// decided finds limits that are near, or deny.
func (m *Monitor) decided(event server.Event) {
	credential, d := event.Request.Credential, event.Decision
	if event.GrantID != "" {
		credential, _, _ = quota.ParseGrantID(event.GrantID)
	}
	debited := event.Verb == "acquire" && !d.Replayed
	if by := event.Request.Caller; event.Past != "" {
		m.raise(Alert{Event: config.Overspent, Credential: credential, Run: jobs.Run{Job: by.Job, ID: by.Run},
			Pass: jobs.Pass{Region: regions.Region(by.Region)}, Detail: fmt.Sprintf("grant %s is past %s", event.GrantID, event.Past)})
	}
	switch {
	case event.Err != nil:
		m.undecided(credential, event.Err)
	case d.Reason == quota.LimitExceeded:
		m.denied(credential, d)
	case event.Verb == "close" && !d.RetryAt.IsZero():
		m.limitClosed(credential, d.Limit, d.RetryAt, d.Detail)
	case d.Granted():
		m.used(credential, d.Limits, debited)
		for _, short := range d.WouldDeny(event.Request.UseReserve) {
			m.exhausted(credential, d, short.Limit)
		}
		if debited && !d.Outage { // the ledger decides again
			m.outageEnds(credential)
		}
	}
}

// used takes in what is used of limits after a decision that debited their cost,
// or did not.
func (m *Monitor) used(credential string, limits []quota.LimitState, debited bool) {
	for _, limit := range limits {
		if limit.Lifted { // what is left is for everybody
			continue
		}
		before := limit.Used
		if debited {
			before -= limit.Cost
		}
		for _, percent := range m.rise(credential, limit, before) {
			m.raise(Alert{Event: config.NearLimit, Credential: credential, Limit: limit, Percent: percent})
		}
	}
}

func (m *Monitor) rise(credential string, limit quota.LimitState, before quota.Units) []quota.Units {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.level(credential, limit.Name).rise(before, limit.Used, limit.Budget(false))
}

// denied takes in that a limit denied a call, or kept a pass from beginning.
func (m *Monitor) denied(credential string, d quota.Decision) { m.exhausted(credential, d, d.Limit) }

// exhausted takes in that a limit denied, or would have denied if it were enforced.
func (m *Monitor) exhausted(credential string, d quota.Decision, name string) {
	i := slices.IndexFunc(d.Limits, func(l quota.LimitState) bool { return l.Name == name })
	if i < 0 {
		return
	}
	limit := d.Limits[i]
	m.mu.Lock()
	news := m.level(credential, limit.Name).deny(limit.Used, limit.Budget(false))
	m.mu.Unlock()
	if news {
		m.raise(Alert{Event: config.Exhausted, Credential: credential, Limit: limit, RetryAt: d.RetryAt})
	}
}

// level returns what is known of a limit. The caller holds mu.
func (m *Monitor) level(credential, limit string) *level {
	name := limitName{credential, limit}
	if m.levels[name] == nil {
		m.levels[name] = &level{}
	}
	return m.levels[name]
}

// undecided takes in an error: an embedded ledger tells of a full disk this way. A caller who
// went away tells nothing of the ledger.
func (m *Monitor) undecided(credential string, err error) {
	if errors.Is(err, context.Canceled) {
		return
	}
	if errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) {
		m.outageBegins(credential, err)
	}
}

// observed takes in what an upstream said: a limit that is closed is told once, by the
// host that heard of it; of a key or a quota that somebody has to change, and of counts
// that differ, people are told until it is over.
func (m *Monitor) observed(out upstream.Outcome) {
	if out.Changed {
		m.limitClosed(out.Credential, out.Limit, out.Closed.Until, out.Says)
	}
	refuses := out.Class == upstream.Config || out.Class == upstream.Billing
	if refuses || out.Class == upstream.OK {
		if m.turn(m.refusing, out.Credential, refuses) && refuses {
			m.raise(Alert{Event: config.UpstreamRefuses, Credential: out.Credential, Detail: out.Says})
		}
	}
	for _, d := range out.Drifts {
		if d.Far {
			m.raise(Alert{Event: config.CountsDiffer, Credential: d.Credential, Limit: quota.LimitState{Limit: quota.Limit{Name: d.Limit, Units: d.Units}, Used: d.Ours.Units}, Detail: d.Cause})
		}
	}
}

// limitClosed tells that the upstream, or an operator, has closed a limit.
func (m *Monitor) limitClosed(credential, limit string, until time.Time, why string) {
	m.raise(Alert{
		Event: config.LimitClosed, Credential: credential, Limit: quota.LimitState{Limit: quota.Limit{Name: limit}},
		RetryAt: until, Detail: why,
	})
}

// outage passes on the edges of a shared ledger's outage.
func (m *Monitor) outage(event slidinglog.Event) {
	switch event.Kind {
	case slidinglog.Down, slidinglog.LostLog:
		m.outageBegins(event.Credential, event.Err)
	case slidinglog.Up:
		m.outageEnds(event.Credential)
	}
}

func (m *Monitor) outageBegins(credential string, err error) {
	if m.turn(m.outages, credential, true) {
		m.raise(Alert{Event: config.OutageBegan, Credential: credential, Detail: err.Error()})
	}
}

func (m *Monitor) outageEnds(credential string) {
	if m.turn(m.outages, credential, false) {
		m.raise(Alert{Event: config.OutageEnded, Credential: credential})
	}
}

// turn sets a state and tells whether it was the other way round.
func (m *Monitor) turn(states map[string]bool, name string, to bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	turned := states[name] != to
	states[name] = to
	return turned
}

func (m *Monitor) passChanged(run jobs.Run, pass jobs.Pass) {
	if pass.Attempt >= run.Retry { // otherwise the end of the run tells
		m.failed(run, pass)
	}
}

func (m *Monitor) overdue(o jobs.Overdue) {
	alert := Alert{Event: config.OverdueEnded, Job: o.Job}
	if o.Is {
		alert.Event, alert.Detail = config.OverdueBegan, "no good run within "+quota.Brief(o.Expected)
	}
	m.raise(alert)
}

func (m *Monitor) failed(run jobs.Run, pass jobs.Pass) {
	if pass.Outcome.Failure() && m.turn(m.failing, run.Job, true) {
		m.raise(Alert{Event: config.JobFailing, Run: run, Pass: pass, Detail: pass.Detail})
	}
}

// runChanged takes in a run: one that was done without a failure ends
// the job's failing.
func (m *Monitor) runChanged(run jobs.Run) {
	if run.State == jobs.RunRunning || run.State == jobs.RunSkipped {
		return
	}
	for _, pass := range run.Failed() {
		m.failed(run, pass)
	}
	if run.State == jobs.RunDone {
		m.turn(m.failing, run.Job, false)
	}
}

// runEnded passes on each run that is over, or was skipped.
func (m *Monitor) runEnded(event jobs.RunChanged) {
	if event.Run.State != jobs.RunRunning {
		m.raise(Alert{Event: config.RunEnded, Run: event.Run, Next: event.Next, RetryAt: event.Run.RetryAt, Detail: event.Run.Detail})
	}
}

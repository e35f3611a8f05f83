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

// A Monitor finds the edges in the stream of events, and raises one alert for each. A restart
// clears its memory: a state in which the daemon starts is an edge too.
// Any number of goroutines may use it at the same time.
type Monitor struct {
	emit func(event any)

	mu     sync.Mutex // guards what follows
	levels map[limitName]*level
	lasts  map[state]bool
}

type limitName struct{ credential, limit string }

// A state lasts from the event that begins it: OutageBegan or UpstreamRefuses of a credential, or
// JobFailing of a job.
type state struct {
	begins config.Event
	name   string
}

// NewMonitor returns a monitor that emits its alerts.
func NewMonitor(emit func(event any)) *Monitor {
	return &Monitor{emit: emit, levels: map[limitName]*level{}, lasts: map[state]bool{}}
}

func (m *Monitor) raise(one Alert) {
	one.At = time.Now()
	m.emit(one)
}

// Record handles an event.
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
			m.exhausted(event.Credential, event.Decision, event.Decision.Limit)
		}
	case jobs.Overdue:
		alert := Alert{Event: config.OverdueEnded, Run: jobs.Run{Job: event.Job}}
		if event.Is {
			alert.Event, alert.Detail = config.OverdueBegan, "no good run within "+quota.Brief(event.Expected)
		}
		m.raise(alert)
	case jobs.PassChanged:
		if event.Pass.Attempt >= event.Run.Retry { // else it may be run again: the end of the run shows
			m.failed(event.Run, event.Pass)
		}
	case jobs.RunChanged:
		m.runChanged(event)
	}
}

// decided finds limits that are near, or deny.
func (m *Monitor) decided(event server.Event) {
	credential, d := event.Request.Credential, event.Decision
	if event.GrantID != "" {
		credential, _, _ = quota.ParseGrantID(event.GrantID)
	}
	debited := event.Verb == "acquire" && !d.Replayed
	unavailable := errors.Is(event.Err, quota.ErrUnavailable) || errors.Is(event.Err, quota.ErrOutcomeUnknown)
	if by := event.Request.Caller; event.Past != "" {
		m.raise(Alert{Event: config.Overspent, Credential: credential, Run: jobs.Run{Job: by.Job, ID: by.Run},
			Pass: jobs.Pass{Region: regions.Region(by.Region)}, Detail: fmt.Sprintf("grant %s of %s is past %s", event.GrantID, by.By(), event.Past)})
	}
	switch {
	case unavailable && !errors.Is(event.Err, context.Canceled): // that a caller went away says nothing about the ledger
		m.outageBegan(credential, event.Err)
	case event.Err != nil:
	case d.Reason == quota.LimitExceeded:
		m.exhausted(credential, d, d.Limit)
	case event.Verb == "close" && !d.RetryAt.IsZero():
		m.limitClosed(credential, d.Limit, d.RetryAt, d.Detail)
	case d.Granted():
		m.used(credential, d.Limits, debited)
		for _, short := range d.WouldDeny(event.Request.UseReserve) {
			m.exhausted(credential, d, short.Limit)
		}
		if debited && !d.Outage { // the ledger decides again
			m.outageEnded(credential)
		}
	}
}

// used raises an alert for each threshold that the use of a limit crosses. Debited means that the
// decision debited the limits.
func (m *Monitor) used(credential string, limits []quota.LimitState, debited bool) {
	for _, limit := range limits {
		if limit.Lifted { // what is left is for every caller
			continue
		}
		before := limit.Used
		if debited {
			before -= limit.Cost
		}
		m.mu.Lock()
		crossed := m.level(credential, limit.Name).rise(before, limit.Used, limit.Budget(false))
		m.mu.Unlock()
		for _, percent := range crossed {
			m.raise(Alert{Event: config.NearLimit, Credential: credential, Limit: limit, Percent: percent})
		}
	}
}

// exhausted handles a limit that denied a call, kept a pass from beginning, or would have denied if
// it were enforced.
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

// level returns the level of a limit. The caller holds mu.
func (m *Monitor) level(credential, limit string) *level {
	name := limitName{credential, limit}
	if m.levels[name] == nil {
		m.levels[name] = &level{}
	}
	return m.levels[name]
}

// observed handles an answer of an upstream. A closed limit is reported once, by the host that
// received the answer. That a person has to change a key or a quota is reported once until it is
// over, and counts that differ each time.
func (m *Monitor) observed(out upstream.Outcome) {
	if out.Changed {
		why := out.Says
		for _, d := range out.Drifts {
			if d.Limit == out.Limit && !d.Until.IsZero() {
				why += " (" + d.Cause + ")"
			}
		}
		m.limitClosed(out.Credential, out.Limit, out.Closed.Until, why)
	}
	refuses := out.Class == upstream.Config || out.Class == upstream.Billing
	if (refuses || out.Class == upstream.OK) && m.change(config.UpstreamRefuses, out.Credential, refuses) && refuses {
		m.raise(Alert{Event: config.UpstreamRefuses, Credential: out.Credential, Detail: out.Says})
	}
	for _, d := range out.Drifts {
		if d.Far {
			m.raise(Alert{Event: config.CountsDiffer, Credential: d.Credential, Limit: quota.LimitState{Limit: quota.Limit{Name: d.Limit, Units: d.Units}, Used: d.Ours.Units}, Detail: d.Cause})
		}
	}
}

// limitClosed reports a limit that the upstream or an operator closed.
func (m *Monitor) limitClosed(credential, limit string, until time.Time, why string) {
	m.raise(Alert{
		Event: config.LimitClosed, Credential: credential, Limit: quota.LimitState{Limit: quota.Limit{Name: limit}},
		RetryAt: until, Detail: why,
	})
}

// outage reports the edges of a shared ledger's outage.
func (m *Monitor) outage(event slidinglog.Event) {
	switch event.Kind {
	case slidinglog.Down, slidinglog.LostLog:
		m.outageBegan(event.Credential, event.Err)
	case slidinglog.Up:
		m.outageEnded(event.Credential)
	}
}

// outageBegan also serves the embedded ledger, which reports a full disk by an error.
func (m *Monitor) outageBegan(credential string, err error) {
	if m.change(config.OutageBegan, credential, true) {
		m.raise(Alert{Event: config.OutageBegan, Credential: credential, Detail: err.Error()})
	}
}

func (m *Monitor) outageEnded(credential string) {
	if m.change(config.OutageBegan, credential, false) {
		m.raise(Alert{Event: config.OutageEnded, Credential: credential})
	}
}

// change sets whether a state lasts and reports whether that was different.
func (m *Monitor) change(begins config.Event, name string, to bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	of := state{begins, name}
	changed := m.lasts[of] != to
	m.lasts[of] = to
	return changed
}

func (m *Monitor) failed(run jobs.Run, pass jobs.Pass) {
	if pass.Outcome.Failure() && m.change(config.JobFailing, run.Job, true) {
		m.raise(Alert{Event: config.JobFailing, Run: run, Pass: pass, Detail: pass.Cause()})
	}
}

// runChanged reports each run that is over, or was skipped. One that was done without a failure
// ends the job's failing.
func (m *Monitor) runChanged(event jobs.RunChanged) {
	run := event.Run
	if run.State == jobs.RunRunning {
		return
	}
	if run.State != jobs.RunSkipped {
		for _, pass := range run.Failed() {
			m.failed(run, pass)
		}
	}
	if run.State == jobs.RunDone {
		m.change(config.JobFailing, run.Job, false)
	}
	m.raise(Alert{Event: config.RunEnded, Run: run, Next: event.Next, RetryAt: run.RetryAt, Detail: run.Detail})
}

// Thresholds are the percentages of what jobs may spend of a limit at which it
// is near.
var Thresholds = [...]quota.Units{80, 95}

// slack is by how many percent of its units a limit must have recovered before
// the same alert is raised again: units come back one by one, and are spent
// one by one.
const slack = 10

// A level is how far a limit is spent, as alerts last reported it.
type level struct {
	over     [len(Thresholds)]bool
	denying  bool
	deniedAt quota.Units // the maximum use while it denied
}

// rise records a use that was before and is used, and returns the Thresholds that
// have been crossed since they were last reported.
func (l *level) rise(before, used, budget quota.Units) (crossed []quota.Units) {
	l.recover(before, budget)
	for i, percent := range Thresholds {
		if !l.over[i] && used*100 >= percent*budget {
			l.over[i] = true
			crossed = append(crossed, percent)
		}
	}
	return crossed
}

// deny records that the limit denies at a use, and reports whether it did not deny
// before. A call that costs much is denied early, so the use must have fallen before the
// next alert; the limit need not have been full.
func (l *level) deny(used, budget quota.Units) (began bool) {
	l.recover(used, budget)
	began = !l.denying
	l.denying, l.deniedAt = true, max(l.deniedAt, used)
	return began
}

// recover ends the states that a use has left.
func (l *level) recover(used, budget quota.Units) {
	for i, percent := range Thresholds {
		if used*100 < (percent-slack)*budget {
			l.over[i] = false
		}
	}
	if l.denying && (used == 0 || (l.deniedAt-used)*100 >= slack*budget) {
		l.denying, l.deniedAt = false, 0
	}
}

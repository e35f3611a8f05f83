package main

import (
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/outage"
)

// Alerts finds the edges in what happens, and tells of each once. It remembers
// nothing over a restart: what is so when the daemon starts is an edge too.
type alerts struct {
	log  zerolog.Logger
	tell []func(alert) // each returns at once

	mu      sync.Mutex // guards what follows
	levels  map[limitName]*level
	away    map[string]bool // by credential: the shared ledger does not decide
	broken  map[string]bool // by credential: the embedded ledger could not decide
	failing map[string]bool // by job
}

type limitName struct{ credential, limit string }

var _ watcher = (*alerts)(nil)

func newAlerts(log zerolog.Logger, tell ...func(alert)) *alerts {
	return &alerts{
		log: log, tell: tell, levels: map[limitName]*level{},
		away: map[string]bool{}, broken: map[string]bool{}, failing: map[string]bool{},
	}
}

func (a *alerts) raise(one alert) {
	one.at = time.Now()
	for _, tell := range a.tell {
		tell(one)
	}
}

// decided finds limits that are near, or deny.
func (a *alerts) decided(event api.Event) {
	credential, d := event.Request.Credential, event.Decision
	if event.GrantID != "" {
		credential, _, _ = quota.ParseGrantID(event.GrantID)
	}
	debited := event.Verb == "acquire" && !d.Replayed
	switch {
	case event.Err != nil:
		a.undecided(credential, event.Err)
	case d.Reason == quota.LimitExceeded:
		a.denied(credential, d)
	case d.Granted():
		a.used(credential, d.Limits, debited)
		if debited { // what was written can be written again
			a.outageEnds(a.broken, credential)
		}
	}
}

// used takes in what is used of limits after a decision that debited their cost,
// or did not.
func (a *alerts) used(credential string, limits []quota.LimitState, debited bool) {
	for _, limit := range limits {
		before := limit.Used
		if debited {
			before -= limit.Cost
		}
		for _, percent := range a.rise(credential, limit, before) {
			a.log.Warn().Str("credential", credential).Str("limit", limit.Name).Int64("percent", int64(percent)).
				Int64("used", int64(limit.Used)).Int64("remaining", int64(limit.Remaining())).Msg("limit near")
			a.raise(alert{event: config.NearLimit, credential: credential, limit: limit, percent: percent})
		}
	}
}

func (a *alerts) rise(credential string, limit quota.LimitState, before quota.Units) []quota.Units {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.level(credential, limit.Name).rise(before, limit.Used, limit.Budget(false))
}

// denied takes in that a limit denied a call, or kept a pass from beginning.
func (a *alerts) denied(credential string, d quota.Decision) {
	i := slices.IndexFunc(d.Limits, func(l quota.LimitState) bool { return l.Name == d.Limit })
	if i < 0 {
		return
	}
	limit := d.Limits[i]
	a.mu.Lock()
	news := a.level(credential, limit.Name).deny(limit.Used, limit.Budget(false))
	a.mu.Unlock()
	if news {
		a.raise(alert{event: config.Exhausted, credential: credential, limit: limit, retryAt: d.RetryAt})
	}
}

// level returns what is known of a limit. The caller holds mu.
func (a *alerts) level(credential, limit string) *level {
	name := limitName{credential, limit}
	if a.levels[name] == nil {
		a.levels[name] = &level{}
	}
	return a.levels[name]
}

// undecided takes in an error. Those of a shared ledger come as events of its
// outage; an embedded one tells of a full disk this way.
func (a *alerts) undecided(credential string, err error) {
	if errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) {
		a.outageBegins(a.broken, credential, err)
	}
}

// outage passes on the edges of a shared ledger's outage.
func (a *alerts) outage(event outage.Event) {
	switch event.Kind {
	case outage.Down, outage.Lost:
		a.outageBegins(a.away, event.Credential, event.Err)
	case outage.Up:
		a.outageEnds(a.away, event.Credential)
	}
}

func (a *alerts) outageBegins(states map[string]bool, credential string, err error) {
	if a.turn(states, credential, true) {
		a.raise(alert{event: config.OutageBegan, credential: credential, detail: err.Error()})
	}
}

func (a *alerts) outageEnds(states map[string]bool, credential string) {
	if a.turn(states, credential, false) {
		a.raise(alert{event: config.OutageEnded, credential: credential})
	}
}

// turn sets a state and tells whether it was the other way round.
func (a *alerts) turn(states map[string]bool, name string, to bool) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	turned := states[name] != to
	states[name] = to
	return turned
}

// PassChanged implements jobs.Observer.
func (a *alerts) PassChanged(run jobs.Run, pass jobs.Pass) {
	if pass.Outcome.Failure() && a.turn(a.failing, run.Job, true) {
		a.raise(alert{event: config.JobFailing, run: run, pass: pass, detail: pass.Detail})
	}
}

// RunChanged implements jobs.Observer: a run that was done without a failure ends
// the job's failing.
func (a *alerts) RunChanged(run jobs.Run) {
	failed := func(p jobs.Pass) bool { return p.Outcome.Failure() }
	if run.State == jobs.RunDone && !slices.ContainsFunc(run.Passes, failed) {
		a.turn(a.failing, run.Job, false)
	}
}

// Output implements jobs.Observer.
func (*alerts) Output(string, string, jobs.Pass, jobs.Line) {}

// Trouble implements jobs.Observer.
func (*alerts) Trouble(string, error) {}

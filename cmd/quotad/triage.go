package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/upstream"
)

// A triage collects what needs a person. Each kind of trouble has a part in the
// sentence, in the order in which kinds are added: the worst first. It keeps what it read of the jobs
// and the limits for the status line.
type triage struct {
	jobsapi.Triage
	parts   []string
	jobs    []jobs.Status
	budgets []budget // none while the ledger cannot be reached
}

// add adds troubles of a kind: one is the part of the sentence for one of them, several for more.
func (t *triage) add(list []jobsapi.Trouble, one, several string) {
	if len(list) == 0 {
		return
	}
	part := one
	if len(list) > 1 {
		part = fmt.Sprintf("%d %s", len(list), several)
	}
	t.parts = append(t.parts, part)
	for _, trouble := range list {
		trouble.Says = clipped(trouble.Says)
		t.Troubles = append(t.Troubles, trouble)
	}
}

// maxSays bounds the text of one trouble: upstreams and scripts write much of it.
const maxSays = 300

func clipped(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= maxSays {
		return text
	}
	return strings.ToValidUTF8(text[:maxSays], "") + "…"
}

// triage collects everything that may need a person. A ledger that does not answer costs its deadline.
func (d *daemon) triage(ctx context.Context) *triage {
	t, now := &triage{Triage: jobsapi.Triage{Troubles: []jobsapi.Trouble{}}}, time.Now()
	health, file := d.service.Health(ctx), d.reloads.state.Load()
	if !health.Reachable {
		t.add([]jobsapi.Trouble{{Of: "ledger", Says: "it does not decide: " + health.State, Do: "journalctl -u quotad -n 50", Grave: true}},
			"the ledger does not decide", "")
	}
	if file.Error != "" {
		t.add([]jobsapi.Trouble{{Of: file.File, Says: "it was not loaded; the former configuration still runs: " + firstLine(file.Error),
			Then: "tried", When: file.FailedAt, Do: "quotad --check --config " + file.File, Grave: true}}, file.File+" was not loaded", "")
	}
	d.certificateTrouble(t, now)
	t.jobs, _ = d.runner.Status("") // of all jobs it cannot fail
	t.add(refusedKeys(t.jobs), "the upstream refuses a key", "upstreams refuse their keys")
	var dry []jobsapi.Trouble
	if health.Reachable {
		dry = d.limitTroubles(ctx, t)
	}
	jobTroubles(t, t.jobs, now)
	t.add(dry, "1 limit runs dry within a day", "limits run dry within a day")
	t.add(d.strangeRefusals(now), "a refusal is not understood", "refusals are not understood")
	if presets := d.presets.Load(); presets != nil {
		t.Notes = append(t.Notes, oldPresets(*presets, now)...)
	}
	if info, err := os.Stat(file.File); err == nil && info.ModTime().After(file.ReadAt) && info.ModTime().After(file.FailedAt) {
		t.add([]jobsapi.Trouble{{Of: file.File, Says: "it is newer than what runs", Then: "changed", When: info.ModTime().UTC(), Do: "quotactl reload"}},
			file.File+" is newer than what runs", "")
	}
	var warnings []jobsapi.Trouble
	for _, warning := range health.Warnings {
		warnings = append(warnings, jobsapi.Trouble{Of: "ledger", Says: warning})
	}
	t.add(warnings, "the ledger has a warning", "warnings about the ledger")
	if t.Says = strings.Join(t.parts, ", "); t.Says == "" {
		t.Says = "nothing needs attention"
	}
	return t
}

// refusedKeys returns the credentials for which the upstream serves no call until a person changes
// something, as the last run of a job found it.
func refusedKeys(list []jobs.Status) (troubles []jobsapi.Trouble) {
	var known []string
	for _, s := range list {
		if s.Last == nil || s.Last.Reason != jobs.UpstreamRefuses || slices.Contains(known, s.Credential) {
			continue
		}
		known = append(known, s.Credential)
		troubles = append(troubles, jobsapi.Trouble{Of: "credential " + s.Credential, Says: "the upstream refuses it: " + s.Last.Detail,
			Then: "found", When: s.Last.EndedAt, Do: "quotactl runs " + s.Last.ID, Grave: true})
	}
	return troubles
}

// limitTroubles adds limits that are closed or exhausted, and returns those that soon will be.
func (d *daemon) limitTroubles(ctx context.Context, t *triage) (dry []jobsapi.Trouble) {
	var closed, exhausted []jobsapi.Trouble
	forecasts, _ := d.planner.Forecast(ctx) // if the ledger does not answer, the triage says so
	for _, c := range d.service.Credentials() {
		usage, err := d.service.Usage(ctx, c.Name)
		if err != nil {
			continue
		}
		t.budgets = append(t.budgets, budget{c.Name, usage.Limits})
		drifts := d.observer.Drifts(c.Name)
		for _, l := range usage.Limits {
			t.Notes = append(t.Notes, loanNotes(c.Name, l)...)
			if !l.Refuses() {
				continue
			}
			one := jobsapi.Trouble{Of: "limit " + c.Name + " " + l.Name, Grave: true}
			left := fmt.Sprintf("%s of %s left", quota.Thousands(l.Remaining()), quota.Thousands(l.Budget(false)))
			switch usedUp := plan.ForecastOf(forecasts, c.Name, l.Name).GoneAt; {
			case !l.Closed.IsZero():
				one.Says, one.Do = closedText(c.Name, l, drifts[l.Name], usage.Now)
				one.Then, one.When = "opens", l.Closed.Until.UTC()
				closed = append(closed, one)
			case l.Remaining() == 0:
				one.Says, one.Do = left, "quotactl usage "+c.Name
				if !l.NextAt.IsZero() {
					one.Then, one.When = l.NextUnits.Text()+" back", l.NextAt.UTC()
				}
				exhausted = append(exhausted, one)
			case !usedUp.IsZero():
				one.Says, one.Then, one.When, one.Do, one.Grave = left, "used up", usedUp.UTC(), "quotactl plan", false
				dry = append(dry, one)
			}
		}
	}
	t.add(closed, "1 limit is closed", "limits are closed")
	t.add(exhausted, "1 limit is exhausted", "limits are exhausted")
	slices.SortStableFunc(dry, func(a, b jobsapi.Trouble) int { return a.When.Compare(b.When) })
	return dry
}

// closedText says why a limit is closed, and what to do. Where the upstream called it exhausted while
// our count has room, the first thing to know is how much others have spent.
func closedText(credential string, l quota.LimitState, d upstream.Drift, now time.Time) (says, do string) {
	says, do = "closed: ", credential+" "+l.Name
	if d.Until.IsZero() || d.Over(now) {
		return strings.TrimSuffix(says+l.Closed.Says, ": "), "quotactl open " + do
	}
	says += d.Cause + ": " + l.Closed.Says
	if room := min(l.Total()-l.Used, quota.Units(-d.By())); room > 0 { // or it is booked
		return says, fmt.Sprintf("quotactl book %s %d", do, room)
	}
	return says, "quotactl open " + do
}

// strangeRefusals names what upstreams refused in the last day without a reason that quotad knows.
func (d *daemon) strangeRefusals(now time.Time) (troubles []jobsapi.Trouble) {
	for _, c := range d.service.Credentials() {
		if s, known := d.observer.Strange(c.Name); known && now.Sub(s.At) < 24*time.Hour {
			troubles = append(troubles, jobsapi.Trouble{Of: "credential " + c.Name, Says: strangeText(s), Then: "last", When: s.At.UTC(), Do: "quotactl log " + c.Name})
		}
	}
	return troubles
}

func strangeText(s upstream.Strange) string {
	if s.Reason == "" {
		return fmt.Sprintf("the upstream refused %s without a reason: %s", s.Operation, s.Says)
	}
	return fmt.Sprintf("the upstream refused %s for %s, which quotad does not know: give it a class in answers.reasons. It says: %s", s.Operation, s.Reason, s.Says)
}

// oldPresets names the presets whose facts must be checked again.
func oldPresets(presets map[string]config.Preset, now time.Time) (notes []jobsapi.Trouble) {
	for _, credential := range slices.Sorted(maps.Keys(presets)) {
		if text := presets[credential].Outdated(now); text != "" {
			notes = append(notes, jobsapi.Trouble{Of: "credential " + credential, Says: text, Do: "quotad --presets"})
		}
	}
	return notes
}

// loanNotes names the loans of a limit, each with its end.
func loanNotes(credential string, l quota.LimitState) (notes []jobsapi.Trouble) {
	for _, loan := range l.Lent {
		says := fmt.Sprintf("%s more, lent by %s", loan.Units.Text(), callerName(loan.By))
		if loan.Note != "" {
			says += ": " + loan.Note
		}
		notes = append(notes, jobsapi.Trouble{Of: "limit " + credential + " " + l.Name, Says: clipped(says), Then: "ends", When: loan.Until.UTC(),
			Do: "quotactl lend " + credential + " " + l.Name + " 0"})
	}
	return notes
}

// callerName returns the name of a caller in a log; a user has the name that this host knows.
func callerName(by string) string {
	uid, isUser := strings.CutPrefix(by, "@")
	if u, err := user.LookupId(uid); isUser && err == nil {
		return u.Username
	}
	return by
}

// jobTroubles adds jobs whose last run failed, or fails so far, and jobs without a good run for too
// long.
func jobTroubles(t *triage, list []jobs.Status, now time.Time) {
	var failing, overdue []jobsapi.Trouble
	for _, s := range list {
		one := jobsapi.Trouble{Of: "job " + s.Name, Grave: true}
		if r := s.Last; r != nil && (r.State == jobs.RunFailed || failsSoFar(r)) {
			failed := r.Failed()
			one.Says, one.Then, one.When, one.Do = fmt.Sprintf("%d of %s failed", len(failed), quota.Count(len(r.Ring), "region", "regions")), "ended", r.EndedAt, "quotactl runs "+r.ID
			if r.State == jobs.RunRunning {
				one.Says, one.Then, one.When = one.Says+" so far, none was ok", "began", r.StartedAt
			}
			if len(failed) > 0 {
				p := failed[0]
				one.Says += fmt.Sprintf(": %s, %s", p.Region, p.Cause())
			}
			failing = append(failing, one)
		} else if !s.Due.IsZero() && !now.Before(s.Due) {
			one.Says, one.Then, one.When, one.Do = "overdue", "a good run was due", s.Due, "quotactl runs "+s.Name
			overdue = append(overdue, one)
		}
	}
	t.add(failing, "1 job is failing", "jobs are failing")
	t.add(overdue, "1 job is overdue", "jobs are overdue")
}

// failsSoFar reports whether a run is under way of which three passes or more are over, and all of
// those failed.
func failsSoFar(r *jobs.Run) bool {
	const enough = 3
	over := slices.DeleteFunc(slices.Clone(r.Passes), func(p jobs.Pass) bool { return p.Outcome == jobs.Running })
	return r.State == jobs.RunRunning && len(over) >= enough &&
		!slices.ContainsFunc(over, func(p jobs.Pass) bool { return !p.Outcome.Failure() })
}

package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
)

// renderJob writes a job: what comes next, and what its last run did.
func renderJob(b *strings.Builder, j jobsapi.Job, v term.View) {
	v.Prose(b, 0, term.Bold, "job "+j.Name)
	v.Prose(b, 2, term.Plain, fmt.Sprintf("%s; %s; cursor at %s", jobs.Brief(j.Schedule), nextText(j, v), j.Cursor))
	if j.Pause != nil {
		v.Prose(b, 2, term.Yellow, pauseText(*j.Pause, v))
	}
	if j.Skipped != nil {
		v.Prose(b, 2, term.Yellow, skipText(*j.Skipped, v))
	}
	if j.LastRun == nil {
		v.Prose(b, 2, term.Faint, "no run yet")
		return
	}
	renderRun(b, "last run", *j.LastRun, v)
	if n := len(j.Regions); 0 < n && n <= manyRegions {
		v.Prose(b, 2, term.Plain, ringText(j))
	}
	renderPasses(b, notOK(*j.LastRun), v)
}

// nextText tells when the next run begins, or who begins it.
func nextText(j jobsapi.Job, v term.View) string {
	switch {
	case j.Schedule == jobs.Unscheduled{}.String():
		return "runs only by quotactl run " + j.Name
	case j.NextRun.IsZero():
		return "no next run"
	}
	return "next run " + v.When(j.NextRun)
}

// manyRegions is how long a ring may be that is told region by region, so that a
// status stays on one screen.
const manyRegions = 60

// notOK returns the passes of a run that are worth a line of their own.
func notOK(r jobs.Run) []jobs.Pass {
	return slices.DeleteFunc(slices.Clone(r.Passes), func(p jobs.Pass) bool { return p.Outcome == jobs.OK })
}

func pauseText(p jobs.Pause, v term.View) string {
	text := "paused " + v.When(p.Since)
	if p.By != "" {
		text += ", by " + v.Caller(p.By)
	}
	if p.Note != "" {
		text += ": " + p.Note
	}
	if !p.Until.IsZero() {
		text += "; ends " + v.When(p.Until)
	}
	return text
}

// skipText tells of ticks that did not become a run.
func skipText(r jobs.Run, v term.View) string {
	latest := r.Slot
	if !r.LastSlot.IsZero() {
		latest = r.LastSlot
	}
	text := fmt.Sprintf("%s skipped, the latest %s: %s", quota.Count(max(1, r.Ticks), "tick", "ticks"), v.When(latest), r.Reason)
	if r.Detail != "" {
		text += "; " + r.Detail
	}
	return text
}

// renderRun writes what became of a run, all in all.
func renderRun(b *strings.Builder, title string, r jobs.Run, v term.View) {
	v.Prose(b, 2, runStyle(r.State), fmt.Sprintf("%s %s: %s, %s", title, r.ID, stateText(r), tally(r)))
	timing := "began " + v.When(r.StartedAt)
	if !r.EndedAt.IsZero() {
		timing += ", took " + term.Took(r.EndedAt.Sub(r.StartedAt))
	}
	if r.Host != "" {
		timing += ", on " + v.Clean(r.Host)
	}
	v.Prose(b, 2, term.Faint, timing)
	if r.Detail != "" {
		v.Prose(b, 2, term.Plain, r.Detail)
	}
}

func stateText(r jobs.Run) string {
	if r.Reason == "" {
		return string(r.State)
	}
	return fmt.Sprintf("%s (%s)", r.State, r.Reason)
}

func renderPasses(b *strings.Builder, passes []jobs.Pass, v term.View) {
	t := term.Table{Indent: 4, Columns: []term.Column{
		{Head: "REGION"}, {Head: "OUTCOME"}, {Head: "UNITS", Right: true}, {Head: "TOOK", Right: true}, {Head: "REASON", Sinks: true},
	}}
	for _, p := range passes {
		t.Add(term.Cell{Text: string(p.Region)}, term.Cell{Text: string(p.Outcome), Style: outcomeStyle(p.Outcome)},
			term.Cell{Text: quota.Thousands(p.Units)}, term.Cell{Text: passTook(p, v.Now)}, term.Cell{Text: reasonOf(p, v)})
	}
	if len(t.Rows) > 0 {
		t.Render(b, v)
	}
}

// outcomes are all that a pass can have, in the order in which they are told.
func outcomes() []jobs.Outcome {
	return []jobs.Outcome{
		jobs.OK, jobs.Running, jobs.Exhausted, jobs.Failed, jobs.Timeout, jobs.Killed, jobs.Interrupted, jobs.Skipped,
	}
}

func outcomeNames() []string {
	var names []string
	for _, o := range outcomes() {
		names = append(names, string(o))
	}
	return names
}

// tally counts a run's passes by outcome, and the units they spent.
func tally(r jobs.Run) string {
	counts := map[jobs.Outcome]int{}
	var spent int64
	for _, p := range r.Passes {
		counts[p.Outcome]++
		spent += int64(p.Units)
	}
	var parts []string
	for _, o := range outcomes() {
		if n := counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	rest := "not reached"
	if r.State == jobs.RunRunning {
		rest = "to come"
	}
	if n := len(r.Ring) - len(r.Passes); n > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", n, rest))
	}
	spentText := units(spent)
	if r.UnitsPerRun > 0 {
		spentText = fmt.Sprintf("%s of %s", quota.Thousands(spent), units(int64(r.UnitsPerRun)))
	}
	return strings.Join(append(parts, spentText), ", ")
}

func passTook(p jobs.Pass, now time.Time) string {
	end := p.EndedAt
	if end.IsZero() {
		end = now
	}
	return term.Took(max(0, end.Sub(p.StartedAt)))
}

// reasonOf tells first what an operator waits for, as it was when the pass ended: units
// may have come back otherwise since. A reason that only repeats
// the outcome is left out.
func reasonOf(p jobs.Pass, v term.View) string {
	var parts []string
	if !p.RetryAt.IsZero() {
		parts = append(parts, "was to fit "+v.When(p.RetryAt))
	}
	if p.Reason != "" && string(p.Reason) != string(p.Outcome) {
		parts = append(parts, string(p.Reason))
	}
	if p.Detail != "" {
		parts = append(parts, v.Clean(p.Detail))
	}
	return strings.Join(parts, "; ")
}

func runStyle(s jobs.RunState) term.Style {
	switch s {
	case jobs.RunDone:
		return term.Green
	case jobs.RunStopped, jobs.RunInterrupted, jobs.RunSkipped:
		return term.Yellow
	default:
		return term.Plain
	}
}

// failures counts the passes of a run that failed, in whatever way. A run with
// such is "done" all the same.
func failures(r jobs.Run) int64 {
	failed := int64(0)
	for _, p := range r.Passes {
		if p.Outcome.Failure() {
			failed++
		}
	}
	return failed
}

func passesStyle(r jobs.Run) term.Style {
	if failures(r) > 0 {
		return term.Red
	}
	return term.Plain
}

func outcomeStyle(o jobs.Outcome) term.Style {
	switch {
	case o == jobs.OK:
		return term.Green
	case o.Failure():
		return term.Red
	case o == jobs.Running:
		return term.Plain
	default:
		return term.Yellow
	}
}

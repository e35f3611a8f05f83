package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
)

// renderJob writes a job: what comes next, and what its last run did.
func renderJob(b *strings.Builder, j jobsapi.Job, v view) {
	v.prose(b, 0, bold, "job "+j.Name)
	next := "no next run"
	if !j.NextRun.IsZero() {
		next = "next run " + v.when(j.NextRun)
	}
	v.prose(b, 2, plain, fmt.Sprintf("%s; %s; cursor at %s", jobs.Brief(j.Schedule), next, j.Cursor))
	if j.Pause != nil {
		v.prose(b, 2, yellow, pauseText(*j.Pause, v))
	}
	if j.Skipped != nil {
		v.prose(b, 2, yellow, skipText(*j.Skipped, v))
	}
	if j.LastRun == nil {
		v.prose(b, 2, faint, "no run yet")
		return
	}
	renderRun(b, "last run", *j.LastRun, v)
	if n := len(j.Regions); 0 < n && n <= manyRegions {
		v.prose(b, 2, plain, ringText(j))
	}
	renderPasses(b, notOK(*j.LastRun), v)
}

// manyRegions is how long a ring may be that is told region by region, so that a
// status stays on one screen.
const manyRegions = 60

// notOK returns the passes of a run that are worth a line of their own.
func notOK(r jobs.Run) []jobs.Pass {
	return slices.DeleteFunc(slices.Clone(r.Passes), func(p jobs.Pass) bool { return p.Outcome == jobs.OK })
}

func pauseText(p jobs.Pause, v view) string {
	text := "paused " + v.when(p.Since)
	if p.By != "" {
		text += ", by " + v.caller(p.By)
	}
	if p.Note != "" {
		text += ": " + p.Note
	}
	if !p.Until.IsZero() {
		text += "; ends " + v.when(p.Until)
	}
	return text
}

// skipText tells of ticks that did not become a run.
func skipText(r jobs.Run, v view) string {
	latest := r.Slot
	if !r.LastSlot.IsZero() {
		latest = r.LastSlot
	}
	text := fmt.Sprintf("%s skipped, the latest %s: %s", quota.Count(max(1, r.Ticks), "tick", "ticks"), v.when(latest), r.Reason)
	if r.Detail != "" {
		text += "; " + r.Detail
	}
	return text
}

// renderRun writes what became of a run, all in all.
func renderRun(b *strings.Builder, title string, r jobs.Run, v view) {
	v.prose(b, 2, runStyle(r.State), fmt.Sprintf("%s %s: %s, %s", title, r.ID, stateText(r), tally(r)))
	timing := "began " + v.when(r.StartedAt)
	if !r.EndedAt.IsZero() {
		timing += ", took " + took(r.EndedAt.Sub(r.StartedAt))
	}
	if r.Host != "" {
		timing += ", on " + v.clean(r.Host)
	}
	v.prose(b, 2, faint, timing)
	if r.Detail != "" {
		v.prose(b, 2, plain, r.Detail)
	}
}

func stateText(r jobs.Run) string {
	if r.Reason == "" {
		return string(r.State)
	}
	return fmt.Sprintf("%s (%s)", r.State, r.Reason)
}

func renderPasses(b *strings.Builder, passes []jobs.Pass, v view) {
	t := table{indent: 4, columns: []column{
		{head: "REGION"}, {head: "OUTCOME"}, {head: "UNITS", right: true}, {head: "TOOK", right: true}, {head: "REASON", sinks: true},
	}}
	for _, p := range passes {
		t.add(cell{text: string(p.Region)}, cell{string(p.Outcome), outcomeStyle(p.Outcome)},
			cell{text: quota.Thousands(p.Units)}, cell{text: passTook(p, v.now)}, cell{text: reasonOf(p, v)})
	}
	if len(t.rows) > 0 {
		t.render(b, v)
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
	return strings.Join(append(parts, units(spent)), ", ")
}

func passTook(p jobs.Pass, now time.Time) string {
	end := p.EndedAt
	if end.IsZero() {
		end = now
	}
	return took(max(0, end.Sub(p.StartedAt)))
}

// reasonOf tells first what an operator waits for, as it was when the pass ended: units
// may have come back otherwise since. A reason that only repeats
// the outcome is left out.
func reasonOf(p jobs.Pass, v view) string {
	var parts []string
	if !p.RetryAt.IsZero() {
		parts = append(parts, "was to fit "+v.when(p.RetryAt))
	}
	if p.Reason != "" && string(p.Reason) != string(p.Outcome) {
		parts = append(parts, string(p.Reason))
	}
	if p.Detail != "" {
		parts = append(parts, v.clean(p.Detail))
	}
	return strings.Join(parts, "; ")
}

func runStyle(s jobs.RunState) style {
	switch s {
	case jobs.RunDone:
		return green
	case jobs.RunStopped, jobs.RunInterrupted, jobs.RunSkipped:
		return yellow
	default:
		return plain
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

func passesStyle(r jobs.Run) style {
	if failures(r) > 0 {
		return red
	}
	return plain
}

func outcomeStyle(o jobs.Outcome) style {
	switch {
	case o == jobs.OK:
		return green
	case o.Failure():
		return red
	case o == jobs.Running:
		return plain
	default:
		return yellow
	}
}

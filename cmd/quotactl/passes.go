package main

import (
	"fmt"
	"strings"
	"time"

	"quotad/jobs"
)

// renderJob writes a job: what comes next, and what its last run did.
func renderJob(b *strings.Builder, j jobStatus, v view) {
	v.prose(b, 0, bold, "job "+j.Name)
	next := "no next run"
	if !j.NextRun.IsZero() {
		next = "next run " + v.when(j.NextRun)
	}
	v.prose(b, 2, plain, next+"; cursor at "+j.Cursor)
	if j.LastRun == nil {
		v.prose(b, 2, faint, "no run yet")
		return
	}
	renderRun(b, j.LastRun, v)
}

// renderRun writes a run with its passes.
func renderRun(b *strings.Builder, r *jobs.Run, v view) {
	state := string(r.State)
	if r.Reason != "" {
		state += " (" + string(r.Reason) + ")"
	}
	v.prose(b, 2, runStyle(r.State), fmt.Sprintf("last run %s: %s, %s", r.ID, state, tally(r)))
	timing := "began " + v.when(r.StartedAt)
	if !r.EndedAt.IsZero() {
		timing += ", took " + took(r.EndedAt.Sub(r.StartedAt))
	}
	v.prose(b, 2, faint, timing)
	if r.Detail != "" {
		v.prose(b, 2, plain, r.Detail)
	}
	renderPasses(b, r, v)
}

// manyPasses is how many passes are told one by one; of a longer run the ok
// ones are only counted, so that a status stays on one screen.
const manyPasses = 12

func renderPasses(b *strings.Builder, r *jobs.Run, v view) {
	t := table{indent: 4, columns: []column{
		{head: "REGION"}, {head: "OUTCOME"}, {"UNITS", true}, {"TOOK", true}, {head: "REASON"},
	}}
	for _, p := range r.Passes {
		if len(r.Passes) > manyPasses && p.Outcome == jobs.OK {
			continue
		}
		t.add(cell{text: string(p.Region)}, cell{string(p.Outcome), outcomeStyle(p.Outcome)},
			cell{text: thousands(int64(p.Units))}, cell{text: passTook(p, v.now)}, cell{text: reasonOf(p, v)})
	}
	if len(t.rows) > 0 {
		t.render(b, v)
	}
}

// tally counts a run's passes by outcome, and the units they spent.
func tally(r *jobs.Run) string {
	counts := map[jobs.Outcome]int{}
	var spent int64
	for _, p := range r.Passes {
		counts[p.Outcome]++
		spent += int64(p.Units)
	}
	var parts []string
	for _, o := range []jobs.Outcome{
		jobs.OK, jobs.Running, jobs.Exhausted, jobs.Failed, jobs.Timeout, jobs.Killed, jobs.Interrupted, jobs.Skipped,
	} {
		if n := counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	if n := len(r.Ring) - len(r.Passes); n > 0 {
		parts = append(parts, fmt.Sprintf("%d not reached", n))
	}
	if r.Ticks > 1 {
		parts = append(parts, fmt.Sprintf("%d ticks", r.Ticks))
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

// reasonOf tells first what an operator waits for. A reason that only repeats
// the outcome is left out.
func reasonOf(p jobs.Pass, v view) string {
	var parts []string
	if !p.RetryAt.IsZero() {
		parts = append(parts, "fits "+v.when(p.RetryAt))
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

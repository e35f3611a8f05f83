package wording

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// RunStyle is the style of a run wherever it is shown. A run under way is red as soon as a
// region has failed.
func RunStyle(r jobs.Run) Style {
	switch {
	case r.State == jobs.RunFailed || len(r.Failed()) > 0:
		return Red
	case r.State == jobs.RunDone:
		return Green
	case r.State == jobs.RunRunning:
		return Plain
	default:
		return Yellow
	}
}

// RunState says how a run is, and what it waits for.
func RunState(r jobs.Run, v View) string {
	if r.Waits != nil && r.Waits.Limit == "" {
		return fmt.Sprintf("%s (tries again at %s)", r.State, v.Clock(r.Waits.RetryAt))
	}
	if r.Waits != nil {
		return fmt.Sprintf("%s (waits for %s, until %s)", r.State, r.Waits.Limit, v.Clock(r.Waits.RetryAt))
	}
	if r.Reason == "" {
		return string(r.State)
	}
	return fmt.Sprintf("%s (%s)", r.State, Word(r.Reason))
}

// RunLines say what became of a run, all in all.
func RunLines(title string, r jobs.Run, v View) []Line {
	lines := []Line{
		{fmt.Sprintf("%s %s: %s, %s", title, r.ID, RunState(r, v), Tally(r)), RunStyle(r)},
		{runTiming(r, v), Faint},
	}
	if r.Detail != "" {
		lines = append(lines, Line{Text: v.Clean(r.Detail)})
	}
	return lines
}

// runTiming says when and where a run began, and how long it took.
func runTiming(r jobs.Run, v View) string {
	timing := "began " + v.When(r.StartedAt)
	if !r.EndedAt.IsZero() {
		timing += ", took " + Took(r.StartedAt, r.EndedAt, v.Now)
	}
	if r.Host != "" {
		timing += ", on " + v.Clean(r.Host)
	}
	return timing
}

// RunSums says how long a run took, how much of it went well ("5/8 ok"), and what it spent.
// A skipped tick has none of these.
func RunSums(r jobs.Run, now time.Time) (took, ok, spent string) {
	if r.State == jobs.RunSkipped {
		return "", "", ""
	}
	return Took(r.StartedAt, r.EndedAt, now), fmt.Sprintf("%d/%d ok", r.Outcomes()[jobs.OK], len(r.Ring)), quota.Thousands(r.Spent())
}

// Took writes how long something lasted, or has lasted until now: "0.84s", "12.3s", and from a minute on as Brief.
func Took(began, ended, now time.Time) string {
	if ended.IsZero() {
		ended = now
	}
	switch d := max(0, ended.Sub(began)); {
	case d < 10*time.Second:
		return fmt.Sprintf("%.2fs", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%.1fs", d.Seconds())
	default:
		return Brief(d)
	}
}

// Tally counts a run's passes by outcome, and the units they spent.
func Tally(r jobs.Run) string {
	counts := r.Outcomes()
	var parts []string
	for _, o := range []jobs.Outcome{
		jobs.OK, jobs.Running, jobs.Exhausted, jobs.Failed, jobs.Timeout, jobs.Killed, jobs.Interrupted, jobs.NotLaunched,
	} {
		if n := counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, Word(o)))
		}
	}
	rest := "not reached"
	if r.State == jobs.RunRunning {
		rest = "not yet"
	}
	if n := len(r.Ring) - len(r.Latest()); n > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", n, rest))
	}
	return strings.Join(append(parts, r.Spent().Text()), ", ")
}

// NotOK returns the last passes of regions that are worth a line of their own.
func NotOK(r jobs.Run) []jobs.Pass {
	return slices.DeleteFunc(r.Latest(), func(p jobs.Pass) bool { return p.Outcome == jobs.OK })
}

// Word writes an outcome or a reason of the API for people: "not launched".
func Word[T ~string](code T) string { return strings.ReplaceAll(string(code), "_", " ") }

// OutcomeStyle is the style of a pass.
func OutcomeStyle(o jobs.Outcome) Style {
	switch {
	case o == jobs.OK:
		return Green
	case o.Failure():
		return Red
	case o == jobs.Running:
		return Plain
	default:
		return Yellow
	}
}

// PassReason says why a pass ended as it did, and first when its units fit, as it was when
// the pass ended: units may have come back otherwise since. A reason that only repeats the
// outcome is left out.
func PassReason(p jobs.Pass, v View) string {
	var parts []string
	if p.Attempt > 0 {
		parts = append(parts, fmt.Sprintf("attempt %d", p.Attempt+1))
	}
	if !p.RetryAt.IsZero() {
		parts = append(parts, Fits(p.RetryAt, v))
	}
	if p.Outcome == jobs.Running {
		parts = append(parts, live(p, v)...)
	}
	if p.Reason != "" && string(p.Reason) != string(p.Outcome) {
		parts = append(parts, Word(p.Reason))
	}
	detail := p.Detail
	if p.Said != "" {
		detail += ": " + p.Said
	}
	if detail != "" {
		parts = append(parts, v.Clean(detail))
	}
	return strings.Join(parts, "; ")
}

// live says which process a pass under way is, by when it must end, and what it printed
// last.
func live(p jobs.Pass, v View) (parts []string) {
	if p.PID > 0 {
		parts = append(parts, fmt.Sprintf("pid %d", p.PID))
	}
	if !p.Deadline.IsZero() {
		parts = append(parts, "must end by "+v.Clock(p.Deadline))
	}
	if n := len(p.Tail); n > 0 {
		parts = append(parts, "last line: "+v.Clean(p.Tail[n-1]))
	}
	return parts
}

// Fits says when a refused call fits, if nothing else happens, or would have fit.
func Fits(at time.Time, v View) string {
	if at.After(v.Now) {
		return "would fit " + v.When(at)
	}
	return "would have fit " + v.When(at)
}

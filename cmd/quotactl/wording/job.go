package wording

import (
	"fmt"
	"strconv"
	"strings"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/regions"
)

// JobLines says what a job does next, what is wrong with it, and what its last run came to. It begins
// with what comes next.
func JobLines(j jobsapi.Job, v term.View) []term.Cell {
	next := "next run " + v.When(j.Next)
	switch {
	case j.Schedule == "removed":
		next = "not configured any more"
	case j.Schedule == jobs.Unscheduled{}.String():
		next = "runs only by quotactl run " + j.Name
	case j.Host != "":
		next = RunsOn(j, v)
	case j.Next.IsZero():
		next = "no next run"
	}
	lines := []term.Cell{term.Styled(term.Plain, next)}
	if j.Pause != nil {
		lines = append(lines, term.Styled(term.Yellow, pause(*j.Pause, v)))
	}
	if j.After != "" {
		text := "runs after " + j.After
		if !j.Follows.IsZero() {
			text = fmt.Sprintf("the slot %s waits for a run of %s that is done", v.When(j.Follows), j.After)
		}
		lines = append(lines, term.Styled(term.Plain, text))
	}
	if !j.Due.IsZero() && !v.Now.Before(j.Due) {
		lines = append(lines, term.Styled(term.Red, "no run has ended well: one was due "+v.When(j.Due)))
	}
	if j.Skips != nil {
		lines = append(lines, term.Styled(term.Yellow, Skipped(*j.Skips, v)))
	}
	if j.Last == nil {
		return append(lines, NoRun)
	}
	return append(lines, RunLines("last run", *j.Last, v)...)
}

// NoRun says that a job has not run.
var NoRun = term.Styled(term.Faint, "no run yet")

// RunsOn says which other host runs a job.
func RunsOn(j jobsapi.Job, v term.View) string { return "runs on " + v.Clean(j.Host) }

func pause(p jobs.Pause, v term.View) string {
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

// Skipped describes the ticks that did not become a run.
func Skipped(r jobs.Run, v term.View) string {
	latest := r.Slot
	if !r.LastSlot.IsZero() {
		latest = r.LastSlot
	}
	which := quota.Count(r.Ticks, "slot", "slots")
	if r.Ticks == 0 { // they were missed, and not counted
		which = "slots"
	}
	text := fmt.Sprintf("%s skipped, the latest %s: %s", which, v.When(latest), Word(r.Reason))
	if r.Detail != "" {
		text += "; " + r.Detail
	}
	return text
}

// LastRun says in a few words what a job's last run, which may be nil, came to.
func LastRun(r *jobs.Run, v term.View) term.Cell {
	if r == nil {
		return term.Cell{Text: "none"}
	}
	at := r.StartedAt
	if !r.EndedAt.IsZero() {
		at = r.EndedAt
	}
	since := roughly(v.Now.Sub(at))
	text := fmt.Sprintf("%s %s ago", r.State, since)
	switch r.State {
	case jobs.RunRunning:
		text = "running for " + since
	case jobs.RunFailed:
		text = fmt.Sprintf("%s %s", quota.Thousands(len(r.Failed())), text)
	}
	return term.Styled(RunStyle(*r), text)
}

// Regions writes regions one after the other: what could be read as two is in quotes.
func Regions(list []regions.Region) string {
	names := make([]string, len(list))
	for i, region := range list {
		names[i] = Region(region)
	}
	return strings.Join(names, " ")
}

// Region writes a region as it stands in a list.
func Region(region regions.Region) string {
	if text := string(region); !strings.ContainsAny(text, ` []"`) {
		return text
	}
	return strconv.Quote(string(region))
}

// Passes returns the last pass of each region in a job's last run.
func Passes(j jobsapi.Job) map[regions.Region]*jobs.Pass {
	passes := map[regions.Region]*jobs.Pass{}
	if j.Last != nil {
		for _, p := range j.Last.Latest() {
			passes[p.Region] = &p
		}
	}
	return passes
}

package wording

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/regions"
)

// JobLines says what a job does next, what is wrong with it, and what its last run came to. It begins with what comes next.
func JobLines(j jobsapi.Job, v View) []Line {
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
	lines := []Line{{Text: next}}
	if j.Pause != nil {
		lines = append(lines, Line{pause(*j.Pause, v), Yellow})
	}
	if j.After != "" {
		text := "runs after " + j.After
		if !j.Follows.IsZero() {
			text = fmt.Sprintf("the slot %s waits for a run of %s that is done", v.When(j.Follows), j.After)
		}
		lines = append(lines, Line{Text: text})
	}
	if !j.Due.IsZero() && !v.Now.Before(j.Due) {
		lines = append(lines, Line{"no run has ended well: one was due " + v.When(j.Due), Red})
	}
	if j.Skips != nil {
		lines = append(lines, Line{skipped(*j.Skips, v), Yellow})
	}
	lines = append(lines, Line{Text: uses(j)})
	if j.Last == nil {
		return append(lines, NoRun)
	}
	return append(lines, RunLines("last run", *j.Last, v)...)
}

// uses says what a job spends, as it is configured.
func uses(j jobsapi.Job) string {
	var calls []string
	for _, operation := range slices.Sorted(maps.Keys(j.Expects)) {
		calls = append(calls, quota.Thousands(j.Expects[operation])+" "+operation)
	}
	text := "credential " + j.Credential
	if len(calls) > 0 {
		text += "; a pass expects " + strings.Join(calls, ", ")
	}
	if j.UseReserve {
		text += "; may use the reserve"
	}
	return text
}

// Next says in a word or two when a job's next run begins, or why it does not.
func Next(j jobsapi.Job, v View) Line {
	switch {
	case j.Pause != nil:
		return Line{"paused", Yellow}
	case j.Host != "":
		return Line{Text: "on " + v.Clean(j.Host)}
	case j.Next.IsZero():
		return Line{Text: "none"}
	}
	return Line{Text: v.Clock(j.Next)}
}

// NoRun says that a job has not run.
var NoRun = Line{"no run yet", Faint}

// RunsOn says which other host runs a job.
func RunsOn(j jobsapi.Job, v View) string { return "runs on " + v.Clean(j.Host) }

func pause(p jobs.Pause, v View) string {
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

// skipped describes the slots that did not become a run.
func skipped(r jobs.Run, v View) string {
	which := "slots" // they were missed, and not counted
	if r.Ticks > 0 {
		which = quota.Count(r.Ticks, "slot", "slots")
	}
	text := fmt.Sprintf("%s skipped, the latest %s: %s", which, v.When(quota.Later(r.Slot, r.LastSlot)), Word(r.Reason))
	if r.Detail != "" {
		text += "; " + r.Detail
	}
	return text
}

// LastRun says in a few words what a job's last run, which may be nil, came to.
func LastRun(r *jobs.Run, v View) Line {
	if r == nil {
		return Line{"none", Faint}
	}
	at := r.StartedAt
	if !r.EndedAt.IsZero() {
		at = r.EndedAt
	}
	since, _, _ := strings.Cut(Brief(max(0, v.Now.Sub(at))), " ")
	text := fmt.Sprintf("%s %s ago", r.State, since)
	switch r.State {
	case jobs.RunRunning:
		text = "running for " + since
	case jobs.RunFailed:
		text = fmt.Sprintf("%s %s", quota.Thousands(len(r.Failed())), text)
	}
	return Line{text, RunStyle(*r)}
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

package main

import (
	"fmt"
	"slices"
	"strings"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
)

// renderWatch writes what a watcher saw, from what is unsafe to the jobs' rings.
func renderWatch(w *watcher, v term.View) string {
	var b strings.Builder
	if w.lost != nil {
		v.Prose(&b, 0, term.Red, fmt.Sprintf("no answer since %s%s: %v", v.Clock(w.since), v.ZoneMark(), w.lost))
	}
	renderLedger(&b, w.status, v)
	renderConfiguration(&b, w.status.Config, v)
	paces := pacesFrom(w.hourly, w.status.Credentials)
	for _, c := range w.status.Credentials {
		renderCredential(&b, c, paces, v)
		renderTrail(&b, w.hourly[c.Name], v)
	}
	for _, j := range w.status.Jobs {
		b.WriteByte('\n')
		renderRing(&b, j, v)
	}
	return b.String()
}

// renderRing writes a job on a few lines: what comes, what was, and every region.
func renderRing(b *strings.Builder, j jobsapi.Job, v term.View) {
	v.Prose(b, 0, term.Bold, "job "+j.Name)
	next := nextText(j, v)
	if j.Pause != nil {
		next = pauseText(*j.Pause, v)
	}
	v.Prose(b, 2, term.Plain, jobs.Brief(j.Schedule)+"; "+next)
	if j.LastRun == nil {
		v.Prose(b, 2, term.Faint, "no run yet")
	} else {
		v.Prose(b, 2, runStyle(j.LastRun.State), fmt.Sprintf("%s, %s; began %s", stateText(*j.LastRun), tally(*j.LastRun), v.When(j.LastRun.StartedAt)))
	}
	v.Prose(b, 2, term.Plain, ringText(j))
}

// ringText writes the regions in their order, each with what its last pass came to.
func ringText(j jobsapi.Job) string {
	regions := make([]string, len(j.Regions))
	for i, region := range j.Regions {
		regions[i] = string(region)
		if j.LastRun != nil {
			passes := j.LastRun.Passes
			if at := slices.IndexFunc(passes, func(p jobs.Pass) bool { return p.Region == region }); at >= 0 {
				regions[i] += mark(passes[at].Outcome)
			}
		}
		if string(region) == string(j.Cursor) {
			regions[i] = "[" + regions[i] + "]"
		}
	}
	return strings.Join(regions, " ")
}

// mark is an outcome as a character.
func mark(o jobs.Outcome) string {
	switch {
	case o == jobs.OK:
		return "+"
	case o == jobs.Exhausted:
		return "0"
	case o == jobs.Running:
		return "~"
	case o.Failure():
		return "x"
	default:
		return "-"
	}
}

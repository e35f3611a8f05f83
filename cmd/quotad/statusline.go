package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
	"quotad/regions"
)

// A summary is what the status line shows of the daemon.
type summary struct {
	now         time.Time // in the zone in which times are written
	troubles    []trouble.Trouble
	jobs        []jobs.Status
	credentials []trouble.CredentialState
}

// maxNamed is how many of a kind are listed one by one.
const maxNamed = 3

// String returns the line: "trending: US running, then GB; daily 8,020 of 9,500 units
// left; next trending 13:00:00".
func (sum summary) String() string {
	parts := []string{"", sum.running(), sum.left(), sum.next()}
	if n := len(sum.troubles); n > 0 {
		parts[0] = trouble.First(sum.troubles)
		if n > 1 {
			parts[0] += fmt.Sprintf(" (and %d more)", n-1)
		}
	}
	parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	return strings.ReplaceAll(strings.Join(parts, "; "), "\n", " ") // systemd takes a line for an assignment
}

// firstOf joins the first texts of a list, and counts the others.
func firstOf(list []string) string {
	if extra := len(list) - maxNamed; extra > 0 {
		list = append(list[:maxNamed:maxNamed], fmt.Sprintf("%d more", extra))
	}
	return strings.Join(list, ", ")
}

// running says which jobs run, and where they are.
func (sum summary) running() string {
	var list []string
	for _, s := range sum.jobs {
		if s.Last != nil && s.Last.State == jobs.RunRunning {
			list = append(list, s.Name+": "+progress(s.Last))
		}
	}
	if len(list) == 0 {
		return "idle"
	}
	return firstOf(list)
}

// progress says where a run is: "US running, then GB".
func progress(run *jobs.Run) string {
	text := "waiting"
	if running := underWay(run); len(running) > 0 && run.Ring[0] == regions.None {
		text = "running"
	} else if len(running) > 0 {
		text = firstOf(running) + " running"
	}
	begun := map[regions.Region]bool{}
	for _, pass := range run.Passes {
		begun[pass.Region] = true
	}
	for _, region := range run.Ring {
		if !begun[region] && region != regions.None {
			return text + ", then " + string(region)
		}
	}
	return text
}

// underWay returns the regions of a run that have a pass under way. A nil run has none.
func underWay(run *jobs.Run) (list []string) {
	if run == nil {
		return nil
	}
	for _, pass := range run.Passes {
		if pass.Outcome == jobs.Running {
			list = append(list, string(pass.Region))
		}
	}
	return list
}

// left shows for each credential the limit of which the smallest part is left, by its name if it is one of several.
func (sum summary) left() string {
	var list []string
	for _, c := range sum.credentials {
		if len(c.Limits) == 0 {
			continue
		}
		tight := c.Limits[0].LimitState
		for _, limit := range c.Limits[1:] {
			if !limit.DryRun && (tight.DryRun || part(limit.LimitState) < part(tight)) {
				tight = limit.LimitState
			}
		}
		text := fmt.Sprintf("%s of %s", quota.Thousands(tight.Remaining()), tight.Budget(false).Text())
		if len(c.Limits) > 1 {
			text = tight.Name + " " + text
		}
		if len(sum.credentials) > 1 {
			text = c.Name + " " + text
		}
		list = append(list, text)
	}
	if len(list) == 0 {
		return ""
	}
	return firstOf(list) + " left"
}

// part returns how much of the budget of ordinary callers is left, from 0 to 1.
func part(l quota.LimitState) float64 {
	return float64(l.Remaining()) / float64(l.Budget(false))
}

// next says which job's slot comes first.
func (sum summary) next() string {
	var soonest *jobs.Status
	for i := range sum.jobs {
		s := &sum.jobs[i]
		if s.Pause == nil && !s.Next.IsZero() && (soonest == nil || s.Next.Before(soonest.Next)) {
			soonest = s
		}
	}
	if soonest == nil {
		return ""
	}
	layout := time.TimeOnly
	if soonest.Next.Sub(sum.now) >= 24*time.Hour {
		layout = time.DateTime
	}
	return fmt.Sprintf("next %s %s", soonest.Name, soonest.Next.In(sum.now.Location()).Format(layout))
}

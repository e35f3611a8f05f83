package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/upstream"
	"quotad/regions"
)

// A summary is what the status line shows of the daemon.
type summary struct {
	now         time.Time // in the zone in which times are written
	troubles    []trouble.Trouble
	jobs        []jobs.Status
	credentials []trouble.Credential
}

// maxNamed is how many of a kind are listed one by one.
const maxNamed = 3

// String returns the line: "trending: US running, then GB; 8,020 of 9,500 units
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
	if running := underWay(run); len(running) > 0 {
		text = firstOf(running) + " running"
	}
	begun := map[regions.Region]bool{}
	for _, pass := range run.Passes {
		begun[pass.Region] = true
	}
	for _, region := range run.Ring {
		if !begun[region] {
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

// left shows for each credential the limit of which the smallest part is left.
func (sum summary) left() string {
	var list []string
	for _, c := range sum.credentials {
		if len(c.Limits) == 0 {
			continue
		}
		tight := c.Limits[0].LimitState
		for _, limit := range c.Limits[1:] {
			if limit.Refuses() && (!tight.Refuses() || part(limit.LimitState) < part(tight)) {
				tight = limit.LimitState
			}
		}
		text := fmt.Sprintf("%s of %s", quota.Thousands(tight.Remaining()), tight.Budget(false).Text())
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

const (
	// statusPause is the minimum time between two looks.
	statusPause = time.Second
	// lookTime is the maximum time between two looks that report troubles, foreseeTime that between two
	// forecasts for them.
	lookTime, foreseeTime = 10 * time.Second, time.Minute
)

// watch looks at the daemon each ten seconds, and soon after something has changed, until ctx ends. It reports what
// began and what is over, and sends the service manager a line if that differs from the last one.
func (d *daemon) watch(ctx context.Context) {
	var sent string
	var reported, foreseen time.Time
	var forecasts []plan.Forecast
	d.reportAll(d.facts.resume(time.Now()), time.Now())
	for ctx.Err() == nil {
		now := time.Now()
		d.facts.tick(now)
		if now.Sub(foreseen) >= foreseeTime {
			forecasts, _ = d.planner.Forecast(ctx)
			foreseen = now
		}
		s := d.state(ctx, forecasts)
		list := d.facts.dated(trouble.List(s, now), now)
		if ctx.Err() != nil {
			return
		}
		if line := (summary{now, list, s.Jobs, s.Credentials}).String(); line != sent {
			d.notifySystemd("STATUS=" + line)
			sent = line
		}
		if d.urgent.Swap(false) || now.Sub(reported).Abs() >= lookTime {
			d.report(list, now)
			reported = now
		}
		wait(ctx, statusPause, nil)
		wait(ctx, lookTime-time.Since(now), d.changed)
	}
}

// wait returns after a change, or after a timeout.
func wait(ctx context.Context, timeout time.Duration, changed <-chan struct{}) {
	select {
	case <-time.After(timeout):
	case <-changed:
	case <-ctx.Done():
	}
}

// statusChanged requests that a line is sent soon. It returns at once.
func (d *daemon) statusChanged() {
	select {
	case d.changed <- struct{}{}:
	default:
	}
}

// recordFacts is a sink of events. What a call spends is shown with its pass, or at the next look.
func (d *daemon) recordFacts(event any) {
	if d.facts.record(event) {
		d.urgent.Store(true)
		d.statusChanged()
		return
	}
	if d.systemd.notifySocket == "" {
		return // no line is read
	}
	switch event := event.(type) {
	case jobs.RunChanged, jobs.PassChanged:
		d.statusChanged()
	case upstream.Outcome:
		if event.Changed {
			d.statusChanged()
		}
	}
}

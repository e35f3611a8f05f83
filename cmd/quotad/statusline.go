package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
	"quotad/regions"
)

// A summary is what the status line shows of the daemon.
type summary struct {
	now     time.Time // in the zone in which times are written
	trouble string    // what comes first; empty if all is well
	jobs    []jobs.Status
	budgets []budget
}

// A budget is a credential with the state of its limits.
type budget struct {
	credential string
	limits     []quota.LimitState
}

// maxNamed is how many of a kind are listed one by one.
const maxNamed = 3

// summary collects what the status line shows. A ledger that does not answer costs its deadline.
func (d *daemon) summary(ctx context.Context) summary {
	t := d.triage(ctx)
	sum := summary{now: time.Now(), jobs: t.jobs, budgets: t.budgets}
	switch len(t.Troubles) {
	case 0:
	case 1:
		sum.trouble = t.Troubles[0].Of + ": " + t.Troubles[0].Says
	default:
		sum.trouble = t.Says
	}
	return sum
}

func firstLine(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if more {
		return fmt.Sprintf("%s (and %d more)", first, strings.Count(rest, "\n")+1)
	}
	return first
}

// String returns the line: "trending: US running, then GB; 8,020 of 9,500 units
// left; next trending 13:00:00".
func (sum summary) String() string {
	parts := []string{sum.trouble, sum.running(), sum.left(), sum.next()}
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
	for _, b := range sum.budgets {
		if len(b.limits) == 0 {
			continue
		}
		tight := b.limits[0]
		for _, limit := range b.limits[1:] {
			if limit.Refuses() && (!tight.Refuses() || part(limit) < part(tight)) {
				tight = limit
			}
		}
		text := fmt.Sprintf("%s of %s", quota.Thousands(tight.Remaining()), tight.Budget(false).Text())
		if len(sum.budgets) > 1 {
			text = b.credential + " " + text
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
	// statusPause is the minimum time between two lines.
	statusPause = time.Second
	// statusAge is the maximum age of a line although nothing happens: units come back
	// by themselves.
	statusAge = time.Minute
)

// runStatusLine sends the service manager a line soon after something has changed, if it differs
// from the last one, until ctx ends.
func (d *daemon) runStatusLine(ctx context.Context) {
	sent := ""
	for ctx.Err() == nil {
		if line := d.summary(ctx).String(); line != sent && ctx.Err() == nil {
			d.notifySystemd("STATUS=" + line)
			sent = line
		}
		wait(ctx, statusPause, nil)
		wait(ctx, statusAge, d.changed)
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

// recordStatus is a sink of events. What a call spends is sent with its pass, or after
// statusAge.
func (d *daemon) recordStatus(event any) {
	switch event := event.(type) {
	case jobs.RunChanged, jobs.PassChanged, slidinglog.Event:
		d.statusChanged()
	case upstream.Outcome:
		if event.Changed {
			d.statusChanged()
		}
	}
}

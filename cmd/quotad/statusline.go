package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
	"quotad/regions"
)

// A summary is what one line tells of the daemon.
type summary struct {
	now     time.Time // in the zone in which times are told
	trouble string    // what comes first; empty if all is well
	jobs    []jobs.Status
	budgets []budget
}

// A budget is a credential with the state of its limits.
type budget struct {
	credential string
	limits     []quota.LimitState
}

// named is how many of a kind are told one by one.
const named = 3

// summary looks at the daemon. A ledger that does not answer costs its deadline.
func (d *daemon) summary(ctx context.Context) summary {
	sum := summary{now: time.Now()}
	sum.jobs, _ = d.runner.Status("") // of all jobs it cannot fail
	sum.trouble = line(d.triage(ctx))
	if d.service.Health(ctx).Reachable {
		for _, c := range d.service.Credentials() {
			if usage, _, err := d.service.Usage(ctx, c.Name); err == nil {
				sum.budgets = append(sum.budgets, budget{c.Name, usage.Limits})
			}
		}
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
	return joinParts(sum.trouble, sum.running(), sum.left(), sum.next())
}

func joinParts(parts ...string) string {
	var list []string
	for _, part := range parts {
		if part != "" {
			list = append(list, strings.ReplaceAll(part, "\n", " ")) // systemd takes a line for an assignment
		}
	}
	return strings.Join(list, "; ")
}

// firstOf joins the first texts of a list, and counts the others.
func firstOf(list []string) string {
	if extra := len(list) - named; extra > 0 {
		list = append(list[:named:named], fmt.Sprintf("%d more", extra))
	}
	return strings.Join(list, ", ")
}

// running tells which jobs run, and where they are.
func (sum summary) running() string {
	var list []string
	for _, s := range sum.jobs {
		if s.Last != nil && s.Last.State == jobs.RunRunning {
			list = append(list, s.Job.Name+": "+progress(s.Last))
		}
	}
	if len(list) == 0 {
		return "idle"
	}
	return firstOf(list)
}

// progress tells where a run is: "US running, then GB".
func progress(run *jobs.Run) string {
	var running []string
	begun := map[regions.Region]bool{}
	for _, pass := range run.Passes {
		begun[pass.Region] = true
		if pass.Outcome == jobs.Running {
			running = append(running, string(pass.Region))
		}
	}
	text := "waiting"
	if len(running) > 0 {
		text = firstOf(running) + " running"
	}
	for _, region := range run.Ring {
		if !begun[region] {
			return text + ", then " + string(region)
		}
	}
	return text
}

// left tells of each credential the limit of which the least part is left.
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

// part is how much of what ordinary callers may spend is left, from 0 to 1.
func part(l quota.LimitState) float64 {
	return float64(l.Remaining()) / float64(l.Budget(false))
}

// next tells which job's slot comes first.
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
	return fmt.Sprintf("next %s %s", soonest.Job.Name, sum.clock(soonest.Next))
}

// clock writes an instant as short as it can be told from today.
func (sum summary) clock(t time.Time) string {
	if t.Sub(sum.now) < 24*time.Hour {
		return t.In(sum.now.Location()).Format(time.TimeOnly)
	}
	return t.In(sum.now.Location()).Format(time.DateTime)
}

const (
	// statusPause is the least time between two lines.
	statusPause = time.Second
	// statusAge is how old a line may become although nothing happens: units come back
	// by themselves.
	statusAge = time.Minute
)

// A statusNotifier sends the service manager one line about the daemon soon after
// something has changed.
type statusNotifier struct {
	line    func(context.Context) string
	send    func(line string)
	changed chan struct{} // holds one if something has changed
}

// notify has a line sent soon. It returns at once.
func (n *statusNotifier) notify() {
	select {
	case n.changed <- struct{}{}:
	default:
	}
}

// run sends a line whenever it differs from the last one, until ctx ends.
func (n *statusNotifier) run(ctx context.Context) {
	sent := ""
	for ctx.Err() == nil {
		if line := n.line(ctx); line != sent && ctx.Err() == nil {
			n.send(line)
			sent = line
		}
		wait(ctx, statusPause, nil)
		wait(ctx, statusAge, n.changed)
	}
}

// wait returns when something has changed, or after a timeout.
func wait(ctx context.Context, timeout time.Duration, changed <-chan struct{}) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-changed:
	case <-ctx.Done():
	}
}

// record is a sink of events. What a call spends is sent with its pass, or after
// statusAge.
func (n *statusNotifier) record(event any) {
	switch event := event.(type) {
	case jobs.RunChanged, jobs.PassChanged, slidinglog.Event:
		n.notify()
	case upstream.Outcome:
		if event.Changed {
			n.notify()
		}
	}
}

package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"quotad/cmd/quotactl/page"
	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// A pageSource asks what the page shows. The status is asked for at each look. What is
// dear, a plan or a log that is read, is asked for when the status has changed, and each
// minute, but not again within leastDear.
type pageSource struct {
	*cli
	reader jobsapi.Client
	facts  pageFacts
	asked  time.Time // when the dear part was; zero: it was not
	before string    // the status of then
}

const (
	dearEvery = time.Minute
	leastDear = 5 * time.Second
	dearTime  = 20 * time.Second // for all of the dear part
)

// PageFacts are what a picture is made of. What is not known is an error beside what
// could have been.
type pageFacts struct {
	host     string
	status   jobsapi.Status
	usage    map[string]usages // by credential
	plan     plan.Plan
	planErr  error
	runs     []jobs.Run // the latest first
	runsErr  error
	refusals api.Refusals
	refErr   error
}

// Usages are what the windows of a credential's limits hold now, by what tells it apart.
type usages map[quota.Dimension]told

type told struct {
	usage api.Usage
	err   error
}

// pageDimensions are what spending is told apart by.
func pageDimensions() []quota.Dimension {
	return []quota.Dimension{quota.ByHour, quota.ByJob, quota.ByOperation}
}

// look returns what is to be seen now.
func (s *pageSource) look(ctx context.Context) (page.Picture, error) {
	limited, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	status, err := s.reader.Status(limited)
	if err != nil {
		return page.Picture{}, err
	}
	s.facts.status = status
	now := signature(status)
	if since := time.Since(s.asked); since >= dearEvery || since >= leastDear && now != s.before {
		s.askDear(ctx)
		s.asked, s.before = time.Now(), now
	}
	v := s.view()
	v.UTF8, v.Color = true, false
	return pictureOf(s.facts, v), nil
}

// signature differs where the dear part may.
func signature(status jobsapi.Status) string {
	var b strings.Builder
	for _, c := range status.Credentials {
		for _, l := range c.Limits {
			fmt.Fprintln(&b, c.Name, l.Name, l.Units, l.Reserve, l.Used, l.Closed != nil, l.Lent)
		}
	}
	for _, j := range status.Jobs {
		fmt.Fprintln(&b, j.Name, j.Pause != nil)
		for _, r := range []*jobs.Run{j.LastRun, j.Skipped} {
			if r != nil {
				fmt.Fprintln(&b, r.ID, r.State, len(r.Passes), r.Ticks)
			}
		}
	}
	return b.String()
}

func (s *pageSource) askDear(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, dearTime)
	defer cancel()
	f := &s.facts
	f.usage = make(map[string]usages)
	for _, c := range f.status.Credentials {
		f.usage[c.Name] = s.usagesOf(ctx, c)
	}
	f.plan, f.planErr = s.reader.Plan(ctx, jobsapi.PlanRequest{Days: planDays(f.status.Credentials), MaxAgeMs: dearEvery.Milliseconds()})
	f.runs, f.runsErr = s.reader.Runs(ctx, jobsapi.Selection{Most: mostRuns})
	f.refusals, f.refErr = s.reader.Refusals(ctx)
}

func (s *pageSource) usagesOf(ctx context.Context, c api.Credential) usages {
	all := make(usages)
	for _, by := range pageDimensions() {
		var t told
		t.usage, t.err = s.reader.Usage(ctx, c.Name, api.UsageQuery{By: string(by), Most: hourlyEntries})
		all[by] = t
	}
	return all
}

// planDays is how far ahead the schedule is played: as far as the longest sliding window.
func planDays(credentials []api.Credential) int {
	days := 1
	for _, c := range credentials {
		days = max(days, int((reach(c.Limits)+leastReach-1)/leastReach))
	}
	return min(days, jobsapi.MostDays)
}

// toneOf is how a style of the terminal's looks on the page.
func toneOf(s term.Style) page.Tone {
	switch s {
	case term.Red:
		return page.Bad
	case term.Yellow:
		return page.Warn
	case term.Green:
		return page.Good
	case term.Faint:
		return page.Faint
	}
	return page.Plain
}

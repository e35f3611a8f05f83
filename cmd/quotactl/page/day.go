package page

import (
	"fmt"
	"slices"
	"time"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
)

// The height of a lane, of which page.html draws the inside, and of the hours below all lanes.
const (
	laneHeight = 34
	dayBelow   = 20
)

// A Day is what ran in the last 24 hours.
type Day struct {
	axis
	Label          string
	Lanes          []Lane
	Bottom, Height int
}

// A Lane is what one job did in a day.
type Lane struct {
	Top         int
	Job, Text   string
	Runs, Skips []Bar // of the latter each is ticks that did not become a run
}

// A Bar is a run, skipped slots from the first to the last, or a gap.
type Bar struct {
	X, Width     string // in a lane
	Class, Title string
}

// Day returns a lane for each job. It ends at a full minute, so that it changes at one.
func (p Picture) Day() Day {
	until := p.Now.Truncate(time.Minute).Add(time.Minute)
	d := Day{axis: axis{until.Add(-24 * time.Hour), until, p.Zone}}
	runs := 0
	for _, j := range p.Status.Jobs {
		lane := p.lane(j.Name, d.axis)
		lane.Top = len(d.Lanes) * laneHeight
		d.Lanes = append(d.Lanes, lane)
		runs += len(lane.Runs)
	}
	d.Bottom = len(d.Lanes) * laneHeight
	d.Height = d.Bottom + dayBelow
	d.Label = fmt.Sprintf("%s of %s in the last day", quota.Count(runs, "run", "runs"), quota.Count(len(d.Lanes), "job", "jobs"))
	return d
}

func (p Picture) lane(job string, x axis) Lane {
	lane := Lane{Job: job}
	ticks := 0
	for _, r := range p.Runs {
		switch last := lastSign(r, x.Until); {
		case r.Job != job || last.Before(x.From):
		case r.State == jobs.RunSkipped:
			ticks += max(1, r.Ticks)
			lane.Skips = append(lane.Skips, x.bar(r.Slot, last, "skip", wording.Skipped(r, p.View)))
		default:
			lane.Runs = append(lane.Runs, x.bar(r.StartedAt, last, tone(wording.RunStyle(r)), p.runTitle(r)))
		}
	}
	lane.Text = quota.Count(len(lane.Runs), "run", "runs")
	if ticks > 0 {
		lane.Text += ", " + quota.Count(ticks, "slot", "slots") + " skipped"
	}
	return lane
}

// bar keeps a bar that is wider than it lasted within the day.
func (a axis) bar(from, to time.Time, class, title string) Bar {
	return Bar{percentOf(min(a.part(from), 1-minWidth)), a.width(from, to), class, title}
}

func (p Picture) runTitle(r jobs.Run) string {
	return fmt.Sprintf("%s%s %s, %s; %s", p.Clock(r.StartedAt), p.ZoneMark(), wording.RunState(r, p.View), wording.Tally(r), wording.RunTiming(r, p.View))
}

// Ticks returns the last runs of a job on this host, the oldest first, and whether a later one ended on
// another host.
func (p Picture) Ticks(j jobsapi.Job) (ticks []Bar) {
	const most = 12            // as many as a row has room for
	for _, r := range p.Runs { // the latest first
		if r.Job == j.Name && r.State != jobs.RunSkipped && len(ticks) < most {
			ticks = append(ticks, Bar{Class: tone(wording.RunStyle(r)), Title: p.runTitle(r)})
		}
	}
	slices.Reverse(ticks)
	if j.Host != "" {
		ticks = append(ticks, Bar{Class: "gap", Title: "runs on " + p.Clean(j.Host)})
	}
	return ticks
}

// lastSign is when a run ended, now for a run under way, or the latest slot of skipped ones.
func lastSign(r jobs.Run, now time.Time) time.Time {
	switch {
	case r.State == jobs.RunSkipped:
		return quota.Later(r.Slot, r.LastSlot)
	case r.EndedAt.IsZero():
		return now
	}
	return r.EndedAt
}

// Latest says since when runs are known, if not since that time.
func (p Picture) Latest(since time.Time) string {
	n := len(p.Runs)
	if n < maxRuns || !p.Runs[n-1].StartedAt.After(since) {
		return ""
	}
	return fmt.Sprintf("the latest %s, since %s%s", quota.Count(n, "run", "runs"), p.Clock(p.Runs[n-1].StartedAt), p.ZoneMark())
}

package page

import (
	"fmt"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
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

// A Bar is a run, or skipped ticks from the first slot to the last.
type Bar struct {
	X, Width string
	Style    term.Style
	Title    string
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
			lane.Skips = append(lane.Skips, x.bar(r.Slot, last, term.Plain, wording.Skipped(r, p.View)))
		default:
			title := fmt.Sprintf("%s%s %s, %s; %s", p.Clock(r.StartedAt), p.ZoneMark(), wording.RunState(r, p.View), wording.Tally(r), wording.RunTiming(r, p.View))
			lane.Runs = append(lane.Runs, x.bar(r.StartedAt, last, wording.RunStyle(r), title))
		}
	}
	lane.Text = quota.Count(len(lane.Runs), "run", "runs")
	if ticks > 0 {
		lane.Text += ", " + quota.Count(ticks, "slot", "slots") + " skipped"
	}
	return lane
}

// bar keeps a bar that is wider than it lasted within the day.
func (a axis) bar(from, to time.Time, style term.Style, title string) Bar {
	return Bar{percentOf(min(a.part(from), 1-minWidth)), a.width(from, to), style, title}
}

// lastSign is when a run ended, now for a run under way, or the latest slot of skipped
// ticks.
func lastSign(r jobs.Run, now time.Time) time.Time {
	switch {
	case r.State == jobs.RunSkipped && !r.LastSlot.IsZero():
		return r.LastSlot
	case r.State == jobs.RunSkipped:
		return r.Slot
	case r.EndedAt.IsZero():
		return now
	}
	return r.EndedAt
}

// Week returns the midnights before the last seven days by the clock of the viewer, the
// latest first.
func (p Picture) Week() (days []time.Time) {
	year, month, day := p.Now.In(p.Zone).Date()
	for i := range 7 {
		days = append(days, time.Date(year, month, day-i, 0, 0, 0, 0, p.Zone))
	}
	return days
}

// Latest says since when runs are known, if not since that time.
func (p Picture) Latest(since time.Time) string {
	n := len(p.Runs)
	if n < maxRuns || !p.Runs[n-1].StartedAt.After(since) {
		return ""
	}
	return fmt.Sprintf("the latest %s, since %s%s", quota.Count(n, "run", "runs"), p.Clock(p.Runs[n-1].StartedAt), p.ZoneMark())
}

// A Ran is what the runs of a job that began on one day came to.
type Ran struct {
	Units quota.Units
	Runs  string // empty: there was none
	Style term.Style
}

// Ran sums up the runs of a job that began on a day.
func (p Picture) Ran(job string, day time.Time) (ran Ran) {
	runs, failed := 0, 0
	for _, r := range p.Runs {
		if r.Job != job || r.State == jobs.RunSkipped || r.StartedAt.Before(day) || !r.StartedAt.Before(day.AddDate(0, 0, 1)) {
			continue
		}
		runs++
		if wording.RunStyle(r) == term.Red {
			failed++
		}
		ran.Units += r.Spent()
	}
	if runs > 0 {
		ran.Runs = quota.Count(runs, "run", "runs")
	}
	if failed > 0 {
		ran.Runs, ran.Style = fmt.Sprintf("%d of %s failed", failed, ran.Runs), term.Red
	}
	return ran
}

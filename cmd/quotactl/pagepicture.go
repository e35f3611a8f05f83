package main

import (
	"fmt"
	"slices"
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

// pictureOf says what is known in the words of the other commands.
func pictureOf(f pageFacts, v term.View) page.Picture {
	p := page.Picture{
		At: v.Now, Zone: v.Zone, Mark: v.ZoneMark(),
		Host: f.host, About: page.Line{Text: ledgerText(f.status), Tone: toneOf(ledgerStyle(f.status))},
		Says: page.Line{Text: f.status.Triage.Says, Tone: toneOf(triageStyle(f.status.Triage))},
		Day:  pageDay(f, v), Week: pageWeek(f, v), Refusals: pageRefusals(f, v),
	}
	for _, n := range f.status.Triage.Notes {
		p.Notes = append(p.Notes, page.Trouble{Of: n.Of, Line: page.Line{Text: troubleText(n, v), Tone: page.Faint}, Do: n.Do})
	}
	for _, t := range f.status.Triage.Troubles {
		p.Troubles = append(p.Troubles, page.Trouble{Of: t.Of, Line: page.Line{Text: troubleText(t, v), Tone: toneOf(troubleStyle(t))}, Do: t.Do})
	}
	for _, c := range f.status.Credentials {
		p.Credentials = append(p.Credentials, pageCredential(f, c, v))
	}
	for _, j := range f.status.Jobs {
		p.Jobs = append(p.Jobs, pageJob(j, v))
	}
	return p
}

func pageCredential(f pageFacts, c api.Credential, v term.View) page.Credential {
	shown := page.Credential{Name: c.Name, Error: c.Error}
	if c.Error != "" {
		return shown
	}
	for _, l := range c.Limits {
		notes := strings.Split(noteOf(l, v), "; ")
		if text := forecastText(l, plan.ForecastOf(f.status.Forecast, c.Name, l.Name), v); text != "" {
			notes = append(notes, text)
		}
		played, known := planOf(f, c.Name, l.Name)
		one := page.Limit{
			Name: l.Name, Units: l.Units, Lent: l.Lent, Reserve: l.Reserve, Used: l.Used, Remaining: l.Remaining,
			Tone: toneOf(stateOf(l)), Outlook: outlook(c, l, plan.ForecastOf(f.status.Forecast, c.Name, l.Name), v), Notes: notes, Forecast: pageForecast(f, played, known, v),
		}
		one.Curve, one.NoCurve = curveOf(l, f.usage[c.Name][quota.ByHour], f.plan.From, played, v.Now)
		shown.Limits = append(shown.Limits, one)
	}
	for _, by := range []quota.Dimension{quota.ByJob, quota.ByOperation} {
		shown.Spent = append(shown.Spent, pageSpending(f.usage[c.Name][by], by, v))
	}
	if shares := shown.Spent[0].Shares; len(shares) > 0 {
		shown.Spender = "most by " + shares[0].Name + ", " + shares[0].Percent
	}
	return shown
}

// planOf returns what becomes of a limit, if that is known.
func planOf(f pageFacts, credential, limit string) (plan.Limit, bool) {
	i := slices.IndexFunc(f.plan.Limits, func(l plan.Limit) bool { return l.Credential == credential && l.Limit == limit })
	if i < 0 {
		return plan.Limit{}, false
	}
	return f.plan.Limits[i], true
}

// pageForecast says what the schedule does to a limit.
func pageForecast(f pageFacts, l plan.Limit, known bool, v term.View) page.Line {
	switch {
	case f.planErr != nil:
		return page.Line{Text: "is not known: " + f.planErr.Error(), Tone: page.Bad}
	case !known:
		return page.Line{}
	case len(l.Shares) == 0 && l.DryAt.IsZero():
		return page.Line{Text: "asks for none of it", Tone: page.Faint}
	}
	text, style := verdictText(l, f.plan.Until, v)
	return page.Line{Text: text, Tone: toneOf(style)}
}

// mostShares is how many spenders are named before the rest is summed up.
const mostShares = 8

func pageSpending(t told, by quota.Dimension, v term.View) page.Spending {
	s := page.Spending{By: string(by)}
	if t.err != nil {
		s.Error = t.err.Error()
		return s
	}
	u := t.usage
	if !u.Since.IsZero() {
		s.Note = "since " + v.Clock(u.Since) + v.ZoneMark()
	}
	if u.Partial {
		s.Note += fmt.Sprintf(", of the latest %s", quota.Count(hourlyEntries, "entry", "entries"))
	}
	shares, greatest := sharesIn(u, "")
	add := func(name string, units int64) {
		s.Shares = append(s.Shares, page.Share{
			Name: name, Units: units, Percent: percent(units, u.Total.Units), Part: float64(units) / float64(max(1, greatest)),
		})
	}
	var rest int64
	for i, one := range shares {
		if i >= mostShares {
			rest += one.Units
			continue
		}
		add(shareName(u.By, one.Name, v), one.Units)
	}
	if rest > 0 {
		greatest = max(greatest, rest)
		add("others", rest)
	}
	return s
}

// mostRing and mostPasses are how much of a job's last run is told.
const (
	mostRing   = 240
	mostPasses = 8
)

func pageJob(j jobsapi.Job, v term.View) page.Job {
	shown := page.Job{Name: j.Name, Schedule: j.Schedule, Next: shortNext(j, v), Last: page.Line{Text: "no run yet", Tone: page.Faint}}
	add := func(style term.Style, text string) {
		shown.Lines = append(shown.Lines, page.Line{Text: text, Tone: toneOf(style)})
	}
	add(term.Plain, nextText(j, v))
	if j.Pause != nil {
		add(term.Yellow, pauseText(*j.Pause, v))
	}
	if isOverdue(j, v) {
		add(term.Red, overdueText(j, v))
	}
	if j.Skipped != nil {
		add(term.Yellow, skipText(*j.Skipped, v))
	}
	var passes []jobs.Pass
	if r := j.LastRun; r == nil {
		add(term.Faint, "no run yet")
	} else {
		add(runStyle(*r), "last run: "+stateText(*r, v)+", "+tally(*r))
		add(term.Faint, timingText(*r, v))
		last := lastCell(r, v)
		shown.Last = page.Line{Text: last.Text, Tone: toneOf(last.Style)}
		passes = r.Latest()
		worthALine := notOK(*r)
		for _, p := range worthALine[:min(len(worthALine), mostPasses)] {
			one := page.Pass{Line: page.Line{Text: passText(p, v), Tone: toneOf(outcomeStyle(p.Outcome))}}
			if p.Outcome.Failure() {
				one.Tail = p.Tail
			}
			shown.Passes = append(shown.Passes, one)
		}
	}
	shown.Ring, shown.More = pageRing(j, passes, v)
	return shown
}

// shortNext says in a few words when a job runs next.
func shortNext(j jobsapi.Job, v term.View) string {
	switch {
	case j.Pause != nil:
		return "paused"
	case j.NextRun.IsZero():
		return "by hand alone"
	case isOverdue(j, v):
		return "overdue; next " + v.Clock(j.NextRun) + v.ZoneMark()
	}
	return "next " + v.Clock(j.NextRun) + v.ZoneMark()
}

// passText says what became of a pass, without what it printed.
func passText(p jobs.Pass, v term.View) string {
	p.Tail = nil
	text := inList(p.Region) + " " + string(p.Outcome)
	if reason := reasonOf(p, v); reason != "" {
		text += ": " + reason
	}
	return text
}

func pageRing(j jobsapi.Job, passes []jobs.Pass, v term.View) (ring []page.Region, more int64) {
	for i, region := range j.Regions {
		if i >= mostRing {
			return ring, int64(len(j.Regions) - mostRing)
		}
		one := page.Region{Name: string(region), Cursor: string(region) == string(j.Cursor)}
		if at := slices.IndexFunc(passes, func(p jobs.Pass) bool { return p.Region == region }); at >= 0 {
			one.Mark, one.Tone, one.Title = mark(passes[at].Outcome), toneOf(outcomeStyle(passes[at].Outcome)), passText(passes[at], v)
		}
		ring = append(ring, one)
	}
	return ring, 0
}

// mostRefused is how many refusals are shown.
const mostRefused = 20

// pageRefusals are the latest calls that were refused, and passes that were not launched.
func pageRefusals(f pageFacts, v term.View) page.Refusals {
	if f.refErr != nil {
		return page.Refusals{Error: f.refErr.Error()}
	}
	all := append(slices.Clone(f.refusals.Refusals), notLaunched(f.runs)...)
	slices.SortStableFunc(all, func(x, y api.Refusal) int { return y.At.Compare(x.At) })
	shown := page.Refusals{Note: "of calls since quotad began, " + v.When(f.refusals.Since)}
	for _, r := range all[:min(len(all), mostRefused)] {
		row := page.Refusal{At: v.Clock(r.At) + v.ZoneMark(), By: v.Caller(r.By), What: "a pass", Why: refusedText(r, v)}
		if r.Operation != "" {
			row.What = quota.Count(r.Count, "call", "calls") + " of " + r.Operation
		}
		if r.Region != "" {
			row.By += ", " + v.Clean(r.Region)
		}
		if r.Times > 1 {
			row.Times = fmt.Sprintf("%s times since %s", quota.Thousands(r.Times), v.Clock(r.Since))
		}
		shown.Rows = append(shown.Rows, row)
	}
	return shown
}

// notLaunched are the passes of runs, the latest first, that were skipped: of a job and a
// reason as one. They ask for no operation.
func notLaunched(runs []jobs.Run) []api.Refusal {
	var all []api.Refusal
	for _, r := range runs {
		for _, p := range r.Passes {
			if p.Outcome != jobs.Skipped {
				continue
			}
			alike := func(known api.Refusal) bool { return known.By == r.Job && known.Reason == string(p.Reason) }
			i := slices.IndexFunc(all, alike)
			if i < 0 {
				i = len(all)
				all = append(all, api.Refusal{At: p.EndedAt, By: r.Job, Region: string(p.Region), Reason: string(p.Reason), Detail: p.Detail})
				if at := p.RetryAt; !at.IsZero() {
					all[i].RetryAt = &at
				}
			}
			all[i].Since = p.EndedAt
			all[i].Times++
		}
	}
	return all
}

// refusedText says why, as it was then.
func refusedText(r api.Refusal, v term.View) string {
	var text string
	switch quota.Reason(r.Reason) {
	case quota.LimitExceeded:
		text = fmt.Sprintf("no room for %s in limit %s", units(r.Units), r.Limit)
	case quota.LimitClosed:
		text = "limit " + r.Limit + " is closed"
	default:
		text = r.Reason
	}
	if r.Detail != "" {
		text += ": " + r.Detail
	}
	if r.RetryAt != nil {
		text += "; " + fitText(*r.RetryAt, v)
	}
	return text
}

// pageDay is what ran in the last 24 hours, to the minute.
func pageDay(f pageFacts, v term.View) page.Day {
	until := v.Now.Truncate(time.Minute).Add(time.Minute)
	d := page.Day{From: until.Add(-24 * time.Hour), Until: until}
	if f.runsErr != nil {
		d.Error = f.runsErr.Error()
		return d
	}
	if n := len(f.runs); n == mostRuns && f.runs[n-1].StartedAt.After(d.From) {
		d.Note = fmt.Sprintf("the latest %s, since %s%s", quota.Count(n, "run", "runs"), v.Clock(f.runs[n-1].StartedAt), v.ZoneMark())
	}
	for _, j := range f.status.Jobs {
		d.Lanes = append(d.Lanes, laneOf(j.Name, f.runs, d, v))
	}
	return d
}

func laneOf(job string, runs []jobs.Run, d page.Day, v term.View) page.Lane {
	lane := page.Lane{Job: job}
	var ticks int
	for _, r := range runs {
		switch last := lastSign(r, d.Until); {
		case r.Job != job || last.Before(d.From):
		case r.State == jobs.RunSkipped:
			ticks += max(1, r.Ticks)
			lane.Skips = append(lane.Skips, page.Skip{From: r.Slot, To: last, Title: skipText(r, v)})
		default:
			lane.Runs = append(lane.Runs, page.Bar{From: r.StartedAt, To: last, Tone: toneOf(runStyle(r)),
				Title: fmt.Sprintf("%s%s %s, %s; %s", v.Clock(r.StartedAt), v.ZoneMark(), stateText(r, v), tally(r), timingText(r, v))})
		}
	}
	lane.Text = quota.Count(len(lane.Runs), "run", "runs")
	if ticks > 0 {
		lane.Text += ", " + quota.Count(ticks, "tick", "ticks") + " skipped"
	}
	return lane
}

// lastSign is when a run ended, or the latest slot of ticks that were skipped; now of
// what goes on.
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

package page

import (
	"fmt"
	"slices"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// Picture says the facts in the words of the other commands.
func (f Facts) Picture(v term.View) Picture {
	p := Picture{
		At: v.Now, Zone: v.Zone, Mark: v.ZoneMark(),
		Host: f.Host, About: wording.Ledger(f.Status),
		Says: term.Styled(wording.TriageStyle(f.Status.Triage), f.Status.Triage.Says),
		Day:  dayOf(f, v), Week: weekOf(f, v), Refusals: refusalsOf(f, v),
	}
	for _, n := range f.Status.Triage.Notes {
		p.Notes = append(p.Notes, Trouble{n.Of, term.Styled(term.Faint, wording.Trouble(n, v)), n.Do})
	}
	for _, t := range f.Status.Triage.Troubles {
		p.Troubles = append(p.Troubles, Trouble{t.Of, term.Styled(wording.TroubleStyle(t), wording.Trouble(t, v)), t.Do})
	}
	for _, c := range f.Status.Credentials {
		p.Credentials = append(p.Credentials, credentialOf(f, c, v))
	}
	for _, j := range f.Status.Jobs {
		p.Jobs = append(p.Jobs, jobOf(j, v))
	}
	return p
}

func credentialOf(f Facts, c api.Credential, v term.View) Credential {
	shown := Credential{Name: c.Name, Error: c.Error}
	if c.Error != "" {
		return shown
	}
	for _, l := range c.Limits {
		forecast := plan.ForecastOf(f.Status.Forecast, c.Name, l.Name)
		played, known := planOf(f, c.Name, l.Name)
		one := Limit{
			Name: l.Name, Units: l.Units, Lent: l.Lent, Reserve: l.Reserve, Used: l.Used, Remaining: l.Remaining,
			Style: wording.LimitStyle(l), Outlook: wording.Outlook(c, l, forecast, v), Notes: wording.LimitNotes(l, forecast, v),
			Forecast: forecastOf(f, played, known, v),
		}
		one.Curve, one.NoCurve = curveOf(l, f.Usage[c.Name][quota.ByHour], f.Plan.From, played, v.Now)
		shown.Limits = append(shown.Limits, one)
	}
	for _, by := range []quota.Dimension{quota.ByJob, quota.ByOperation} {
		shown.Spent = append(shown.Spent, spendingOf(f.Usage[c.Name][by], by, v))
	}
	if shares := shown.Spent[0].Shares; len(shares) > 0 {
		shown.Spender = "most by " + shares[0].Name + ", " + shares[0].Percent
	}
	return shown
}

// planOf returns what the schedule does to a limit, if that is known.
func planOf(f Facts, credential, limit string) (plan.Limit, bool) {
	i := slices.IndexFunc(f.Plan.Limits, func(l plan.Limit) bool { return l.Credential == credential && l.Limit == limit })
	if i < 0 {
		return plan.Limit{}, false
	}
	return f.Plan.Limits[i], true
}

// forecastOf says what the schedule does to a limit.
func forecastOf(f Facts, l plan.Limit, known bool, v term.View) Line {
	switch {
	case f.PlanErr != nil:
		return term.Styled(term.Red, "is not known: "+f.PlanErr.Error())
	case !known:
		return Line{}
	case len(l.Shares) == 0 && l.DryAt.IsZero():
		return term.Styled(term.Faint, "expects to spend none of it")
	}
	text, style := wording.Verdict(l, f.Plan.Until, v)
	return term.Styled(style, text)
}

// maxShares is how many spenders are named; the rest is summed up.
const maxShares = 8

func spendingOf(t Usage, by quota.Dimension, v term.View) Spending {
	s := Spending{By: string(by)}
	if t.Err != nil {
		s.Error = t.Err.Error()
		return s
	}
	u := t.Usage
	if !u.Since.IsZero() {
		s.Note = "since " + v.Clock(u.Since) + v.ZoneMark()
	}
	if u.Partial {
		s.Note += fmt.Sprintf(", of the latest %s", quota.Count(hourlyEntries, "entry", "entries"))
	}
	shares, greatest := wording.Shares(u, "")
	add := func(name string, units int64) {
		s.Shares = append(s.Shares, Share{
			Name: name, Units: units, Percent: wording.Percent(units, u.Total.Units), Part: float64(units) / float64(max(1, greatest)),
		})
	}
	var rest int64
	for i, one := range shares {
		if i >= maxShares {
			rest += one.Units
			continue
		}
		add(wording.ShareName(u.By, one.Name, v), one.Units)
	}
	if rest > 0 {
		greatest = max(greatest, rest)
		add("others", rest)
	}
	return s
}

// How much of a job's last run the page shows.
const (
	maxRing   = 240
	maxPasses = 8
)

func jobOf(j jobsapi.Job, v term.View) Job {
	shown := Job{Name: j.Name, Schedule: j.Schedule, Next: shortNext(j, v), Last: term.Styled(term.Faint, "no run yet"), Lines: wording.JobLines(j, v)}
	if j.LastRun == nil {
		shown.Lines = append(shown.Lines, shown.Last)
		shown.Ring, shown.More = ringOf(j, nil, v)
		return shown
	}
	r := *j.LastRun
	shown.Lines = append(shown.Lines,
		term.Styled(wording.RunStyle(r), "last run: "+wording.RunState(r, v)+", "+wording.Tally(r)), term.Styled(term.Faint, wording.RunTiming(r, v)))
	shown.Last = wording.LastRun(&r, v)
	notOK := wording.NotOK(r)
	for _, p := range notOK[:min(len(notOK), maxPasses)] {
		one := Pass{Line: term.Styled(wording.OutcomeStyle(p.Outcome), passText(p, v))}
		if p.Outcome.Failure() {
			one.Tail = p.Tail
		}
		shown.Passes = append(shown.Passes, one)
	}
	shown.Ring, shown.More = ringOf(j, r.Latest(), v)
	return shown
}

// shortNext says in a few words when a job runs next.
func shortNext(j jobsapi.Job, v term.View) string {
	switch {
	case j.Pause != nil:
		return "paused"
	case j.NextRun.IsZero():
		return "by hand alone"
	case wording.IsOverdue(j, v):
		return "overdue; next " + v.Clock(j.NextRun) + v.ZoneMark()
	}
	return "next " + v.Clock(j.NextRun) + v.ZoneMark()
}

// passText says how a pass ended, without what it printed.
func passText(p jobs.Pass, v term.View) string {
	p.Tail = nil
	text := wording.Region(p.Region) + " " + string(p.Outcome)
	if reason := wording.PassReason(p, v); reason != "" {
		text += ": " + reason
	}
	return text
}

func ringOf(j jobsapi.Job, passes []jobs.Pass, v term.View) (ring []Region, more int64) {
	for i, region := range j.Regions {
		if i >= maxRing {
			return ring, int64(len(j.Regions) - maxRing)
		}
		one := Region{Name: string(region), Cursor: string(region) == string(j.Cursor)}
		if at := slices.IndexFunc(passes, func(p jobs.Pass) bool { return p.Region == region }); at >= 0 {
			one.Mark, one.Style, one.Title = wording.Mark(passes[at].Outcome), wording.OutcomeStyle(passes[at].Outcome), passText(passes[at], v)
		}
		ring = append(ring, one)
	}
	return ring, 0
}

// maxRefusals is how many refusals are shown.
const maxRefusals = 20

// refusalsOf returns the latest calls that were refused, and passes that were not launched.
func refusalsOf(f Facts, v term.View) Refusals {
	if f.RefusalsErr != nil {
		return Refusals{Error: f.RefusalsErr.Error()}
	}
	all := append(slices.Clone(f.Refusals.Refusals), notLaunched(f.Runs)...)
	slices.SortStableFunc(all, func(x, y api.Refusal) int { return y.At.Compare(x.At) })
	shown := Refusals{Note: "of calls since quotad began, " + v.When(f.Refusals.Since)}
	for _, r := range all[:min(len(all), maxRefusals)] {
		row := Refusal{At: v.Clock(r.At) + v.ZoneMark(), By: v.Caller(r.By), What: "a pass", Why: wording.Refused(r, v)}
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

// notLaunched returns the skipped passes of runs, which are the latest first. Passes of one
// job and reason are one refusal. They name no operation.
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

// dayOf is what ran in the last 24 hours, to the minute.
func dayOf(f Facts, v term.View) Day {
	until := v.Now.Truncate(time.Minute).Add(time.Minute)
	d := Day{From: until.Add(-24 * time.Hour), Until: until}
	if f.RunsErr != nil {
		d.Error = f.RunsErr.Error()
		return d
	}
	if n := len(f.Runs); n == maxRuns && f.Runs[n-1].StartedAt.After(d.From) {
		d.Note = fmt.Sprintf("the latest %s, since %s%s", quota.Count(n, "run", "runs"), v.Clock(f.Runs[n-1].StartedAt), v.ZoneMark())
	}
	for _, j := range f.Status.Jobs {
		d.Lanes = append(d.Lanes, laneOf(j.Name, f.Runs, d, v))
	}
	return d
}

func laneOf(job string, runs []jobs.Run, d Day, v term.View) Lane {
	lane := Lane{Job: job}
	var ticks int
	for _, r := range runs {
		switch last := lastSign(r, d.Until); {
		case r.Job != job || last.Before(d.From):
		case r.State == jobs.RunSkipped:
			ticks += max(1, r.Ticks)
			lane.Skips = append(lane.Skips, Bar{From: r.Slot, To: last, Title: wording.Skipped(r, v)})
		default:
			lane.Runs = append(lane.Runs, Bar{From: r.StartedAt, To: last, Style: wording.RunStyle(r),
				Title: fmt.Sprintf("%s%s %s, %s; %s", v.Clock(r.StartedAt), v.ZoneMark(), wording.RunState(r, v), wording.Tally(r), wording.RunTiming(r, v))})
		}
	}
	lane.Text = quota.Count(len(lane.Runs), "run", "runs")
	if ticks > 0 {
		lane.Text += ", " + quota.Count(ticks, "slot", "slots") + " skipped"
	}
	return lane
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

// weekOf is what each job did on each of the last seven days, by the clock of the
// viewer, the latest day first.
func weekOf(f Facts, v term.View) Week {
	const days = 7
	var w Week
	from := midnight(v.Now.In(v.Zone))
	for i := range days {
		w.Days = append(w.Days, from.AddDate(0, 0, -i).Format("Mon 2"))
	}
	if n := len(f.Runs); n == maxRuns {
		w.Note = fmt.Sprintf("the latest %s, since %s", quota.Count(n, "run", "runs"), v.Clock(f.Runs[n-1].StartedAt)+v.ZoneMark())
	}
	for _, j := range f.Status.Jobs {
		row := WeekRow{Job: j.Name}
		for i := range days {
			day := from.AddDate(0, 0, -i)
			row.Cells = append(row.Cells, cellOf(j.Name, f.Runs, day, day.AddDate(0, 0, 1)))
		}
		w.Rows = append(w.Rows, row)
	}
	return w
}

func midnight(at time.Time) time.Time {
	year, month, day := at.Date()
	return time.Date(year, month, day, 0, 0, 0, 0, at.Location())
}

// cellOf sums up the runs of a job that began in a day.
func cellOf(job string, all []jobs.Run, from, until time.Time) WeekCell {
	var spent quota.Units
	runs, failed := 0, 0
	for _, r := range all {
		if r.Job != job || r.State == jobs.RunSkipped || r.StartedAt.Before(from) || !r.StartedAt.Before(until) {
			continue
		}
		runs++
		if wording.RunStyle(r) == term.Red {
			failed++
		}
		spent += r.Spent()
	}
	switch {
	case runs == 0:
		return WeekCell{}
	case failed > 0:
		return WeekCell{Units: spent.Text(), Runs: fmt.Sprintf("%d of %s failed", failed, quota.Count(runs, "run", "runs")), Style: term.Red}
	}
	return WeekCell{Units: spent.Text(), Runs: quota.Count(runs, "run", "runs")}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

const planUsage = `Simulate the schedule against the limits, from what they hold now: the units of
each hour, where a limit would run dry, how many regions fit, and what would
help.

With -o value the answer is the number of passes that do not get their units: 0
if everything fits.

The simulation debits each pass at its start, with what its job expects. For a
job without expects it takes what recent passes spent (measured). ASKED is the
most that is wanted in one window; MOST is how many regions would fit. In the
plot, x marks an hour in which passes go without.

A schedule fits if the units suffice even when passes are late. A late pass can
count at any time from its start to its end: its timeout plus kill_grace, or the
end of the run's stagger, but always before the next slot. So hourly runs count
24 times in a day on time, and 25 times when passes are late.

Example:
  $ quotactl plan -o value --days 1
  0
`

func newPlan(c *cli) *cobra.Command {
	var in jobsapi.PlanRequest
	cmd := &cobra.Command{
		Use:   "plan [FLAGS]",
		Short: "will the schedule fit, hour by hour, and what would help",
		Long:  planUsage,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.plan(cmd.Context(), in) },
	}
	cmd.Flags().IntVar(&in.Days, "days", 7, "plan `N` days, up to 31")
	cmd.Flags().StringArrayVar(&in.With, "with", nil, "what if a job also ran then, as `JOB@TIME`: at 22:00, in 3h, or at an instant like 2026-03-14T22:00:00Z; repeat it for more")
	return cmd
}

func (c *cli) plan(ctx context.Context, in jobsapi.PlanRequest) error {
	if in.Days < 1 || in.Days > jobsapi.MaxDays {
		return usageError("", "--days must be from 1 to %d: %d", jobsapi.MaxDays, in.Days)
	}
	for i, with := range in.With {
		job, when, _ := strings.Cut(with, "@")
		at, err := parseComing(when, time.Now())
		if err != nil {
			return err
		}
		in.With[i] = job + "@" + at.UTC().Format(time.RFC3339)
	}
	p, err := c.client().Plan(ctx, in)
	return show(c, p, err, lostTurns, planPage)
}

// lostTurns is how many passes of a plan do not get their units.
func lostTurns(p plan.Plan) (int64, error) {
	if len(p.Jobs) == 0 && len(p.Unknown) > 0 {
		return 0, errors.New("nothing is planned: " + unplannedText(p))
	}
	return int64(p.Skipped), nil
}

// parseComing reads a time in the future: "22:00", "3h", or an instant.
func parseComing(text string, now time.Time) (time.Time, error) {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return at, nil
	}
	if clock, err := time.Parse("15:04", text); err == nil {
		at := time.Date(now.Year(), now.Month(), now.Day(), clock.Hour(), clock.Minute(), 0, 0, now.Location())
		if !at.After(now) {
			at = at.AddDate(0, 0, 1)
		}
		return at, nil
	}
	if ahead, err := api.ParseSpan(text); err == nil && ahead > 0 {
		return now.Add(ahead), nil
	}
	return time.Time{}, usageError("", "--with must be JOB@TIME, such as backfill@22:00, backfill@3h or backfill@2026-03-14T22:00:00Z: %q", text)
}

// planPage writes a plan: its sum in a line, and then limit by limit.
func planPage(p plan.Plan, v term.View) string {
	var b strings.Builder
	v.Prose(&b, 0, term.Bold, fmt.Sprintf("plan of %s, until %s%s", term.Brief(p.Until.Sub(p.From)), v.Clock(p.Until), v.ZoneMark()))
	v.Prose(&b, 2, term.Plain, totalText(p))
	if p.Cut {
		v.Prose(&b, 2, term.Yellow, "it ends earlier than you asked: it simulates a limited number of passes")
	}
	if len(p.Unknown) > 0 {
		v.Prose(&b, 2, term.Yellow, unplannedText(p))
	}
	if measured := measuredJobs(p); len(measured) > 0 {
		v.Prose(&b, 2, term.Plain, "measured, because expects is not set: "+strings.Join(measured, ", "))
	}
	for _, l := range p.Limits {
		b.WriteByte('\n')
		v.Prose(&b, 0, term.Bold, fmt.Sprintf("credential %s, limit %s", l.Credential, l.Limit))
		renderLimitPlan(&b, p, l, v)
	}
	return b.String()
}

// unplannedText names the jobs that no figure includes.
func unplannedText(p plan.Plan) string {
	return "without " + strings.Join(p.Unknown, ", ") + ": expects is not set, and no pass has made a call yet"
}

func measuredJobs(p plan.Plan) (names []string) {
	for _, j := range p.Jobs {
		if j.Measured {
			names = append(names, j.Job)
		}
	}
	return names
}

// totalText says how many turns there are, and how many of them are lost.
func totalText(p plan.Plan) string {
	passes := quota.Count(p.Passes, "pass", "passes")
	if len(p.Jobs) == 0 && len(p.Unknown) > 0 {
		return "nothing is planned"
	}
	if p.Skipped == 0 {
		return passes + ", and no region loses its turn"
	}
	return passes + "; " + quota.Count(p.Skipped, "turn is lost", "turns are lost")
}

func renderLimitPlan(b *strings.Builder, p plan.Plan, l plan.Limit, v term.View) {
	if len(l.Shares) == 0 && l.DryAt.IsZero() {
		v.Prose(b, 2, term.Plain, "no job asks for any of its "+units(int64(l.Budget)))
		return
	}
	text, state := wording.Verdict(l, p.Until, v)
	v.Prose(b, 2, state, text)
	if len(l.Shares) > 0 {
		v.Prose(b, 2, term.Plain, demandText(l))
	}
	holds := fmt.Sprintf("holds %s now, and %s at most", quota.Thousands(l.Used), quota.Thousands(l.Peak))
	if !l.ResetsAt.IsZero() {
		holds += "; resets " + v.When(l.ResetsAt)
	}
	v.Prose(b, 2, term.Plain, holds)
	for i, c := range l.Changes {
		label := "or: "
		if i == 0 {
			label = "do: "
		}
		v.Item(b, 4, label, fmt.Sprintf("%s, %s less", c, units(int64(c.GivesUp))))
	}
	if !l.Fits && len(l.Changes) == 0 {
		v.Prose(b, 4, term.Plain, "no single change is enough")
	}
	if len(l.Shares) > 0 {
		sharesOfPlan(p, l).Render(b, v)
	}
	if l.Spent > 0 || l.Skipped > 0 {
		plotOf(l, v).Render(b, v)
	}
}

// demandText says how much the jobs ask for, and of how much.
func demandText(l plan.Limit) string {
	about, late := "", ""
	if l.Estimated {
		about = "about "
	}
	if l.AtWorst > l.Demand {
		late = fmt.Sprintf("; for %s when passes are late", quota.Thousands(l.AtWorst))
	}
	return fmt.Sprintf("asked for %s%s %s, %s of the %s for jobs%s",
		about, quota.Thousands(l.Demand), l.Window, wording.Percent(int64(l.Demand), int64(l.Budget)), quota.Thousands(l.Budget), late)
}

// sharesOfPlan is the table of the jobs that ask something of a limit.
func sharesOfPlan(p plan.Plan, l plan.Limit) *term.Table {
	t := &term.Table{Indent: 2, Columns: []term.Column{
		{Head: "JOB"}, {Head: "SLOTS", Right: true}, {Head: "ASKED", Right: true}, {Head: "SHARE", Right: true},
		{Head: "REGIONS", Right: true}, {Head: "MOST", Right: true}, {Head: "SPENT", Right: true}, {Head: "LOST", Right: true},
	}}
	var all int64
	for _, s := range l.Shares {
		all += int64(s.Demand)
	}
	for _, s := range l.Shares {
		j := jobIn(p, s.Job)
		fitting, lost := term.Cell{Text: strconv.Itoa(s.MostRegions)}, term.Cell{Text: quota.Thousands(j.Skipped)}
		if s.MostRegions < len(j.Regions) {
			fitting.Style = term.Yellow
		}
		if j.Skipped > 0 {
			lost.Style = term.Red
		}
		t.Add(s.Job, s.Slots, s.Demand, wording.Percent(int64(s.Demand), all), len(j.Regions), fitting, j.Spent[l.Limit], lost)
	}
	return t
}

// jobIn returns what becomes of a job. It is empty if the plan does not have the job.
func jobIn(p plan.Plan, name string) plan.Job {
	i := slices.IndexFunc(p.Jobs, func(j plan.Job) bool { return j.Job == name })
	if i < 0 {
		return plan.Job{}
	}
	return p.Jobs[i]
}

// A dayPlot is one line of a plot: what a limit spends in the hours of one day.
type dayPlot struct {
	day   time.Time     // its midnight, or close to it
	hours [24]plan.Hour // At is zero of one that the plan does not touch
	units quota.Units
}

// plotOf draws the hours of a limit, a line for each day of the view's zone. The
// highest mark is the busiest hour; x is an hour in which turns are lost.
func plotOf(l plan.Limit, v term.View) *term.Table {
	days := daysOf(l.Hours, v.Zone)
	var busiest quota.Units
	for _, d := range days {
		for _, h := range d.hours {
			busiest = max(busiest, h.Units)
		}
	}
	wide := 1
	if v.Width >= term.DefaultWidth {
		wide = min(4, (v.Width-plotMargin)/24)
	}
	t := &term.Table{Indent: 2, Columns: []term.Column{{Head: "HOUR" + v.ZoneMark()}, {Head: scale(wide), Whole: true}, {Head: "UNITS", Right: true}}}
	for _, d := range days {
		var marks strings.Builder
		for _, h := range d.hours {
			marks.WriteString(strings.Repeat(markOf(h, busiest, v), wide))
		}
		t.Add(d.day.Format("Mon 2"), marks.String(), d.units)
	}
	return t
}

// plotMargin is the width of the other columns: days, units and gaps.
const plotMargin = 30

// daysOf groups hours by day. When a clock is set back, two hours share one mark.
func daysOf(hours []plan.Hour, zone *time.Location) []*dayPlot {
	var days []*dayPlot
	for _, h := range hours {
		at := h.At.In(zone)
		if n := len(days); n == 0 || days[n-1].day.YearDay() != at.YearDay() {
			days = append(days, &dayPlot{day: at})
		}
		d := days[len(days)-1]
		mark := &d.hours[at.Hour()]
		mark.At = h.At
		mark.Units += h.Units
		mark.Skipped += h.Skipped
		d.units += h.Units
	}
	return days
}

// markOf is one character for an hour.
func markOf(h plan.Hour, busiest quota.Units, v term.View) string {
	levels, none := []rune("12345678"), "."
	if v.UTF8 {
		levels, none = []rune("▁▂▃▄▅▆▇█"), "·"
	}
	switch {
	case h.At.IsZero():
		return " "
	case h.Skipped > 0:
		return "x"
	case h.Units == 0:
		return none
	}
	return string(levels[share(int64(h.Units), int64(busiest), len(levels))-1])
}

// scale names every sixth hour above its mark.
func scale(wide int) string {
	var b strings.Builder
	for hour := 0; hour < 24; hour += 6 {
		fmt.Fprintf(&b, "%-*s", 6*wide, fmt.Sprintf("%02d", hour))
	}
	return strings.TrimRight(b.String(), " ")
}

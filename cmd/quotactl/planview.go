package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quotad/cmd/quotactl/term"
	"quotad/jobs/plan"
	"quotad/quota"
)

// planPage writes a plan: all of it in a line, and then limit by limit.
func planPage(p plan.Plan, v term.View) string {
	var b strings.Builder
	v.Prose(&b, 0, term.Bold, fmt.Sprintf("plan of %s, until %s%s", term.Brief(p.Until.Sub(p.From)), v.Clock(p.Until), v.ZoneMark()))
	v.Prose(&b, 2, term.Plain, totalText(p))
	if p.Cut {
		v.Prose(&b, 2, term.Yellow, "it ends earlier than was asked for: so many passes are not played at once")
	}
	if len(p.Unknown) > 0 {
		v.Prose(&b, 2, term.Yellow, "without "+strings.Join(p.Unknown, ", ")+": what a pass expects is not configured")
	}
	for _, l := range p.Limits {
		b.WriteByte('\n')
		v.Prose(&b, 0, term.Bold, fmt.Sprintf("credential %s, limit %s", l.Credential, l.Limit))
		renderLimitPlan(&b, p, l, v)
	}
	return b.String()
}

// totalText says how many turns there are, and how many of them are lost.
func totalText(p plan.Plan) string {
	passes := quota.Count(p.Passes, "pass", "passes")
	if p.Skipped == 0 {
		return passes + ", and no region loses its turn"
	}
	return passes + "; " + quota.Count(p.Skipped, "turn of a region is lost", "turns of a region are lost")
}

func renderLimitPlan(b *strings.Builder, p plan.Plan, l plan.Limit, v term.View) {
	if len(l.Shares) == 0 {
		v.Prose(b, 2, term.Plain, "no job asks for any of its "+units(int64(l.Budget)))
		return
	}
	text, state := verdictText(l, v)
	v.Prose(b, 2, state, text)
	v.Prose(b, 2, term.Plain, demandText(l))
	holds := fmt.Sprintf("holds %s now, and %s at most", quota.Thousands(l.Used), quota.Thousands(l.Peak))
	if !l.ResetsAt.IsZero() {
		holds += "; begins anew " + v.When(l.ResetsAt)
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
		v.Prose(b, 4, term.Plain, "no single change would do")
	}
	sharesOfPlan(p, l).Render(b, v)
	if l.Spent > 0 || l.Skipped > 0 {
		plotOf(l, v).Render(b, v)
	}
}

// verdictText says whether the limit is enough, and for how long.
func verdictText(l plan.Limit, v term.View) (string, term.Style) {
	switch {
	case !l.DryAt.IsZero():
		text := fmt.Sprintf("runs dry %s: ends %s early, which loses %s", v.When(l.DryAt),
			quota.Count(l.Stops, "run", "runs"), quota.Count(l.Skipped, "turn", "turns"))
		if l.Fits {
			text += "; by itself the schedule fits"
		}
		return text, term.Red
	case !l.FitsOnTime():
		return "runs dry, though not as long as this plan looks ahead", term.Red
	case !l.Fits:
		return "fits as long as passes are on time; late ones run it dry", term.Yellow
	}
	return "fits, even when passes are late", term.Green
}

// demandText says what is asked for, and of how much.
func demandText(l plan.Limit) string {
	about, late := "", ""
	if l.Estimated {
		about = "about "
	}
	if l.AtWorst > l.Demand {
		late = fmt.Sprintf("; for %s when passes are late", quota.Thousands(l.AtWorst))
	}
	return fmt.Sprintf("asked for %s%s %s, %s of the %s for jobs%s",
		about, quota.Thousands(l.Demand), windowText(l.Window), percent(int64(l.Demand), int64(l.Budget)), quota.Thousands(l.Budget), late)
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
		most, lost := term.Cell{Text: strconv.Itoa(s.MostRegions)}, term.Cell{Text: quota.Thousands(j.Skipped)}
		if s.MostRegions < len(j.Regions) {
			most.Style = term.Yellow
		}
		if j.Skipped > 0 {
			lost.Style = term.Red
		}
		t.Add(term.Cell{Text: s.Job}, term.Cell{Text: quota.Thousands(s.Slots)}, term.Cell{Text: quota.Thousands(s.Demand)},
			term.Cell{Text: percent(int64(s.Demand), all)}, term.Cell{Text: quota.Thousands(len(j.Regions))}, most,
			term.Cell{Text: quota.Thousands(j.Spent[l.Limit])}, lost)
	}
	return t
}

// jobIn returns what becomes of a job, nothing of one that is not in the plan.
func jobIn(p plan.Plan, name string) plan.Job {
	i := slices.IndexFunc(p.Jobs, func(j plan.Job) bool { return j.Job == name })
	if i < 0 {
		return plan.Job{}
	}
	return p.Jobs[i]
}

package main

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quotad/jobs/plan"
	"quotad/quota"
)

// planPage writes a plan: all of it in a line, and then limit by limit.
func planPage(p plan.Plan, v view) string {
	var b strings.Builder
	v.prose(&b, 0, bold, fmt.Sprintf("plan of %s, until %s%s", brief(p.Until.Sub(p.From)), v.clock(p.Until), v.zoneMark()))
	v.prose(&b, 2, plain, totalText(p))
	if p.Cut {
		v.prose(&b, 2, yellow, "it ends earlier than was asked for: so many passes are not played at once")
	}
	if len(p.Unknown) > 0 {
		v.prose(&b, 2, yellow, "without "+strings.Join(p.Unknown, ", ")+": what a pass expects is not configured")
	}
	for _, l := range p.Limits {
		b.WriteByte('\n')
		v.prose(&b, 0, bold, fmt.Sprintf("credential %s, limit %s", l.Credential, l.Limit))
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

func renderLimitPlan(b *strings.Builder, p plan.Plan, l plan.Limit, v view) {
	if len(l.Shares) == 0 {
		v.prose(b, 2, plain, "no job asks for any of its "+units(int64(l.Budget)))
		return
	}
	text, state := verdictText(l, v)
	v.prose(b, 2, state, text)
	v.prose(b, 2, plain, demandText(l))
	holds := fmt.Sprintf("holds %s now, and %s at most", quota.Thousands(l.Used), quota.Thousands(l.Peak))
	if !l.ResetsAt.IsZero() {
		holds += "; begins anew " + v.when(l.ResetsAt)
	}
	v.prose(b, 2, plain, holds)
	for i, c := range l.Changes {
		label := "or: "
		if i == 0 {
			label = "do: "
		}
		v.item(b, 4, label, fmt.Sprintf("%s, %s less", c, units(int64(c.GivesUp))))
	}
	if !l.Fits && len(l.Changes) == 0 {
		v.prose(b, 4, plain, "no single change would do")
	}
	sharesOfPlan(p, l).render(b, v)
	if l.Spent > 0 || l.Skipped > 0 {
		plotOf(l, v).render(b, v)
	}
}

// verdictText says whether the limit is enough, and for how long.
func verdictText(l plan.Limit, v view) (string, style) {
	switch {
	case !l.DryAt.IsZero():
		text := fmt.Sprintf("runs dry %s: ends %s early, which loses %s", v.when(l.DryAt),
			quota.Count(l.Stops, "run", "runs"), quota.Count(l.Skipped, "turn", "turns"))
		if l.Fits {
			text += "; by itself the schedule fits"
		}
		return text, red
	case !l.FitsOnTime():
		return "runs dry, though not as long as this plan looks ahead", red
	case !l.Fits:
		return "fits as long as passes are on time; late ones run it dry", yellow
	}
	return "fits, even when passes are late", green
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
func sharesOfPlan(p plan.Plan, l plan.Limit) *table {
	t := &table{indent: 2, columns: []column{
		{head: "JOB"}, {head: "SLOTS", right: true}, {head: "ASKED", right: true}, {head: "SHARE", right: true},
		{head: "REGIONS", right: true}, {head: "MOST", right: true}, {head: "SPENT", right: true}, {head: "LOST", right: true},
	}}
	var all int64
	for _, s := range l.Shares {
		all += int64(s.Demand)
	}
	for _, s := range l.Shares {
		j := jobIn(p, s.Job)
		most, lost := cell{text: strconv.Itoa(s.MostRegions)}, cell{text: quota.Thousands(j.Skipped)}
		if s.MostRegions < len(j.Regions) {
			most.style = yellow
		}
		if j.Skipped > 0 {
			lost.style = red
		}
		t.add(cell{text: s.Job}, cell{text: quota.Thousands(s.Slots)}, cell{text: quota.Thousands(s.Demand)},
			cell{text: percent(int64(s.Demand), all)}, cell{text: quota.Thousands(len(j.Regions))}, most,
			cell{text: quota.Thousands(j.Spent[l.Limit])}, lost)
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

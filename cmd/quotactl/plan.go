package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs/plan"
)

const planUsage = `
Add up what the schedule asks of each limit in its window, job by job, and
compare that with what jobs may spend.

The sum takes what each pass expects. For a job without expects it takes the
mean of its last ten runs (measured). A job asks for no more than its own share
and its paces grant. Calls outside the schedule are not in it.`

func newPlan(c *cli) *cobra.Command {
	return command("plan", "does the schedule fit the limits", planUsage, 0, 0, func(ctx context.Context, _ []string) error {
		p, err := c.client().Plan(ctx)
		return show(c, p, err, planPage)
	})
}

// planPage writes a plan, limit by limit.
func planPage(p plan.Plan, v wording.View) string {
	var b strings.Builder
	for _, f := range p.Limits {
		style := wording.Red
		switch {
		case f.Demand == 0:
			style = wording.Faint
		case f.Over() == 0:
			style = wording.Green
		}
		v.Prose(&b, 0, wording.Bold, fmt.Sprintf("credential %s, limit %s", f.Credential, f.Limit))
		v.Prose(&b, 2, style, "the schedule "+f.String())
		shares := table{indent: 2, columns: []column{{head: "JOB"}, {head: "RUNS", right: true}, {head: "ASKED", right: true}, {head: "SHARE", right: true}}}
		for _, s := range f.Shares {
			shares.add(s.Job, s.Slots, s.Demand, percent(int64(s.Demand), int64(f.Demand)))
		}
		if f.Demand > 0 {
			b.WriteString(shares.text(v))
		}
		b.WriteByte('\n')
	}
	if len(p.Unknown) > 0 {
		v.Prose(&b, 0, wording.Plain, "not counted: "+strings.Join(p.Unknown, ", ")+"; expects is not set, and no pass has ended ok yet")
	}
	if len(p.Measured) > 0 {
		v.Prose(&b, 0, wording.Plain, "measured, because expects is not set: "+strings.Join(p.Measured, ", "))
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// percent writes a part of a whole in whole hundredths. Only nothing is 0%, and only all of it is 100%.
func percent(part, whole int64) string {
	hundredths := 100 * float64(part) / float64(max(1, whole))
	if 0 < hundredths && hundredths < 1 {
		return "<1%"
	}
	if part < whole {
		hundredths = min(hundredths, 99)
	}
	return fmt.Sprintf("%.0f%%", hundredths)
}

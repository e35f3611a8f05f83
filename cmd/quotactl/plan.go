package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/jobs/plan"
)

const planUsage = `Add up what the schedule asks of each limit in its window, job by job, and
compare that with what jobs may spend.

The sum takes what each pass expects. For a job without expects it takes the
mean of its last ten runs (measured). A job asks for no more than its own share
and its paces grant. Calls outside the schedule are not in it.

With -o value the answer is how many units are missing in the limit that fits
least, 0 if everything fits.

Example:
  $ quotactl plan -o value
  0
`

func newPlan(c *cli) *cobra.Command {
	return command("plan [FLAGS]", "does the schedule fit the limits", planUsage, func(ctx context.Context, _ []string) error {
		p, err := c.client().Plan(ctx)
		return show(c, p, err, missing, planPage)
	})
}

// missing is how many units the limit lacks that fits least.
func missing(p plan.Plan) (units int64, err error) {
	for _, f := range p.Limits {
		units = max(units, int64(f.Over()))
	}
	return units, nil
}

// planPage writes a plan, limit by limit.
func planPage(p plan.Plan, v term.View) string {
	var b strings.Builder
	for i, f := range p.Limits {
		if i > 0 {
			b.WriteByte('\n')
		}
		v.Prose(&b, 0, term.Bold, fmt.Sprintf("credential %s, limit %s", f.Credential, f.Limit))
		v.Prose(&b, 2, wording.FitStyle(f), "the schedule "+f.String())
		if f.Demand > 0 {
			b.WriteString(sharesOf(f).Text(v))
		}
	}
	b.WriteByte('\n')
	for _, note := range []struct {
		jobs []string
		why  string
	}{
		{p.Unknown, "not counted: %s; expects is not set, and no pass has ended ok yet"},
		{p.Measured, "measured, because expects is not set: %s"},
	} {
		if len(note.jobs) > 0 {
			v.Prose(&b, 0, term.Plain, fmt.Sprintf(note.why, strings.Join(note.jobs, ", ")))
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// sharesOf is the table of who asks for what of a limit.
func sharesOf(f plan.Fit) *term.Table {
	t := &term.Table{Indent: 2, Columns: []term.Column{{Head: "JOB"}, {Head: "RUNS", Right: true}, {Head: "ASKED", Right: true}, {Head: "SHARE", Right: true}}}
	for _, s := range f.Shares {
		t.Add(s.Job, s.Slots, s.Demand, wording.Percent(int64(s.Demand), int64(f.Demand)))
	}
	return t
}

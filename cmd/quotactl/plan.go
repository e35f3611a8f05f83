package main

import (
	"context"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
)

const planUsage = `Play the schedule against the limits, from what they hold now: what is spent in
each hour, where it would run dry, how many regions fit, and what would do.

Usage:
  quotactl plan [FLAGS]

Flags:
      --days N   so many days ahead, up to 31 (default 7)

With -o value the answer is how many turns of a region are lost for want of
budget: 0 if there is enough for all of them.

A pass is taken to spend what its job expects, at its start. Asked is the most
in one window; most, how many regions would fit, if all else stays. In the plot,
x is an hour in which turns are lost.

A schedule fits if there is enough even when passes are late. Then a pass counts
in every window from its start until it is over: after its timeout and
kill_grace, or, where the stagger is shorter than these, when all regions of the
run have taken theirs; and always before the next slot. Hourly runs without much
time between their regions are 24 in a day on time, and 25 when passes are late.

Example:
  $ quotactl plan -o value --days 1
  0
`

func newPlan(c *cli) *cobra.Command {
	var in jobsapi.PlanRequest
	cmd := &cobra.Command{
		Use:   "plan",
		Short: "will the schedule fit, hour by hour, and what would do",
		Long:  planUsage,
		Args:  arguments(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.plan(cmd.Context(), in) },
	}
	cmd.Flags().IntVar(&in.Days, "days", 7, "so many days ahead")
	return cmd
}

func (c *cli) plan(ctx context.Context, in jobsapi.PlanRequest) error {
	if in.Days < 1 || in.Days > jobsapi.MostDays {
		return usageError("", "--days must be from 1 to %d: %d", jobsapi.MostDays, in.Days)
	}
	p, err := c.operator().Plan(ctx, in)
	if err != nil {
		return c.explain(err)
	}
	return c.print(answer{
		body:  p,
		value: func() (int64, error) { return int64(p.Skipped), nil },
		table: func(v term.View) string { return planPage(p, v) },
	})
}

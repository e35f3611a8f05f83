package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
)

const nextUsage = `Show the next runs of the schedule, the soonest first. It assumes that no run
ends early for want of budget.

Usage:
  quotactl next [FLAGS]

Flags:
      --job NAME   only of this job
  -n, --number N   how many (default 20)

With -o value the answer is the seconds until the next run.

Example:
  $ quotactl next -n 1
  JOB       SLOT                   PASSES  FIRST  LAST STARTS
  trending  in 3m 7s, at 09:30:00       8  US     09:30:21
`

func newNext(c *cli) *cobra.Command {
	only := jobsapi.Selection{}
	cmd := &cobra.Command{
		Use:   "next",
		Short: "the next runs of the schedule",
		Long:  nextUsage,
		Args:  arguments(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.next(cmd.Context(), only) },
	}
	cmd.Flags().StringVar(&only.Job, "job", "", "only of this job")
	cmd.Flags().IntVarP(&only.Most, "number", "n", 20, "how many")
	completes(cmd, "job", c.jobNames)
	return cmd
}

func (c *cli) next(ctx context.Context, only jobsapi.Selection) error {
	if only.Most < 1 || only.Most > mostRuns {
		return usageError("", "--number must be from 1 to %d: %d", mostRuns, only.Most)
	}
	list, err := c.operator().Schedule(ctx, only)
	if err != nil {
		return c.explain(err)
	}
	return c.print(answer{
		body:  list,
		value: func() (int64, error) { return secondsUntil(list, c.view()) },
		table: func(v term.View) string { return nextTable(list, v) },
	})
}

// secondsUntil is how long it is until the next run that is not paused.
func secondsUntil(list []jobs.Upcoming, v term.View) (int64, error) {
	for _, u := range list {
		if !u.Paused {
			return max(0, int64(u.Slot.Sub(v.Now).Seconds())), nil
		}
	}
	return 0, fmt.Errorf("no run is scheduled")
}

func nextTable(list []jobs.Upcoming, v term.View) string {
	if len(list) == 0 {
		return "no run is scheduled\n"
	}
	t := term.Table{Columns: []term.Column{
		{Head: "JOB"}, {Head: "SLOT"}, {Head: "PASSES", Right: true}, {Head: "FIRST"}, {Head: "LAST STARTS" + v.ZoneMark()}, {},
	}}
	for _, u := range list {
		row := []term.Cell{{Text: u.Job}, {Text: v.When(u.Slot)}, {Text: quota.Thousands(len(u.Passes))}, {}, {}, {}}
		if n := len(u.Passes); n > 0 {
			row[3].Text, row[4].Text = string(u.Passes[0].Region), v.Clock(u.Passes[n-1].StartsAt)
		}
		if u.Paused {
			row[5] = term.Cell{Text: "paused", Style: term.Yellow}
		}
		t.Add(row...)
	}
	var b strings.Builder
	t.Render(&b, v)
	return b.String()
}

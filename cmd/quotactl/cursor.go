package main

import (
	"context"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
)

const cursorUsage = `Show the region at which a job's next run begins, or set it. The run still goes
through all regions: it begins at the cursor and wraps around.

Usage:
  quotactl cursor JOB [REGION]

Example:
  $ quotactl cursor trending FR
  FR
`

func newCursor(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "cursor JOB [REGION]",
		Short:             "show or set where a job's next run begins",
		Long:              cursorUsage,
		Args:              arguments("JOB", "[REGION]"),
		ValidArgsFunction: c.completeJobAndRegion,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.cursor(cmd.Context(), args[0], args[1:])
		},
	}
}

func (c *cli) cursor(ctx context.Context, name string, region []string) error {
	var job jobsapi.Job
	var err error
	if len(region) == 0 {
		job, err = c.operator().Job(ctx, name)
	} else {
		job, err = c.operator().SetCursor(ctx, name, jobsapi.CursorRequest{Region: region[0]})
	}
	if err != nil {
		return c.explain(err)
	}
	return c.print(answer{
		body:  job,
		value: noInteger("a region"),
		table: func(term.View) string { return string(job.Cursor) + "\n" },
	})
}

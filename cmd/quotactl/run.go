package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
)

const runUsage = `Begin a run of a job now: of the ring from the cursor on, or of some regions,
which leaves the cursor alone. The passes go through the same gate as any, one
after the other without a stagger; a paused job is run too.

Usage:
  quotactl run JOB [FLAGS]

Flags:
      --region REGION   only this one; may be given again

Example:
  $ quotactl run trending --region US --region GB
  run      06f3k9x2a7q4mzt
  regions  US GB
`

func newRun(c *cli) *cobra.Command {
	var r jobsapi.RunRequest
	cmd := &cobra.Command{
		Use:               "run JOB",
		Short:             "begin a run now",
		Long:              runUsage,
		Args:              arguments("JOB"),
		ValidArgsFunction: c.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := c.operator().Begin(cmd.Context(), args[0], r)
			if err != nil {
				return inDoubt(c.explain(err), "a run may have begun all the same: quotactl runs shows it")
			}
			return c.print(answer{
				body:  run,
				value: noInteger("a run"),
				table: func(v term.View) string { return begunTable(run, v) },
			})
		},
	}
	cmd.Flags().StringArrayVar(&r.Regions, "region", nil, "only this one; may be given again")
	complete(cmd, "region", c.completeRegion)
	return cmd
}

func begunTable(r jobs.Run, v term.View) string {
	return term.Pairs([][2]string{{"run", r.ID}, {"regions", listText(r.Ring)}}, v)
}

const stopUsage = `End a run: no further pass is launched, those under way get TERM, and KILL after
the job's grace. Their regions keep their turn.

Usage:
  quotactl stop RUN

Example:
  $ quotactl stop 06f3k9x2a7q4mzt
`

func newStop(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "stop RUN",
		Short:             "end a run and its passes",
		Long:              stopUsage,
		Args:              arguments("RUN"),
		ValidArgsFunction: c.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := c.operator().StopRun(cmd.Context(), args[0])
			if err != nil {
				return c.explain(err)
			}
			return c.print(answer{
				body:  run,
				value: noInteger("a run"),
				table: func(term.View) string { return fmt.Sprintf("ending %s of job %s\n", run.ID, run.Job) },
			})
		},
	}
}

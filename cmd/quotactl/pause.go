package main

import (
	"time"

	"github.com/spf13/cobra"

	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
)

const pauseUsage = `Stop scheduling a job until you resume it. A restart of quotad does not end the
pause. A run under way continues.

Usage:
  quotactl pause JOB [FLAGS]

Flags:
      --for DURATION   90m, 24h, 7d; default: until quotactl resume
      --reason TEXT    why: quotactl shows it beside the job

Example:
  $ quotactl pause trending --for 2h --reason 'the upstream is being moved'
`

func newPause(c *cli) *cobra.Command {
	var r jobsapi.PauseRequest
	var length string
	cmd := &cobra.Command{
		Use:               "pause JOB",
		Short:             "stop scheduling a job",
		Long:              pauseUsage,
		Args:              arguments("JOB"),
		ValidArgsFunction: c.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			if cmd.Flags().Changed("for") {
				d, err := api.ParseSpan(length)
				if err != nil || d < time.Millisecond {
					return usageError("", "--for must be a length of time, like 90m, 24h or 7d: %q", length)
				}
				r.ForMs = d.Milliseconds()
			}
			job, err := c.operator().Pause(cmd.Context(), args[0], r)
			if err != nil {
				return c.explain(err)
			}
			return c.printJob(job)
		},
	}
	cmd.Flags().StringVar(&length, "for", "", "so long")
	cmd.Flags().StringVar(&r.Note, "reason", "", "why")
	return cmd
}

const resumeUsage = `End a job's pause. Its next run is the next one of the schedule.

Usage:
  quotactl resume JOB

Example:
  $ quotactl resume trending
`

func newResume(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "resume JOB",
		Short:             "end a job's pause",
		Long:              resumeUsage,
		Args:              arguments("JOB"),
		ValidArgsFunction: c.completeJob,
		RunE: func(cmd *cobra.Command, args []string) error {
			job, err := c.operator().Resume(cmd.Context(), args[0])
			if err != nil {
				return c.explain(err)
			}
			return c.printJob(job)
		},
	}
}

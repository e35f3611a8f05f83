package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
	"quotad/regions"
)

const jobsUsage = `
List the jobs; or show one: its pause, its next and its last run, where it
begins, and the regions.`

func newJobs(c *cli) *cobra.Command {
	return command("jobs [JOB]", "the jobs: schedule, cursor, next and last run", jobsUsage, 0, 1, func(ctx context.Context, args []string) error {
		if len(args) == 1 {
			job, err := c.client().Job(ctx, args[0])
			return show(c, job, err, jobPage)
		}
		list, err := c.client().Jobs(ctx)
		return show(c, list, err, jobTable)
	})
}

func jobTable(list []jobsapi.Job, v wording.View) string {
	if len(list) == 0 {
		return "no job is configured\n"
	}
	t := table{columns: []column{
		{head: "JOB"}, {head: "CREDENTIAL"}, {head: "SCHEDULE"}, {head: "REGIONS", right: true}, {head: "CURSOR"},
		{head: "NEXT", whole: true}, {head: "LAST"},
	}}
	for _, j := range list {
		t.add(j.Name, j.Credential, j.Schedule, len(j.Regions), string(j.Cursor), wording.Next(j, v), wording.LastRun(j.Last, v))
	}
	return t.text(v)
}

// jobPage writes what comes next for a job, what its last run did, and how it is configured.
func jobPage(j jobsapi.Job, v wording.View) string {
	var b strings.Builder
	v.Prose(&b, 0, wording.Bold, "job "+j.Name)
	lines := wording.JobLines(j, v)
	v.Prose(&b, 2, wording.Plain, fmt.Sprintf("%s; %s; cursor at %s", j.Schedule, lines[0].Text, j.Cursor))
	for _, line := range lines[1:] {
		v.Prose(&b, 2, line.Style, line.Text)
	}
	if j.Last != nil {
		b.WriteString(passTable(wording.NotOK(*j.Last), v))
	}
	if !slices.Contains(j.Regions, regions.None) {
		v.Prose(&b, 2, wording.Plain, "regions "+wording.Regions(j.Regions))
	}
	return b.String()
}

const pauseUsage = `
Stop scheduling a job until a time, or until --end. A restart of quotad does not
end the pause. A run under way continues.

Example:
  $ quotactl pause trending --for 2h --reason 'the upstream is being moved'`

func newPause(c *cli) *cobra.Command {
	var r jobsapi.PauseRequest
	var span time.Duration
	end := false
	cmd := command("pause JOB [--for DURATION] [--reason TEXT] [--end]", "stop scheduling a job; --end resumes it", pauseUsage, 1, 1, func(ctx context.Context, args []string) error {
		switch {
		case end && (span > 0 || r.Note != ""):
			return usageError("", "--for and --reason begin a pause, and --end ends it")
		case end:
			job, err := c.client().Resume(ctx, args[0])
			return show(c, job, err, jobPage)
		}
		r.ForMs = span.Milliseconds()
		job, err := c.client().Pause(ctx, args[0], r)
		return show(c, job, err, jobPage)
	})
	cmd.Flags().Func("for", "a `DURATION`: 90m, 24h, 7d (default: until --end)", func(text string) (err error) {
		if span, err = api.ParseSpan(text); err != nil || span < time.Millisecond {
			return errors.New("it must be a length of time, like 90m, 6h or 7d")
		}
		return nil
	})
	cmd.Flags().StringVar(&r.Note, "reason", "", "why: `TEXT` that quotactl shows beside the job")
	cmd.Flags().BoolVar(&end, "end", false, "end the pause: the next run is the next one of the schedule")
	return cmd
}

package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/regions"
)

const jobsUsage = `List the jobs; or show one: its pause, its last run and its next ones, where
they begin, and the regions. The next runs are those of the schedule, if no run
ends early for want of budget.

Example:
  $ quotactl jobs
  JOB       CREDENTIAL  SCHEDULE   REGIONS  CURSOR  NEXT      LAST
  trending  youtube     every 30m        8  US      09:30:00  done 26m ago
`

func newJobs(c *cli) *cobra.Command {
	return command("jobs [JOB]", "the jobs: schedule, cursor, next and last run", jobsUsage, func(ctx context.Context, args []string) error {
		client := c.client()
		if len(args) == 1 {
			body, err := jobBody{}, error(nil)
			if body.Job, err = client.Job(ctx, args[0]); err == nil {
				body.NextRuns, err = client.Schedule(ctx, jobsapi.Selection{Job: args[0], Most: nextRuns})
			}
			return show(c, body, err, nil, func(body jobBody, v term.View) string {
				return jobPage(body.Job, v) + upcomingTable(body.NextRuns, v)
			})
		}
		list, err := client.Jobs(ctx)
		return show(c, list, err, nil, jobTable)
	})
}

// nextRuns is how many of a job's next runs are shown.
const nextRuns = 5

// A jobBody is the API's answer, and the job's next runs.
type jobBody struct {
	jobsapi.Job
	NextRuns []jobs.Upcoming `json:"next_runs"`
}

func upcomingTable(list []jobs.Upcoming, v term.View) string {
	if len(list) == 0 {
		return ""
	}
	t := term.Table{Indent: 2, Columns: []term.Column{
		{Head: "NEXT RUNS"}, {Head: "PASSES", Right: true}, {Head: "FIRST"}, {Head: "LAST STARTS" + v.ZoneMark()}, {},
	}}
	for _, u := range list {
		first, lastStarts, paused := "", "", term.Cell{}
		if n := len(u.Passes); n > 0 {
			first, lastStarts = string(u.Passes[0].Region), v.Clock(u.Passes[n-1].StartsAt)
		}
		if u.Paused {
			paused = term.Styled(term.Yellow, "paused")
		}
		t.Add(v.When(u.Slot), len(u.Passes), first, lastStarts, paused)
	}
	return t.Text(v)
}

func jobTable(list []jobsapi.Job, v term.View) string {
	if len(list) == 0 {
		return "no job is configured\n"
	}
	t := term.Table{Columns: []term.Column{
		{Head: "JOB"}, {Head: "CREDENTIAL"}, {Head: "SCHEDULE"}, {Head: "REGIONS", Right: true}, {Head: "CURSOR"},
		{Head: "NEXT" + v.ZoneMark()}, {Head: "LAST"},
	}}
	for _, j := range list {
		t.Add(j.Name, j.Credential, j.Schedule, len(j.Regions), string(j.Cursor), nextCell(j, v), wording.LastRun(j.Last, v))
	}
	return t.Text(v)
}

// nextCell says when a job's next run begins.
func nextCell(j jobsapi.Job, v term.View) term.Cell {
	switch {
	case j.Pause != nil:
		return term.Styled(term.Yellow, "paused")
	case j.Next.IsZero():
		return term.Cell{Text: "none"}
	}
	return term.Cell{Text: v.Clock(j.Next)}
}

// jobPage writes what the status shows of a job, and how it is configured.
func jobPage(j jobsapi.Job, v term.View) string {
	var b strings.Builder
	renderJob(&b, j, v)
	if j.Regions[0] != regions.None {
		v.Prose(&b, 2, term.Plain, "regions "+wording.Regions(j.Regions))
	}
	expects := "has no expects"
	if len(j.Expects) > 0 {
		expects = "expects " + callsText(j.Expects)
	}
	if j.UseReserve {
		expects += " and may use the reserve"
	}
	v.Prose(&b, 2, term.Plain, fmt.Sprintf("credential %s; a pass %s", j.Credential, expects))
	return b.String()
}

// callsText writes "4 videos.list, 1 search.list", by name.
func callsText(calls map[string]quota.Units) string {
	var parts []string
	for _, operation := range slices.Sorted(maps.Keys(calls)) {
		parts = append(parts, quota.Thousands(calls[operation])+" "+operation)
	}
	return strings.Join(parts, ", ")
}

// renderJob writes what comes next for a job, and what its last run did.
func renderJob(b *strings.Builder, j jobsapi.Job, v term.View) {
	v.Prose(b, 0, term.Bold, "job "+j.Name)
	lines := wording.JobLines(j, v)
	v.Prose(b, 2, term.Plain, fmt.Sprintf("%s; %s; cursor at %s", j.Schedule, lines[0].Text, j.Cursor))
	renderLines(b, lines[1:], v)
	if j.Last != nil {
		renderPasses(b, wording.NotOK(*j.Last), v)
	}
}

func renderLines(b *strings.Builder, lines []term.Cell, v term.View) {
	for _, line := range lines {
		v.Prose(b, 2, line.Style, line.Text)
	}
}

const pauseUsage = `Stop scheduling a job until you resume it. A restart of quotad does not end the
pause. A run under way continues.

Example:
  $ quotactl pause trending --for 2h --reason 'the upstream is being moved'
`

func newPause(c *cli) *cobra.Command {
	var r jobsapi.PauseRequest
	var span time.Duration
	cmd := c.change("pause JOB [FLAGS]", "stop scheduling a job", pauseUsage, func(ctx context.Context, args []string) error {
		r.ForMs = span.Milliseconds()
		job, err := c.client().Pause(ctx, args[0], r)
		return show(c, job, err, nil, jobPage)
	})
	spanFlag(cmd, &span, "for", "a `DURATION`: 90m, 24h, 7d (default: until quotactl resume)")
	cmd.Flags().StringVar(&r.Note, "reason", "", "why: `TEXT` that quotactl shows beside the job")
	return cmd
}

const resumeUsage = `End a job's pause. Its next run is the next one of the schedule.

Example:
  $ quotactl resume trending
`

func newResume(c *cli) *cobra.Command {
	return c.change("resume JOB", "end a job's pause", resumeUsage, func(ctx context.Context, args []string) error {
		job, err := c.client().Resume(ctx, args[0])
		return show(c, job, err, nil, jobPage)
	})
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

const runsUsage = `List the latest runs and skipped slots, the latest first, or show one run.

Usage:
  quotactl runs [FLAGS]
  quotactl runs show RUN

Flags:
      --job NAME         only of this job
      --region REGION    only runs with a pass of this region
      --outcome OUTCOME  only runs with such a pass: ok, exhausted, failed,
                         timeout, killed, interrupted, skipped, running
      --since TIME       only runs since then: 90m, 24h, 7d, or an instant like
                         2026-03-14T09:00:00Z
  -n, --number N         at most N (default 20)

With -o value the answer is the number of runs.

Example:
  $ quotactl runs --job trending --outcome failed --since 24h
  RUN              JOB       STATE   BEGAN      TOOK  PASSES  UNITS
  06f3k9x2a7q4mzt  trending  failed  09:00:00  24.9s  7/8 ok     29
`

// A runFilter selects runs. Zero fields select everything.
type runFilter struct {
	job     string
	region  string
	outcome string
	since   string
	number  int
}

func newRuns(c *cli) *cobra.Command {
	var f runFilter
	cmd := &cobra.Command{
		Use:   "runs",
		Short: "the latest runs and skipped slots; runs show RUN: one of them",
		Long:  runsUsage,
		Args:  arguments(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.listRuns(cmd.Context(), f) },
	}
	cmd.Flags().StringVar(&f.job, "job", "", "only of this job")
	cmd.Flags().StringVar(&f.region, "region", "", "only runs with a pass of this region")
	cmd.Flags().StringVar(&f.outcome, "outcome", "", "only runs with such a pass")
	cmd.Flags().StringVar(&f.since, "since", "", "only what began since")
	cmd.Flags().IntVarP(&f.number, "number", "n", 20, "at most N")
	completes(cmd, "job", c.jobNames)
	completes(cmd, "region", c.regionNames)
	completes(cmd, "outcome", func(context.Context) ([]string, error) { return outcomeNames(), nil })
	cmd.AddCommand(newRunsShow(c))
	return cmd
}

// mostRuns is how many runs the daemon tells at most.
const mostRuns = 1000

func (c *cli) listRuns(ctx context.Context, f runFilter) error {
	if err := f.check(); err != nil {
		return err
	}
	since, err := instantOf(f.since, time.Now())
	if err != nil {
		return err
	}
	runs, err := c.operator().Runs(ctx, jobsapi.Selection{Job: f.job, Most: f.fetch()})
	if err != nil {
		return c.explain(err)
	}
	runs = f.apply(runs, since)
	return c.print(answer{
		body:  runs,
		value: func() (int64, error) { return int64(len(runs)), nil },
		table: func(v term.View) string { return runTable(runs, v) },
	})
}

func (f runFilter) check() error {
	known := outcomeNames()
	switch {
	case f.number < 1 || f.number > mostRuns:
		return usageError("", "--number must be from 1 to %d: %d", mostRuns, f.number)
	case f.outcome != "" && !slices.Contains(known, f.outcome):
		return usageError(quota.DidYouMean(f.outcome, known, "outcomes"), "unknown outcome %q", f.outcome)
	}
	return nil
}

// instantOf reads a flag since, as of now; the zero time if it is empty.
func instantOf(since string, now time.Time) (time.Time, error) {
	if since == "" {
		return time.Time{}, nil
	}
	if at, err := time.Parse(time.RFC3339, since); err == nil {
		return at, nil
	}
	ago, err := api.ParseSpan(since)
	if err != nil || ago <= 0 {
		return time.Time{}, usageError("", "--since must be an instant like 2026-03-14T09:00:00Z, or how long ago it was, like 90m, 24h or 7d: %q", since)
	}
	return now.Add(-ago), nil
}

// fetch is how many runs to ask for: all, where some will be left out.
func (f runFilter) fetch() int {
	if f.region == "" && f.outcome == "" && f.since == "" {
		return f.number
	}
	return mostRuns
}

func (f runFilter) apply(runs []jobs.Run, since time.Time) []jobs.Run {
	runs = slices.DeleteFunc(runs, func(r jobs.Run) bool { return r.StartedAt.Before(since) || !f.hasPass(r) })
	return runs[:min(f.number, len(runs))]
}

// hasPass tells whether a run has a pass of the region and outcome. A skipped
// tick has no passes; its outcome is that it was skipped.
func (f runFilter) hasPass(r jobs.Run) bool {
	if f.region == "" && (f.outcome == "" || r.State == jobs.RunSkipped && f.outcome == string(jobs.Skipped)) {
		return true
	}
	return slices.ContainsFunc(r.Passes, func(p jobs.Pass) bool {
		return (f.region == "" || f.region == string(p.Region)) && (f.outcome == "" || f.outcome == string(p.Outcome))
	})
}

func runTable(runs []jobs.Run, v term.View) string {
	if len(runs) == 0 {
		return "no runs\n"
	}
	t := term.Table{Columns: []term.Column{
		{Head: "RUN", Whole: true}, {Head: "JOB"}, {Head: "STATE"}, {Head: "BEGAN" + v.ZoneMark(), Whole: true},
		{Head: "TOOK", Right: true}, {Head: "PASSES", Right: true}, {Head: "UNITS", Right: true}, {Head: "HOST"}, {Head: "REASON", Sinks: true},
	}}
	for _, r := range runs {
		lasted, passes, spent := sums(r, v.Now)
		t.Add(term.Cell{Text: r.ID}, term.Cell{Text: r.Job}, term.Cell{Text: string(r.State), Style: runStyle(r)}, term.Cell{Text: v.Clock(r.StartedAt)},
			term.Cell{Text: lasted}, term.Cell{Text: passes}, term.Cell{Text: spent}, term.Cell{Text: v.Clean(r.Host)}, term.Cell{Text: runReason(r, v)})
	}
	var b strings.Builder
	t.Render(&b, v)
	return b.String()
}

// sums tells how long a run took, how much of it went well ("5/8 ok"), and what it spent. A
// skipped tick has none of that.
func sums(r jobs.Run, now time.Time) (lasted, passes, spent string) {
	if r.State == jobs.RunSkipped {
		return "", "", ""
	}
	end := r.EndedAt
	if end.IsZero() {
		end = now
	}
	var sum quota.Units
	served := 0
	for _, p := range r.Passes {
		sum += p.Units
		if p.Outcome == jobs.OK {
			served++
		}
	}
	return term.Took(max(0, end.Sub(r.StartedAt))), fmt.Sprintf("%d/%d ok", served, len(r.Ring)), quota.Thousands(sum)
}

func runReason(r jobs.Run, v term.View) string {
	var parts []string
	if r.Reason != "" {
		parts = append(parts, string(r.Reason))
	}
	if r.Ticks > 1 {
		parts = append(parts, quota.Count(r.Ticks, "tick", "ticks"))
	}
	if r.Trigger == jobs.Manual {
		parts = append(parts, "by "+v.Caller(r.By))
	}
	if r.Detail != "" {
		parts = append(parts, v.Clean(r.Detail))
	}
	return strings.Join(parts, "; ")
}

// runStyle is that of a run wherever it is shown. One that goes on is red as soon as a
// region has failed.
func runStyle(r jobs.Run) term.Style {
	switch {
	case r.State == jobs.RunFailed || len(r.Failed()) > 0:
		return term.Red
	case r.State == jobs.RunDone:
		return term.Green
	case r.State == jobs.RunRunning:
		return term.Plain
	default:
		return term.Yellow
	}
}

func outcomeStyle(o jobs.Outcome) term.Style {
	switch {
	case o == jobs.OK:
		return term.Green
	case o.Failure():
		return term.Red
	case o == jobs.Running:
		return term.Plain
	default:
		return term.Yellow
	}
}

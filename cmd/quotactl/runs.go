package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

const runsUsage = `List the latest runs and skipped slots, the latest first, or show one run.

With -o value the answer is the number of runs.

Example:
  $ quotactl runs --job trending --outcome failed --since 24h
  RUN              JOB       STATE   BEGAN      TOOK  PASSES  UNITS  HOST
  1m87m0kv5wg6sag  trending  failed  09:00:00  24.9s  7/8 ok     29  fetch-1
`

// A runFilter selects runs. Zero fields select everything.
type runFilter struct {
	job     string
	region  string
	outcome string
	since   api.Since
	number  int
}

func newRuns(c *cli) *cobra.Command {
	var f runFilter
	cmd := &cobra.Command{
		Use:   "runs [FLAGS]\nruns show RUN",
		Short: "the latest runs and skipped slots; runs show RUN: one of them",
		Long:  runsUsage,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(); err != nil {
				return err
			}
			runs, err := c.client().Runs(cmd.Context(), jobsapi.Selection{Job: f.job, Most: f.fetch()})
			return show(c, f.apply(runs, f.since.At(time.Now())), err, length, runTable)
		},
	}
	cmd.Flags().StringVar(&f.job, "job", "", "only runs of the job `NAME`")
	cmd.Flags().StringVar(&f.region, "region", "", "only runs with a pass of `REGION`")
	cmd.Flags().StringVar(&f.outcome, "outcome", "", "only runs with a pass of this `OUTCOME`: "+strings.Join(outcomeNames(), ", "))
	sinceFlag(cmd, &f.since, "only runs since `TIME`: 90m, 24h, 7d, or an instant like 2026-03-14T09:00:00Z")
	cmd.Flags().IntVarP(&f.number, "number", "n", 20, "at most `N` runs")
	completes(cmd, "outcome", words(outcomeNames()))
	cmd.AddCommand(newRunsShow(c))
	return cmd
}

func outcomeNames() []string {
	return append(namesOf(wording.Outcomes(), func(o jobs.Outcome) string { return string(o) }), string(jobs.RunSkipped))
}

// maxRuns is how many runs the daemon returns at most.
const maxRuns = 1000

// checkNumber refuses a number of runs that the daemon does not return.
func checkNumber(number int) error {
	if number < 1 || number > maxRuns {
		return usageError("", "--number must be from 1 to %d: %d", maxRuns, number)
	}
	return nil
}

func (f runFilter) check() error {
	if known := outcomeNames(); f.outcome != "" && !slices.Contains(known, f.outcome) {
		return usageError(quota.DidYouMean(f.outcome, known, "outcomes"), "unknown outcome %q", f.outcome)
	}
	return checkNumber(f.number)
}

// fetch is how many runs to ask for: all, where some will be left out.
func (f runFilter) fetch() int {
	if f.region == "" && f.outcome == "" && f.since == "" {
		return f.number
	}
	return maxRuns
}

func (f runFilter) apply(runs []jobs.Run, since time.Time) []jobs.Run {
	runs = slices.DeleteFunc(runs, func(r jobs.Run) bool { return r.StartedAt.Before(since) || !f.hasPass(r) })
	return runs[:min(f.number, len(runs))]
}

// hasPass reports whether a run has a pass of the region and outcome. A skipped slot has
// no passes; its outcome is that it was skipped.
func (f runFilter) hasPass(r jobs.Run) bool {
	if f.region == "" && (f.outcome == "" || r.State == jobs.RunSkipped && f.outcome == string(jobs.RunSkipped)) {
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
		took, ok, spent := wording.RunSums(r, v.Now)
		t.Add(r.ID, r.Job, term.Styled(wording.RunStyle(r), string(r.State)), v.Clock(r.StartedAt), took, ok, spent, v.Clean(r.Host), runReason(r, v))
	}
	return t.Text(v)
}

func runReason(r jobs.Run, v term.View) string {
	var parts []string
	if r.Reason != "" {
		parts = append(parts, wording.Word(r.Reason))
	}
	if r.Ticks > 1 {
		parts = append(parts, quota.Count(r.Ticks, "slot", "slots"))
	}
	if r.Trigger == jobs.Manual {
		parts = append(parts, "by "+v.Caller(r.By))
	}
	if r.Detail != "" {
		parts = append(parts, v.Clean(r.Detail))
	}
	return strings.Join(parts, "; ")
}

const runsShowUsage = `Show a run: its passes, what they spent, and the last lines of their output.

Example:
  $ quotactl runs show 1m87m0kv5wg6sag
`

func newRunsShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "show RUN",
		Short: "one run: passes, units, last output",
		Long:  runsShowUsage,
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := c.client().Run(cmd.Context(), args[0])
			return show(c, run, err, nil, runPage)
		},
	}
}

func runPage(r jobs.Run, v term.View) string {
	var b strings.Builder
	v.Prose(&b, 0, term.Bold, "job "+r.Job)
	renderLines(&b, wording.RunLines("run", r, v), v)
	renderPasses(&b, r.Passes, v)
	for _, p := range r.Passes {
		if len(p.Tail) == 0 {
			continue
		}
		title := "output of " + string(p.Region)
		if p.Attempt > 0 {
			title += fmt.Sprintf(", attempt %d", p.Attempt+1)
		}
		v.Prose(&b, 2, term.Bold, title)
		for _, line := range p.Tail {
			b.WriteString("    " + v.Clean(line) + "\n")
		}
	}
	return b.String()
}

func renderPasses(b *strings.Builder, passes []jobs.Pass, v term.View) {
	if len(passes) == 0 {
		return
	}
	t := term.Table{Indent: 4, Columns: []term.Column{
		{Head: "REGION"}, {Head: "OUTCOME"}, {Head: "UNITS", Right: true}, {Head: "TOOK", Right: true}, {Head: "REASON", Sinks: true},
	}}
	for _, p := range passes {
		outcome := term.Styled(wording.OutcomeStyle(p.Outcome), wording.Word(p.Outcome))
		t.Add(string(p.Region), outcome, p.Units, wording.PassTook(p, v.Now), wording.PassReason(p, v))
	}
	t.Render(b, v)
}

const nextUsage = `Show the next runs of the schedule, the soonest first. It assumes that no run
ends early for want of budget.

With -o value the answer is the seconds until the next run.

Example:
  $ quotactl next -n 1
  JOB       SLOT                   PASSES  FIRST  LAST STARTS
  trending  in 3m 7s, at 09:30:00       8  US     09:30:21
`

func newNext(c *cli) *cobra.Command {
	only := jobsapi.Selection{}
	cmd := &cobra.Command{
		Use:   "next [FLAGS]",
		Short: "the next runs of the schedule",
		Long:  nextUsage,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkNumber(only.Most); err != nil {
				return err
			}
			list, err := c.client().Schedule(cmd.Context(), only)
			return show(c, list, err, secondsUntilNext, nextTable)
		},
	}
	cmd.Flags().StringVar(&only.Job, "job", "", "only runs of the job `NAME`")
	cmd.Flags().IntVarP(&only.Most, "number", "n", 20, "at most `N` runs")
	return cmd
}

// secondsUntilNext is how long it is until the next run that is not paused.
func secondsUntilNext(list []jobs.Upcoming) (int64, error) {
	for _, u := range list {
		if !u.Paused {
			return max(0, int64(time.Until(u.Slot).Seconds())), nil
		}
	}
	return 0, errors.New("no run is scheduled")
}

func nextTable(list []jobs.Upcoming, v term.View) string {
	if len(list) == 0 {
		return "no run is scheduled\n"
	}
	t := term.Table{Columns: []term.Column{
		{Head: "JOB"}, {Head: "SLOT"}, {Head: "PASSES", Right: true}, {Head: "FIRST"}, {Head: "LAST STARTS" + v.ZoneMark()}, {},
	}}
	for _, u := range list {
		first, lastStarts, paused := "", "", term.Cell{}
		if n := len(u.Passes); n > 0 {
			first, lastStarts = string(u.Passes[0].Region), v.Clock(u.Passes[n-1].StartsAt)
		}
		if u.Paused {
			paused = term.Styled(term.Yellow, "paused")
		}
		t.Add(u.Job, v.When(u.Slot), len(u.Passes), first, lastStarts, paused)
	}
	return t.Text(v)
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
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

const runsUsage = `List the latest runs and skipped slots of all jobs, or of JOB, the latest first.
With RUN, show its passes, what each spent, and how it ended. With --output,
print the last lines that the passes of RUN wrote, or of the last run of JOB.

With -o value the answer is the number of runs.

Example:
  $ quotactl runs trending --outcome failed --since 24h
  RUN              JOB       STATE   BEGAN      TOOK  PASSES  UNITS  HOST
  1m87m0kv5wg6sag  trending  failed  09:00:00  24.9s  7/8 ok     29  fetch-1
`

// A runFilter selects runs. Zero fields select everything.
type runFilter struct {
	region  string
	outcome string
	since   string
	number  int
}

func newRuns(c *cli) *cobra.Command {
	var f runFilter
	output := false
	cmd := command("runs [JOB|RUN] [FLAGS]", "the latest runs and skipped slots, or one run", runsUsage, func(ctx context.Context, args []string) error {
		switch err := f.check(); {
		case err != nil:
			return err
		case len(args) == 1:
			return c.runsOf(ctx, args[0], f, output)
		case output:
			return usageError("quotactl runs JOB --output, or quotactl runs RUN --output", "the output of which run?")
		}
		return c.listRuns(ctx, jobsapi.Job{}, f)
	})
	cmd.Flags().BoolVar(&output, "output", false, "what the passes wrote, the last lines of each")
	cmd.Flags().StringVar(&f.region, "region", "", "only runs with a pass of `REGION`, or only these passes of RUN")
	cmd.Flags().StringVar(&f.outcome, "outcome", "", "only runs with a pass of this `OUTCOME`, or only these passes of RUN: "+strings.Join(outcomeNames(), ", "))
	sinceFlag(cmd, &f.since, "runs", "")
	cmd.Flags().IntVarP(&f.number, "number", "n", 20, "at most `N` runs")
	completes(cmd, "outcome", words(outcomeNames()))
	return cmd
}

// listRuns lists the runs of a job; of all jobs if it has no name.
func (c *cli) listRuns(ctx context.Context, job jobsapi.Job, f runFilter) error {
	since, err := c.since(f.since)
	if err != nil {
		return err
	}
	most := maxRuns // some will be left out
	if f == (runFilter{number: f.number}) {
		most = f.number
	}
	runs, err := c.client().Runs(ctx, jobsapi.Selection{Job: job.Name, Most: most})
	return show(c, f.apply(runs, since), err, length, func(runs []jobs.Run, v term.View) string {
		text := runTable(runs, v)
		if job.Host != "" {
			text += wording.RunsOn(job, v) + "\n"
		}
		return text
	})
}

// runsOf lists the runs of a job, or shows the run of that id; with output, what it or the job's last
// run wrote.
func (c *cli) runsOf(ctx context.Context, name string, f runFilter, output bool) error {
	job, err := c.client().Job(ctx, name)
	id := name
	switch {
	case err == nil && !output:
		return c.listRuns(ctx, job, f)
	case err == nil && job.Last == nil:
		return &failure{code: exitNotFound, err: fmt.Errorf("job %q has not run yet", name), hint: "quotactl run " + name + " begins a run"}
	case err == nil:
		id = job.Last.ID
	case !isNotFound(err):
		return err
	}
	run, notRun := c.client().Run(ctx, id)
	if isNotFound(notRun) {
		return &failure{code: exitNotFound, err: fmt.Errorf("no job and no run is called %q", name), hint: cmp.Or(api.Hint(err), "quotactl runs lists them")}
	}
	whole := run
	run.Passes = slices.DeleteFunc(slices.Clone(run.Passes), func(p jobs.Pass) bool { return !f.selects(p) })
	return show(c, run, notRun, nil, func(r jobs.Run, v term.View) string { return runPage(whole, r.Passes, output, v) })
}

// isNotFound reports whether the daemon does not know the name that it was asked for.
func isNotFound(err error) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Status == http.StatusNotFound
}

func outcomeNames() []string {
	return append(namesOf(wording.Outcomes(), func(o jobs.Outcome) string { return string(o) }), string(jobs.RunSkipped))
}

// maxRuns is how many runs the daemon returns at most.
const maxRuns = 1000

func (f runFilter) check() error {
	if known := outcomeNames(); f.outcome != "" && !slices.Contains(known, f.outcome) {
		return usageError(quota.DidYouMean(f.outcome, known, "outcomes"), "unknown outcome %q", f.outcome)
	}
	if f.number < 1 || f.number > maxRuns {
		return usageError("", "--number must be from 1 to %d: %d", maxRuns, f.number)
	}
	return nil
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
	return slices.ContainsFunc(r.Passes, f.selects)
}

func (f runFilter) selects(p jobs.Pass) bool {
	return (f.region == "" || f.region == string(p.Region)) && (f.outcome == "" || f.outcome == string(p.Outcome))
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

// runPage writes what became of a run, and of some or all of its passes, or what these wrote.
func runPage(r jobs.Run, passes []jobs.Pass, output bool, v term.View) string {
	var b strings.Builder
	v.Prose(&b, 0, term.Bold, "job "+r.Job)
	renderLines(&b, wording.RunLines("run", r, v), v)
	if output {
		renderOutput(&b, passes, v)
	} else {
		renderPasses(&b, passes, v)
	}
	return b.String()
}

// renderOutput writes the last lines of each pass. What several passes wrote alike is there once.
func renderOutput(b *strings.Builder, passes []jobs.Pass, v term.View) {
	if !slices.ContainsFunc(passes, func(p jobs.Pass) bool { return len(p.Tail) > 0 }) {
		v.Prose(b, 2, term.Faint, "no output")
	}
	for i, p := range passes {
		isAlike := func(other jobs.Pass) bool { return slices.Equal(p.Tail, other.Tail) }
		if len(p.Tail) == 0 || slices.ContainsFunc(passes[:i], isAlike) {
			continue
		}
		var names []string
		for _, other := range passes[i:] {
			if name := wording.Region(other.Region); isAlike(other) && other.Attempt > 0 {
				names = append(names, fmt.Sprintf("%s (attempt %d)", name, other.Attempt+1))
			} else if isAlike(other) {
				names = append(names, name)
			}
		}
		v.Prose(b, 2, term.Bold, "output of "+strings.Join(names, " "))
		for _, line := range p.Tail {
			b.WriteString("    " + v.Clean(line) + "\n")
		}
	}
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
	b.WriteString(t.Text(v))
}

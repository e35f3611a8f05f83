package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

const runsUsage = `
List the latest runs and skipped slots of all jobs, or of JOB, the latest first.
With RUN, show its passes, what each spent, how it ended, and each call that was
refused. With --output, print the last lines that the passes of RUN wrote, or of
the last run of JOB.

Example:
  $ quotactl runs trending --output`

func newRuns(c *cli) *cobra.Command {
	number, output := 0, false
	cmd := command("runs [JOB|RUN] [FLAGS]", "the latest runs and skipped slots, or one run", runsUsage, 0, 1, func(ctx context.Context, args []string) error {
		switch {
		case number < 1 || number > maxRuns:
			return usageError("", "--number must be from 1 to %d: %d", maxRuns, number)
		case output && len(args) == 0:
			return usageError("quotactl runs JOB --output, or quotactl runs RUN --output", "the output of which run?")
		case len(args) == 0:
			return c.listRuns(ctx, jobsapi.Job{}, number)
		}
		return c.runsOf(ctx, args[0], number, output)
	})
	cmd.Flags().BoolVar(&output, "output", false, "what the passes wrote, the last lines of each")
	cmd.Flags().IntVarP(&number, "number", "n", 20, "at most `N` runs")
	return cmd
}

// maxRuns is how many runs the daemon returns at most.
const maxRuns = 1000

// listRuns lists the runs of a job; of all jobs if it has no name.
func (c *cli) listRuns(ctx context.Context, job jobsapi.Job, number int) error {
	runs, err := c.client().Runs(ctx, jobsapi.Selection{Job: job.Name, Most: number})
	return show(c, runs, err, func(runs []jobs.Run, v wording.View) string {
		text := runTable(runs, v)
		if job.Host != "" {
			text += wording.RunsOn(job, v) + "\n"
		}
		return text
	})
}

// runsOf lists the runs of a job, or shows the run of that id; with output, what it or the job's last run wrote.
func (c *cli) runsOf(ctx context.Context, name string, number int, output bool) error {
	job, err := c.client().Job(ctx, name)
	id := name
	switch {
	case err == nil && !output:
		return c.listRuns(ctx, job, number)
	case err == nil && job.Last == nil:
		return &failure{exitNotFound, fmt.Errorf("job %q has not run yet", name), "quotactl run " + name + " begins a run"}
	case err == nil:
		id = job.Last.ID
	case !hasStatus(err, http.StatusNotFound):
		return err
	}
	run, notRun := c.client().Run(ctx, id)
	if hasStatus(notRun, http.StatusNotFound) {
		return &failure{exitNotFound, fmt.Errorf("no job and no run is called %q", name), cmp.Or(api.Hint(err), "quotactl runs lists them")}
	}
	return show(c, run, notRun, func(r jobs.Run, v wording.View) string { return runPage(r, output, v) })
}

// hasStatus reports whether the daemon answered with an error of a status.
func hasStatus(err error, status int) bool {
	var problem *api.Problem
	return errors.As(err, &problem) && problem.Status == status
}

func runTable(runs []jobs.Run, v wording.View) string {
	if len(runs) == 0 {
		return "no runs\n"
	}
	t := table{sinks: true, columns: []column{
		{head: "RUN", whole: true}, {head: "JOB"}, {head: "STATE"}, {head: "BEGAN", whole: true},
		{head: "TOOK", right: true}, {head: "PASSES", right: true}, {head: "UNITS", right: true}, {head: "HOST"}, {head: "REASON"},
	}}
	for _, r := range runs {
		took, ok, spent := wording.RunSums(r, v.Now)
		state := wording.Line{Text: string(r.State), Style: wording.RunStyle(r)}
		t.add(r.ID, r.Job, state, v.Clock(r.StartedAt), took, ok, spent, v.Clean(r.Host), runReason(r, v))
	}
	return t.text(v)
}

func runReason(r jobs.Run, v wording.View) string {
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

// runPage writes what became of a run and of its passes, or what these wrote.
func runPage(r jobs.Run, output bool, v wording.View) string {
	var b strings.Builder
	v.Prose(&b, 0, wording.Bold, "job "+r.Job)
	for _, line := range wording.RunLines("run", r, v) {
		v.Prose(&b, 2, line.Style, line.Text)
	}
	if output {
		for _, p := range r.Passes {
			for _, line := range p.Tail {
				b.WriteString("    " + outputLine(p.Region, line, v))
			}
		}
		return b.String()
	}
	b.WriteString(passTable(r.Passes, v))
	refused := table{indent: 4, columns: []column{
		{head: "REFUSED"}, {head: "OPERATION"}, {head: "LIMIT"}, {head: "NEEDED", right: true}, {head: "LEFT", right: true}, {head: "FITS"},
	}}
	for _, p := range r.Passes {
		for _, call := range p.Refusals {
			fits := "never"
			if !call.RetryAt.IsZero() {
				fits = v.Clock(wording.CeilSecond(call.RetryAt))
			}
			refused.add(string(p.Region), call.Operation, call.Limit, call.Needs, call.Left, fits)
		}
	}
	if len(refused.rows) > 0 {
		b.WriteString(refused.text(v))
	}
	return b.String()
}

func passTable(passes []jobs.Pass, v wording.View) string {
	if len(passes) == 0 {
		return ""
	}
	t := table{sinks: true, indent: 4, columns: []column{
		{head: "REGION"}, {head: "OUTCOME"}, {head: "UNITS", right: true}, {head: "TOOK", right: true}, {head: "REASON"},
	}}
	for _, p := range passes {
		outcome := wording.Line{Text: wording.Word(p.Outcome), Style: wording.OutcomeStyle(p.Outcome)}
		t.add(string(p.Region), outcome, p.Units, wording.Took(p.StartedAt, p.EndedAt, v.Now), wording.PassReason(p, v))
	}
	return t.text(v)
}

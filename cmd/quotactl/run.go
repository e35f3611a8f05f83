package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/regions"
)

const runUsage = `
Begin a run of a job now: all regions from the cursor on, or the named ones,
which leaves the cursor alone. The passes run one after the other, without a
stagger, and need units like any other. A paused job runs too.

With --wait the lines that the passes write are printed as they come, behind
their region: those of stdout to stdout, those of stderr to stderr. If a run of
the job is under way, --wait waits for that one, unless you name a --region.

Example:
  $ quotactl run backfill --region US --wait
  run      1m87m0kv5wg6sag
  regions  US
  US: 50 videos, page 1
  US  ok, 4 units, 1.2s
  run done, 1 ok, 4 units`

func newRun(c *cli) *cobra.Command {
	var r jobsapi.RunRequest
	wait := false
	cmd := command("run JOB [FLAGS]", "begin a run now", runUsage, 1, 1, func(ctx context.Context, args []string) error {
		run, err := c.client().Begin(ctx, args[0], r)
		if wait && len(r.Regions) == 0 && hasStatus(err, http.StatusConflict) {
			if job, lost := c.client().Job(ctx, args[0]); lost == nil && isRunning(job) {
				fmt.Fprintf(c.stderr, "quotactl: a run of %s is under way: waiting for its end\n", args[0])
				return c.awaitRun(ctx, *job.Last)
			}
		}
		err = c.inDoubt(err, "a run may have begun all the same: quotactl runs shows it")
		if err == nil && wait {
			return c.awaitRun(ctx, run)
		}
		return show(c, run, err, begunTable)
	})
	cmd.Flags().StringArrayVar(&r.Regions, "region", nil, "only this `REGION`; repeat it for more")
	cmd.Flags().BoolVar(&wait, "wait", false, "print what the passes write and how they end, and wait for the last one: 75 if the budget ended the run, 1 if a region failed or the run was interrupted")
	return cmd
}

func isRunning(j jobsapi.Job) bool { return j.Last != nil && j.Last.State == jobs.RunRunning }

// awaitRun prints what the passes of a run write, and each pass as it ends, until the run is over.
// With -o json it prints the whole run at its end.
func (c *cli) awaitRun(ctx context.Context, run jobs.Run) error {
	w := runWriter{cli: c}
	if c.output == "json" {
		w.written = -1
	} else if err := c.write(begunTable(run, c.view())); err != nil {
		return err
	}
	for client := c.client(); ; {
		progress, err := client.Await(ctx, run.ID, w.ended, w.written)
		if err == nil {
			err = w.write(progress)
		}
		if err != nil {
			return err
		}
		if progress.State != jobs.RunRunning {
			return c.endOf(progress.Run)
		}
	}
}

// A runWriter prints what is new of a run.
type runWriter struct {
	*cli
	ended, written int // passes and lines that are printed; written below 0: none are
}

// write prints the lines of a pass that has ended before its end, then those of the other passes.
func (w *runWriter) write(p jobs.Progress) error {
	ended := slices.DeleteFunc(slices.Clone(p.Passes), func(p jobs.Pass) bool { return p.Outcome == jobs.Running })
	news := ended[min(w.ended, len(ended)):]
	w.ended = max(w.ended, len(ended))
	if w.written < 0 {
		return nil
	}
	v, lines := w.view(), p.Output
	if left := p.Written - w.written - len(lines); left > 0 {
		fmt.Fprintf(w.stderr, "quotactl: %s left out: they were written too fast\n", quota.Count(left, "line is", "lines are"))
	}
	w.written = max(w.written, p.Written)
	for _, pass := range news {
		isOfPass := func(l jobs.OutputLine) bool { return l.Region == pass.Region }
		for _, l := range lines {
			if isOfPass(l) {
				w.line(l, v)
			}
		}
		lines = slices.DeleteFunc(lines, isOfPass)
		if err := w.cli.write(passLine(pass, v)); err != nil {
			return err
		}
	}
	for _, l := range lines {
		w.line(l, v)
	}
	return nil
}

// line prints a line to the stream to which the pass wrote it.
func (w *runWriter) line(l jobs.OutputLine, v wording.View) {
	to := w.stdout
	if l.Stream == "stderr" {
		to = w.stderr
	}
	io.WriteString(to, outputLine(l.Region, l.Text, v))
}

// outputLine writes a line that a pass wrote behind its region.
func outputLine(region regions.Region, text string, v wording.View) string {
	if region == regions.None {
		return v.Clean(text) + "\n"
	}
	return wording.Region(region) + ": " + v.Clean(text) + "\n"
}

func passLine(p jobs.Pass, v wording.View) string {
	text := fmt.Sprintf("%s, %s, %s", wording.Word(p.Outcome), units(int64(p.Units)), wording.Took(p.StartedAt, p.EndedAt, v.Now))
	if reason := wording.PassReason(p, v); reason != "" {
		text += "; " + reason
	}
	of := wording.Region(p.Region)
	if p.Region == regions.None {
		of = "pass"
	}
	return pairs(v, [2]string{of, text})
}

// endOf prints how a run ended, and returns the failure that it stands for.
func (c *cli) endOf(r jobs.Run) error {
	state := wording.RunState(r, c.view())
	err := show(c, r, nil, func(r jobs.Run, _ wording.View) string { return fmt.Sprintf("run %s, %s\n", state, wording.Tally(r)) })
	if err != nil {
		return err
	}
	switch failed := len(r.Failed()); {
	case failed > 0:
		return &failure{exitError, fmt.Errorf("%s failed", quota.Count(failed, "pass", "passes")), "quotactl runs " + r.ID + " --output"}
	case r.State == jobs.RunStopped && slices.Contains([]jobs.Reason{jobs.BudgetGone, jobs.DoesNotFit, jobs.Closed}, r.Reason):
		f := &failure{code: exitDenied, err: fmt.Errorf("the run stopped: %s", wording.Word(r.Reason))}
		if !r.RetryAt.IsZero() {
			f.hint = "it " + wording.Fits(r.RetryAt, c.view())
		}
		return f
	case r.State != jobs.RunDone:
		return &failure{code: exitError, err: fmt.Errorf("the run was not done: %s", state)}
	}
	return nil
}

func begunTable(r jobs.Run, v wording.View) string {
	list := ""
	if !slices.Contains(r.Ring, regions.None) {
		list = wording.Regions(r.Ring)
	}
	return pairs(v, [2]string{"run", r.ID}, [2]string{"regions", list})
}

const stopUsage = `
End a run: no further pass starts, and the one under way gets TERM, then KILL
after 10 seconds. The next run begins at its region. JOB means its run under
way.

Example:
  $ quotactl stop trending`

func newStop(c *cli) *cobra.Command {
	return command("stop JOB|RUN", "end a run and its passes", stopUsage, 1, 1, func(ctx context.Context, args []string) error {
		id := args[0]
		job, err := c.client().Job(ctx, id)
		switch {
		case hasStatus(err, http.StatusNotFound): // it is a run
		case err != nil:
			return err
		case !isRunning(job):
			return &failure{exitNotFound, fmt.Errorf("job %q has no run under way", id), "quotactl runs " + id}
		default:
			id = job.Last.ID
		}
		run, err := c.client().StopRun(ctx, id)
		return show(c, run, err, func(run jobs.Run, _ wording.View) string {
			return fmt.Sprintf("ending %s of job %s\n", run.ID, run.Job)
		})
	})
}

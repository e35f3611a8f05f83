package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
)

const planUsage = `Add up what the schedule asks of each limit in its worst window, job by job, and
compare that with what jobs may spend: does it fit, by how much not, and which
other interval of one job would be enough.

The sum takes what each pass expects. For a job without expects it takes what
recent passes spent (measured). "Outside jobs" is what users and remote callers
spent in the last day. Jobs that only other hosts have are not counted.

A schedule "may not fit, if passes fall together" where it fits as long as every
pass spends at its start. A late pass can count at any time until its end: its
timeout plus kill_grace, or until all regions have taken that long, but always
before the next slot. So hourly runs count 24 times in a day on time, and 25
times when passes are late.

With -o value the answer is how many units are missing in the limit that fits
least, 0 if everything fits.

Example:
  $ quotactl plan -o value --with trending=every:15m
  0
`

func newPlan(c *cli) *cobra.Command {
	var in jobsapi.PlanRequest
	cmd := command("plan [FLAGS]", "does the schedule fit the limits, and what would fit", planUsage, func(ctx context.Context, _ []string) error {
		for i, with := range in.With {
			job, when, once := strings.Cut(with, "@")
			if !once && strings.Contains(with, "=every:") {
				continue
			}
			at, ok := c.instant(when, false)
			if !ok {
				return usageError("", "--with must be JOB@TIME or JOB=every:INTERVAL, such as backfill@22:00, backfill@3h, backfill@2026-03-14T22:00:00Z or trending=every:15m: %q", with)
			}
			in.With[i] = job + "@" + at.UTC().Format(time.RFC3339)
		}
		p, err := c.client().Plan(ctx, in)
		return show(c, p, err, missing, planPage)
	})
	cmd.Flags().StringArrayVar(&in.With, "with", nil, "what if a job also ran once, as `JOB@TIME`: at 22:00, in 3h, or at an instant like 2026-03-14T22:00:00Z; or had another interval, as JOB=every:15m; repeat it for more")
	return cmd
}

// missing is how many units the limit lacks that fits least.
func missing(p plan.Plan) (units int64, err error) {
	for _, f := range p.Limits {
		units = max(units, int64(f.Missing()))
	}
	return units, nil
}

// planPage writes a plan, limit by limit.
func planPage(p plan.Plan, v term.View) string {
	var b strings.Builder
	for i, f := range p.Limits {
		if i > 0 {
			b.WriteByte('\n')
		}
		v.Prose(&b, 0, term.Bold, fmt.Sprintf("credential %s, limit %s", f.Credential, f.Limit))
		v.Prose(&b, 2, wording.FitStyle(f), "the schedule "+f.String())
		cure(&b, f, v)
		if f.Demand > 0 {
			b.WriteString(sharesOf(f).Text(v))
		}
	}
	b.WriteByte('\n')
	for _, note := range []struct {
		jobs []string
		why  string
	}{
		{p.Unknown, "not counted: %s; expects is not set, and no pass has ended ok yet"},
		{p.Measured, "measured, because expects is not set: %s"},
		{p.Elsewhere, "not counted: %s; this host has no such job, and the log has calls of the last day"},
	} {
		if len(note.jobs) > 0 {
			v.Prose(&b, 0, term.Plain, fmt.Sprintf(note.why, strings.Join(note.jobs, ", ")))
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// cure says what would make the schedule fit, if it does not.
func cure(b *strings.Builder, f plan.Fit, v term.View) {
	switch {
	case f.Change != nil:
		v.Item(b, 4, "do: ", fmt.Sprintf("%s, %s less", f.Change, units(int64(f.Change.GivesUp))))
	case !f.Fits:
		v.Prose(b, 4, term.Plain, f.Cure())
	}
}

// sharesOf is the table of who asks for what of a limit in its worst window.
func sharesOf(f plan.Fit) *term.Table {
	t := &term.Table{Indent: 2, Columns: []term.Column{{Head: "JOB"}, {Head: "RUNS", Right: true}, {Head: "ASKED", Right: true}, {Head: "SHARE", Right: true}}}
	for _, s := range f.Shares {
		t.Add(s.Job, s.Slots, s.Demand, wording.Percent(int64(s.Demand), int64(f.Demand)))
	}
	if f.Others > 0 {
		t.Add("outside jobs", "", f.Others, wording.Percent(int64(f.Others), int64(f.Demand)))
	}
	return t
}

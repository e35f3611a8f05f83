package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

const reloadUsage = `Make quotad read its configuration again, and print what changed. Runs under way
continue as they began. If the file has an error, or changes a key that needs a
restart, nothing changes and the exit code is 1. If the schedule does not fit
its limits, a warning is printed. If quotad could not start serving, it tries
again.

Commands and the values of env_file and env are not printed: they may be secret.

Example:
  $ quotactl reload
  changed  jobs.trending.regions: [US GB] -> [US GB DE]
`

func newReload(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "reload",
		Short: "make quotad read its configuration again",
		Long:  reloadUsage,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.reload(cmd.Context()) },
	}
}

func (c *cli) reload(ctx context.Context) error {
	done, err := c.client().Reload(ctx)
	if err == nil && len(done.Changes) > 0 {
		c.warnOfPlan(ctx)
	}
	for _, one := range done.Reminders {
		fmt.Fprintf(c.stderr, "quotactl: warning: %s\n", one)
	}
	return show(c, done, err, func(done api.Reloaded) (int64, error) { return length(done.Changes) }, renderReload)
}

// warnOfPlan warns of a schedule that runs dry. The reload is done, so it does not report
// an error of its own.
func (c *cli) warnOfPlan(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	p, err := c.client().Plan(limited, jobsapi.PlanRequest{Days: 1})
	if err != nil {
		return
	}
	for _, l := range p.Limits {
		if len(l.Shares) > 0 && !l.Fits && !l.DryRun {
			fmt.Fprintf(c.stderr, "quotactl: warning: %s\n", dryText(l.Fit))
		}
	}
}

// dryText says how far a schedule and its limit are apart.
func dryText(f plan.Fit) string {
	late, often := "", ""
	if f.AtWorst > f.Demand {
		late = fmt.Sprintf(", %s when passes are late", quota.Thousands(f.AtWorst))
	}
	if f.FitsOnTime() {
		often = " now and then"
	}
	return fmt.Sprintf("credential %s, limit %s: the jobs ask for %s%s, of the %s for them: they run dry%s; quotactl plan shows what would help",
		f.Credential, f.Limit, quota.Thousands(f.Demand), late, quota.Thousands(f.Budget), often)
}

func renderReload(r api.Reloaded, v term.View) string {
	var b strings.Builder
	switch {
	case r.Started:
		v.Prose(&b, 0, term.Plain, "quotad serves, by "+r.File)
	case len(r.Changes) == 0:
		v.Prose(&b, 0, term.Plain, r.File+" means what it meant before")
	}
	for _, change := range r.Changes {
		what := change.Key
		if change.Kind == api.Changed && change.Is != change.Was {
			what += ": " + change.Was + " -> " + change.Is
		}
		v.Item(&b, 0, string(change.Kind)+strings.Repeat(" ", len(api.Changed)+term.Gap-len(change.Kind)), what)
	}
	return b.String()
}

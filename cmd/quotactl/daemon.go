package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
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
	return command("reload", "make quotad read its configuration again", reloadUsage, func(ctx context.Context, _ []string) error { return c.reload(ctx) })
}

func (c *cli) reload(ctx context.Context) error {
	done, err := c.client().Reload(ctx)
	if err == nil && len(done.Changes) > 0 {
		c.warnOfPlan(ctx)
	}
	for _, one := range done.Reminders {
		fmt.Fprintf(c.stderr, "quotactl: warning: %s\n", one)
	}
	return show(c, done, err, nil, renderReload)
}

// warnOfPlan warns of a schedule that does not fit. The reload is done, so it does not report
// an error of its own.
func (c *cli) warnOfPlan(ctx context.Context) {
	limited, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	p, err := c.client().Plan(limited, jobsapi.PlanRequest{})
	if err != nil {
		return
	}
	for _, l := range p.Limits {
		if len(l.Shares) > 0 && !l.Fits && !l.DryRun {
			fmt.Fprintf(c.stderr, "quotactl: warning: %s; %s\n", l.Shortage(), l.Cure())
		}
	}
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

// skewHint is for errors that cannot happen if daemon and client have one version: the
// daemon does not know a route or a field of ours, or we cannot read its answer.
func skewHint(err error) string {
	var p *api.Problem
	if errors.As(err, &p) && !slices.Contains([]quota.Reason{api.NotFound, api.MethodNotAllowed, quota.BadRequest}, p.Reason) {
		return ""
	}
	own, daemon := api.BuildVersion(), api.DaemonVersion(err)
	if daemon == "" || daemon == own {
		return ""
	}
	return fmt.Sprintf("quotactl is %s, quotad %s: after an upgrade, restart quotad", own, daemon)
}

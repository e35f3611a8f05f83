package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	"quotad/quota"
	"quotad/quota/api"
)

const whyUsage = `
Show whether a call would be granted now. If not: by how many units each limit
refuses it, exactly when the call fits, and whether the reserve would grant it.
Asking spends nothing.

Example:
  $ quotactl why youtube search.list
  denied: no room for 100 units in limit daily, which has 60 left
  fits in 3h 11m, at 12:38:11, if nothing else happens
  limit daily: 40 units are missing
  the reserve would grant it: quotactl acquire search.list --use-reserve`

func newWhy(c *cli) *cobra.Command {
	r := api.AcquireRequest{DryRun: true}
	cmd := command("why [CREDENTIAL] OPERATION [FLAGS]", "would a call be granted, and if not, when", whyUsage, 1, 2, func(ctx context.Context, args []string) error {
		r.Credential, r.Operation = cmp.Or(strings.Join(args[:len(args)-1], ""), os.Getenv("QUOTAD_CREDENTIAL")), args[len(args)-1]
		return c.why(ctx, r)
	})
	cmd.Flags().Int64Var(&r.Count, "count", 0, "ask for `N` calls at once (default: 1; with --job what a pass of it expects)")
	cmd.Flags().StringVar(&r.Job, "job", "", "calls of the job `NAME`, or of the remote caller remote/NAME: some limits count only some jobs (default: calls outside any pass)")
	return cmd
}

// A whyBody is what a dry run decides, and what one with the reserve does.
type whyBody struct {
	api.Decision
	Request       api.AcquireRequest `json:"request"`
	ReserveGrants bool               `json:"reserve_grants"`
}

func (c *cli) why(ctx context.Context, r api.AcquireRequest) error {
	if r.Job != "" && !strings.HasPrefix(r.Job, quota.RemotePrefix) { // the API would read an unknown name as a caller of no share
		job, err := c.client().Job(ctx, r.Job)
		if err != nil {
			return err
		}
		r.Credential = cmp.Or(r.Credential, job.Credential)
		r.Count = cmp.Or(r.Count, int64(job.Expects[r.Operation])) // as the gate asks before a pass
	}
	r.Count = cmp.Or(r.Count, 1)
	client := c.client().Client
	if r.Job == "" {
		client = c.spender() // inside a pass it asks for the pass
	}
	d, err := client.Acquire(ctx, r)
	if p := (*api.Problem)(nil); errors.As(err, &p) && p.Reason == quota.UnknownOperation {
		if _, unknown := c.client().Job(ctx, r.Operation); unknown == nil {
			return &failure{exitNotFound, err, fmt.Sprintf("%s is a job: quotactl runs %[1]s, or quotactl why OPERATION --job %[1]s", r.Operation)}
		}
	}
	body := whyBody{Decision: d, Request: r}
	if err == nil && !d.Granted {
		r.UseReserve = true
		with, _ := client.Acquire(ctx, r)
		body.ReserveGrants = with.Granted
	}
	return show(c, body, err, whyPage)
}

func whyPage(w whyBody, v wording.View) string {
	var b strings.Builder
	v.Prose(&b, 0, map[bool]wording.Style{true: wording.Green, false: wording.Red}[w.Granted], verdict(w))
	if w.RetryAt != nil {
		v.Prose(&b, 0, wording.Plain, fmt.Sprintf("fits %s, if nothing else happens", v.When(*w.RetryAt)))
	}
	for _, short := range w.Missing {
		v.Item(&b, "limit "+short.Limit+": ", shortText(short, v))
	}
	for _, short := range w.WouldDeny {
		v.Item(&b, "limit "+short.Limit+", if it were enforced: ", shortText(short, v))
	}
	if w.ReserveGrants {
		command := "quotactl acquire " + w.Request.Operation
		if w.Request.Credential != "" {
			command += " --credential " + w.Request.Credential
		}
		if w.Request.Count > 1 {
			command += fmt.Sprintf(" --count %d", w.Request.Count)
		}
		v.Item(&b, "the reserve would grant it: ", command+" --use-reserve")
	}
	if !w.Granted && w.Fits > 0 {
		v.Prose(&b, 0, wording.Plain, quota.Count(w.Fits, "call", "calls")+" would be granted now")
	}
	if w.KeyRefused != "" {
		v.Item(&b, "the upstream refuses the key: ", v.Clean(w.KeyRefused))
	}
	return b.String()
}

func verdict(w whyBody) string {
	asked := fmt.Sprintf("%s of %s", quota.Count(w.Request.Count, "call", "calls"), w.Request.Operation)
	switch {
	case w.Mode != "":
		return fmt.Sprintf("granted: %s (%s), from the outage's own units: the ledger cannot be reached", asked, units(w.Units))
	case w.Granted && w.Units == 0:
		return fmt.Sprintf("granted: %s is free, whatever the limits hold", w.Request.Operation)
	case w.Granted:
		return fmt.Sprintf("granted: %s, %s; %s would fit now", asked, units(w.Units), quota.Thousands(w.Fits))
	default:
		return "denied: " + cmp.Or(w.Detail, w.Reason)
	}
}

// shortText says why calls do not fit a limit.
func shortText(s quota.Shortage, v wording.View) string {
	if !s.Closed.IsZero() {
		return "closed until " + v.Clock(s.Closed.Until) + ": " + v.Clean(s.Closed.Says)
	}
	return quota.Count(s.Missing, "unit is", "units are") + " missing"
}

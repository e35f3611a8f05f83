package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

const statusUsage = `Show what needs you, what is left of each limit and how long it lasts, and the
last and the next run of each job.

Usage:
  quotactl [status] [FLAGS]

Flags:
      --credential NAME   only this one
      --limit NAME        only limits of this name
      --job NAME          only this one, and its credential
      --all               everything about each limit and job

With -o value the answer is what remains, in units: the smallest of the limits
shown, of one credential. With -o json it is the whole status of the daemon.

The bar shows what is used, what is free, and at its end the reserve. OUTLOOK is
a forecast for one day: the jobs run as planned, and all other callers continue
to spend as in the last hour.

With --all, each job shows its regions in their order. Brackets mark the region
at which the next run begins. The mark after a region is the result of its last
pass: + ok, x failed, 0 denied, ~ running, - interrupted or skipped. Below it
are the passes that were not ok; quotactl runs show prints all of them.

Example:
  $ quotactl status -o value --limit daily
  9400
`

// A selection narrows a status down; empty fields select everything.
type selection struct {
	credential string
	limit      string
	job        string
}

func newStatus(c *cli) *cobra.Command {
	var only selection
	all := false
	cmd := &cobra.Command{
		Use:   "status",
		Short: "what needs you, what is left, what the jobs did (default)",
		Long:  statusUsage,
		Args:  arguments(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.status(cmd.Context(), only, all) },
	}
	only.flags(cmd, c)
	cmd.Flags().BoolVar(&all, "all", false, "all that is known of each limit and job")
	return cmd
}

// flags has a command take a selection.
func (only *selection) flags(cmd *cobra.Command, c *cli) {
	cmd.Flags().StringVar(&only.credential, "credential", "", "only this one")
	cmd.Flags().StringVar(&only.limit, "limit", "", "only limits of this name")
	cmd.Flags().StringVar(&only.job, "job", "", "only this one, and its credential")
	completes(cmd, "credential", c.configured)
	completes(cmd, "limit", c.limitNames)
	completes(cmd, "job", c.jobNames)
}

func (c *cli) status(ctx context.Context, only selection, all bool) error {
	if c.output == "json" && only != (selection{}) {
		return usageError("jq selects", "-o json prints the whole status: --credential, --limit and --job do not apply")
	}
	var body json.RawMessage
	if err := c.reader().Get(ctx, "/v1/status", &body); err != nil {
		return c.explain(err)
	}
	var s jobsapi.Status
	if err := json.Unmarshal(body, &s); err != nil {
		return fmt.Errorf("cannot read quotad's status: %w", err)
	}
	if err := only.apply(&s); err != nil {
		return err
	}
	return c.print(answer{
		body:  body,
		value: func() (int64, error) { return leastRemaining(s.Credentials) },
		table: func(v term.View) string {
			if all {
				return renderStatus(s, v)
			}
			var b strings.Builder
			renderGlance(&b, s, v)
			return b.String()
		},
	})
}

// apply leaves what is selected in s; names that select nothing are not found.
func (only selection) apply(s *jobsapi.Status) error {
	if only.job != "" {
		all := s.Jobs
		s.Jobs = slices.DeleteFunc(slices.Clone(all), func(j jobsapi.Job) bool { return j.Name != only.job })
		if len(s.Jobs) == 0 {
			return notFound("job", only.job, jobNames(all))
		}
		if only.credential == "" {
			only.credential = s.Jobs[0].Credential
		}
	}
	if only.credential != "" {
		all := s.Credentials
		s.Credentials = slices.DeleteFunc(slices.Clone(all), func(c api.Credential) bool { return c.Name != only.credential })
		if len(s.Credentials) == 0 {
			return notFound("credential", only.credential, credentialNames(all))
		}
		s.Jobs = slices.DeleteFunc(s.Jobs, func(j jobsapi.Job) bool { return j.Credential != only.credential })
	}
	only.triage(s)
	if only.limit == "" {
		return nil
	}
	var names []string
	found := false
	for i := range s.Credentials {
		limits := &s.Credentials[i].Limits
		*limits = slices.DeleteFunc(*limits, func(l api.Limit) bool {
			names = append(names, l.Name)
			return l.Name != only.limit
		})
		found = found || len(*limits) > 0
	}
	if !found {
		return notFound("limit", only.limit, names)
	}
	return nil
}

// triage leaves the troubles of what is selected, and of what concerns all. The sentence counts
// more than these.
func (only selection) triage(s *jobsapi.Status) {
	if only == (selection{}) {
		return
	}
	s.Triage.Says = ""
	others := func(t jobsapi.Trouble) bool {
		kind, name, _ := strings.Cut(t.Of, " ")
		switch kind {
		case "job":
			return !slices.ContainsFunc(s.Jobs, func(j jobsapi.Job) bool { return j.Name == name })
		case "limit", "credential":
			credential, limit, _ := strings.Cut(name, " ")
			return only.credential != "" && credential != only.credential || only.limit != "" && limit != only.limit
		}
		return false
	}
	s.Triage.Troubles, s.Triage.Notes = slices.DeleteFunc(s.Triage.Troubles, others), slices.DeleteFunc(s.Triage.Notes, others)
}

func credentialNames(credentials []api.Credential) []string {
	names := make([]string, len(credentials))
	for i, c := range credentials {
		names[i] = c.Name
	}
	return names
}

// limitNames returns the names of all limits, each once.
func (c *cli) limitNames(ctx context.Context) ([]string, error) {
	status, err := c.reader().Status(ctx)
	var names []string
	for _, credential := range status.Credentials {
		for _, l := range credential.Limits {
			names = append(names, l.Name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

func notFound(what, name string, names []string) error {
	return &failure{
		code: exitNotFound,
		err:  fmt.Errorf("unknown %s %q", what, name),
		hint: quota.DidYouMean(name, names, "configured"),
	}
}

// leastRemaining is what can be spent on whatever counts against all limits of
// the only credential.
func leastRemaining(credentials []api.Credential) (int64, error) {
	if len(credentials) != 1 {
		return 0, usageError("add --credential NAME", "-o value is one integer, but there are several credentials: %s",
			strings.Join(credentialNames(credentials), ", "))
	}
	if credentials[0].Error != "" {
		return 0, fmt.Errorf("what remains is not known: %s", credentials[0].Error)
	}
	least, none := int64(quota.MaxUnits), !slices.ContainsFunc(credentials[0].Limits, api.Limit.Refuses)
	for _, l := range credentials[0].Limits {
		if none || l.Refuses() {
			least = min(least, l.Remaining)
		}
	}
	return least, nil
}

// renderStatus writes a status for people: what is unsafe first, then the
// budgets, then the jobs.
func renderStatus(s jobsapi.Status, v term.View) string {
	var b strings.Builder
	if renderTriage(&b, s.Triage, max(len(s.Triage.Troubles), len(s.Triage.Notes)), true, v); b.Len() > 0 {
		b.WriteByte('\n')
	}
	renderLedger(&b, s, v)
	renderConfiguration(&b, s.Config, v)
	if len(s.Credentials) == 0 {
		v.Prose(&b, 0, term.Faint, "no credential is configured; quotactl clients shows limits for clients")
	}
	for _, c := range s.Credentials {
		renderCredential(&b, c, s.Forecast, v)
		renderProxied(&b, s.Proxy, c.Name, v)
	}
	for _, j := range s.Jobs {
		b.WriteByte('\n')
		renderJob(&b, j, v)
	}
	return b.String()
}

func renderCredential(b *strings.Builder, c api.Credential, forecasts []plan.Forecast, v term.View) {
	b.WriteByte('\n')
	title := "credential " + c.Name
	if c.AsOf != nil {
		title += ", as of " + v.Clock(*c.AsOf) + ": the ledger cannot be reached"
	}
	v.Prose(b, 0, term.Bold, title)
	if c.Error != "" {
		v.Prose(b, 2, term.Red, "not known: "+c.Error)
		return
	}
	renderLimits(b, c.Name, c.Limits, forecasts, v)
}

// renderProxied says by which address a credential's upstream is called through the proxy.
func renderProxied(b *strings.Builder, proxy *api.Proxy, credential string, v term.View) {
	if proxy == nil {
		return
	}
	for _, c := range proxy.Credentials {
		if c.Name == credential {
			v.Prose(b, 2, term.Plain, fmt.Sprintf("through the proxy at %s to %s", proxy.Address, c.Upstream))
		}
	}
}

func renderLedger(b *strings.Builder, s jobsapi.Status, v term.View) {
	v.Prose(b, 0, ledgerStyle(s), ledgerText(s))
	for _, warning := range s.Ledger.Warnings {
		v.Prose(b, 2, term.Yellow, "warning: "+warning)
	}
}

func ledgerText(s jobsapi.Status) string {
	return fmt.Sprintf("quotad %s, %s ledger: %s", s.Version, s.Ledger.Backend, s.Ledger.State)
}

func ledgerStyle(s jobsapi.Status) term.Style {
	if s.Ledger.State != "ok" {
		return term.Red
	}
	return term.Plain
}

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

const versionUsage = `Print the versions of quotactl and of the quotad that answers.

Example:
  $ quotactl version
  quotactl  v1.2.0
  quotad    v1.2.0
`

// versions is the answer of the version command. Quotad is empty if no daemon answers.
type versions struct {
	Quotactl string `json:"quotactl"`
	Quotad   string `json:"quotad,omitempty"`
}

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "versions of quotactl and quotad",
		Long:  versionUsage,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.version(cmd.Context()) },
	}
}

// version prints our own version even if the daemon does not answer.
func (c *cli) version(ctx context.Context) error {
	own := versions{Quotactl: api.BuildVersion()}
	var daemon struct{ Version string }
	unreachable := c.client().Get(ctx, "/version", &daemon)
	own.Quotad = daemon.Version
	if err := cmp.Or(show(c, own, nil, nil, versions.table), c.explain(unreachable)); err != nil {
		return err
	}
	if hint := own.skew(); hint != "" {
		fmt.Fprintln(c.stderr, "quotactl: hint: "+hint)
	}
	return nil
}

// skew says what to do if the versions differ; else it is empty.
func (v versions) skew() string {
	if v.Quotad == v.Quotactl {
		return ""
	}
	return fmt.Sprintf("quotactl is %s, quotad %s: after an upgrade, restart quotad", v.Quotactl, v.Quotad)
}

// skewHint is for errors that cannot happen if daemon and client have one version: the
// daemon does not know a route or a field of ours, or we cannot read its answer.
func skewHint(err error) string {
	var p *api.Problem
	if errors.As(err, &p) && !slices.Contains([]quota.Reason{api.NotFound, api.MethodNotAllowed, quota.BadRequest}, p.Reason) {
		return ""
	}
	daemon := api.DaemonVersion(err)
	if daemon == "" {
		return ""
	}
	return versions{Quotactl: api.BuildVersion(), Quotad: daemon}.skew()
}

func (v versions) table(view term.View) string {
	rows := [][2]string{{"quotactl", v.Quotactl}}
	if v.Quotad != "" {
		rows = append(rows, [2]string{"quotad", v.Quotad})
	}
	return term.Pairs(rows, view)
}

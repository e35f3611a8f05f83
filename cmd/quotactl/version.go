package main

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/spf13/cobra"
)

const versionUsage = `Print the versions of quotactl and of the quotad that answers.

Usage:
  quotactl version

Example:
  $ quotactl version
  quotactl  v1.2.0
  quotad    v1.2.0
`

// versions is the answer of the version command. Quotad is empty when no daemon
// answers.
type versions struct {
	Quotactl string `json:"quotactl"`
	Quotad   string `json:"quotad,omitempty"`
}

func newVersion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "versions of quotactl and quotad",
		Long:  versionUsage,
		Args:  arguments(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.version(cmd.Context()) },
	}
}

// version prints our own version even where the daemon's is not to be had.
func (c *cli) version(ctx context.Context) error {
	own := versions{Quotactl: version()}
	var daemon struct{ Version string }
	unreachable := c.reader().Get(ctx, "/version", &daemon)
	own.Quotad = daemon.Version
	if err := c.print(own.answer()); err != nil {
		return err
	}
	if unreachable != nil {
		return c.explain(unreachable)
	}
	if own.Quotad != own.Quotactl {
		fmt.Fprintln(c.stderr, "quotactl: hint: the versions differ: after an upgrade, restart quotad")
	}
	return nil
}

func (v versions) answer() answer {
	rows := [][2]string{{"quotactl", v.Quotactl}}
	if v.Quotad != "" {
		rows = append(rows, [2]string{"quotad", v.Quotad})
	}
	return answer{
		body:  v,
		value: noInteger("a version"),
		table: func(view view) string { return pairs(rows, view) },
	}
}

// version is the module's, as the build recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(unknown)"
	}
	return info.Main.Version
}

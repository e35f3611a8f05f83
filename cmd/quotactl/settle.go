package main

import (
	"errors"

	"github.com/spf13/cobra"

	"quotad/quota/api"
)

const settleUsage = `Set a grant to what its call really cost. Less returns units at once. More is
booked even past the limit, because it has been spent.

Usage:
  quotactl settle GRANT UNITS

With -o value the answer is what remains, in units.

Example:
  $ quotactl settle youtube:1795260896123-0 40
  grant      youtube:1795260896123-0
  counts     40 units
  remaining  9,440 units in daily
`

func newSettle(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "settle GRANT UNITS",
		Short:             "correct a grant to what its call really cost",
		Long:              settleUsage,
		Args:              arguments("GRANT", "UNITS"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			n, ok := parseUnits(args[1])
			if !ok || n < 0 {
				return usageError("to give it back whole: quotactl release "+args[0], "UNITS must be a whole number from 0: %q", args[1])
			}
			d, err := c.spender().Settle(cmd.Context(), args[0], n)
			return c.corrected(d, err)
		},
	}
}

const releaseUsage = `Set a grant to zero, because its call was certainly never sent.

Usage:
  quotactl release GRANT

Example:
  $ quotactl release youtube:1795260896123-0
  grant      youtube:1795260896123-0
  counts     0 units
  remaining  9,480 units in daily
`

func newRelease(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "release GRANT",
		Short:             "set a grant to zero: its call was never sent",
		Long:              releaseUsage,
		Args:              arguments("GRANT"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := c.spender().Release(cmd.Context(), args[0])
			return c.corrected(d, err)
		},
	}
}

// corrected tells what became of a grant, or why nothing did.
func (c *cli) corrected(d api.Decision, err error) error {
	if err != nil {
		return errors.Join(c.printRefusal(d), c.explain(err))
	}
	if d.Granted {
		return c.print(decisionAnswer(d, [][2]string{{"grant", d.GrantID}, {"counts", units(d.Units)}}))
	}
	return errors.Join(c.printRefusal(d), c.refusal(d))
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

const adjustUsage = `Correct what a limit has counted. A positive number books units that were spent
elsewhere. A negative one returns units that were counted but not spent: the
oldest debits first, and never more than are used. For operators; the log names
you. quotactl sends it once: if the answer is lost, quotactl log shows whether
it was booked.

Usage:
  quotactl adjust [CREDENTIAL] LIMIT UNITS [FLAGS]

Flags:
      --reason TEXT   why, for the log

CREDENTIAL may be left out where only one is configured. With -o value the
answer is what remains in the limit, in units.

Example:
  $ quotactl adjust youtube daily -30 --reason 'counted twice by the old script'
  adjusted   daily by -30 units
  remaining  5,410 units in daily, 3,000 units in search
`

func newAdjust(c *cli) *cobra.Command {
	var a api.Adjustment
	cmd := &cobra.Command{
		Use:               "adjust [CREDENTIAL] LIMIT UNITS",
		Short:             "book units spent elsewhere, or return some",
		Long:              adjustUsage,
		Args:              arguments("[CREDENTIAL]", "LIMIT", "UNITS"),
		ValidArgsFunction: c.completeCredentialAndLimit,
		RunE: func(cmd *cobra.Command, args []string) error {
			last := len(args) - 1
			n, ok := parseUnits(args[last])
			if !ok || n == 0 {
				return usageError("", "UNITS must be a whole number, not 0: %q", args[last])
			}
			a.Limit, a.Units = args[last-1], n
			named := ""
			if last == 2 {
				named = args[0]
			}
			return c.adjust(cmd.Context(), c.credential(named), a)
		},
	}
	cmd.Flags().StringVar(&a.Note, "reason", "", "why")
	return cmd
}

// negativeLast lets the last argument of adjust, or lend, be a negative number, which pflag
// takes for a flag: it is put behind a "--".
func negativeLast(root *cobra.Command, args []string) []string {
	cmd, _, err := root.Find(args)
	if err != nil || cmd.Name() != "adjust" && cmd.Name() != "lend" || slices.Contains(args, "--") {
		return args
	}
	for i, arg := range args {
		_, isNumber := parseUnits(arg)
		if strings.HasPrefix(arg, "-") && isNumber && i > 0 && args[i-1] != "--reason" && args[i-1] != "--note" {
			return append(slices.Delete(slices.Clone(args), i, i+1), "--", arg)
		}
	}
	return args
}

func (c *cli) adjust(ctx context.Context, credential string, a api.Adjustment) error {
	done, err := c.reader().Adjust(ctx, credential, a)
	if err != nil {
		look := "quotactl log"
		if credential != api.OnlyCredential {
			look += " " + credential
		}
		return inDoubt(c.explain(err), "it may be booked all the same: adjust again only if "+look+" does not show it")
	}
	if done.Units != a.Units {
		fmt.Fprintf(c.stderr, "quotactl: only %s used: no more is returned\n", quota.Count(-done.Units, "unit was", "units were"))
	}
	return c.print(answer{
		body:  done,
		value: func() (int64, error) { return remainingIn(done.Credential, a.Limit) },
		table: func(v term.View) string {
			by := units(done.Units)
			if done.Units > 0 {
				by = "+" + by
			}
			return term.Pairs([][2]string{{"adjusted", done.Limit + " by " + by}, {"remaining", remainingOf(done.Credential)}}, v)
		},
	})
}

// remainingIn is what ordinary callers may still spend of one limit.
func remainingIn(credential api.Credential, limit string) (int64, error) {
	for _, l := range credential.Limits {
		if l.Name == limit {
			return l.Remaining, nil
		}
	}
	return 0, fmt.Errorf("what remains is not known: %s", credential.Error)
}

func remainingOf(credential api.Credential) string {
	if credential.Error != "" {
		return "not known: " + credential.Error
	}
	return remainingText(credential.Limits)
}

package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota/api"
)

const lendUsage = `Make a limit higher until a time, for everybody whom it counts and on all
hosts: when the upstream grants more for a while, or a budget of your own may
be passed once. The reserve stays as it is. When the loan ends, what was used
stays used, and nothing is granted until it fits the limit again. Loans add up;
0 units, or --end, end all loans of the limit now. For operators; the log names
who lent. To book what was spent elsewhere, see quotactl adjust.

Usage:
  quotactl lend LIMIT UNITS --for DURATION [FLAGS]
  quotactl lend LIMIT --end [FLAGS]

Flags:
      --for DURATION     how long, 90m or 6h: at most the limit's window, and 7d
      --credential NAME  whose limit; may be left out where only one is
                         configured
      --note TEXT        why, for those who see the limit and for the log
      --end              end the loans of the limit now

With -o value the answer is what remains in the limit, in units.

Example:
  $ quotactl lend daily +500 --for 6h --note 'the console grants more today'
  lent       500 units to daily until 15:00:00 (in 6h)
  remaining  5,910 units in daily, 3,000 units in search
`

func newLend(c *cli) *cobra.Command {
	var (
		l          api.Lend
		credential string
		end        bool
	)
	cmd := &cobra.Command{
		Use:               "lend LIMIT UNITS",
		Short:             "make a limit higher until a time",
		Long:              lendUsage,
		Args:              cobra.ArbitraryArgs,
		ValidArgsFunction: c.completeLimit,
		RunE: func(cmd *cobra.Command, args []string) error {
			units, err := lentUnits(args, end)
			if err != nil {
				return err
			}
			switch {
			case units == 0 && l.Until != "":
				return usageError("", "0 units end the loans of a limit now: --for goes with the units of a loan")
			case units < 0:
				return usageError("quotactl close, or a reserve in the configuration, keeps units back; quotactl adjust books what was spent elsewhere",
					"a loan makes a limit higher: UNITS must be from 1, or 0 to end loans: %q", args[1])
			case units > 0 && l.Until == "":
				return usageError("such as --for 6h", "a loan ends by itself: --for is missing")
			}
			l.Limit, l.Units = args[0], &units
			return c.lend(cmd.Context(), c.credential(credential), l)
		},
	}
	cmd.Flags().StringVar(&l.Until, "for", "", "how long")
	cmd.Flags().StringVar(&l.Note, "note", "", "why")
	cmd.Flags().BoolVar(&end, "end", false, "end the loans of the limit now")
	c.credentialFlag(cmd, &credential)
	return cmd
}

// lentUnits returns the units of a loan, 0 of one that ends others.
func lentUnits(args []string, end bool) (int64, error) {
	switch {
	case len(args) == 0:
		return 0, usageError("", "LIMIT is missing")
	case len(args) == 1 && end:
		return 0, nil
	case len(args) == 1:
		return 0, usageError("", "UNITS is missing")
	case len(args) > 2:
		return 0, usageError("", "unexpected argument %q", args[2])
	}
	n, ok := parseUnits(args[1])
	if !ok || end && n != 0 {
		return 0, usageError("", "UNITS must be a whole number, and left out beside --end: %q", args[1])
	}
	return n, nil
}

func (c *cli) lend(ctx context.Context, credential string, l api.Lend) error {
	done, err := c.reader().Lend(ctx, credential, l)
	if err != nil {
		return inDoubt(c.explain(err), "it may be lent all the same: lend again only if quotactl status does not show it")
	}
	return c.print(answer{
		body:  done,
		value: func() (int64, error) { return remainingIn(done.Credential, done.Limit) },
		table: func(v term.View) string {
			return term.Pairs([][2]string{lentPair(done, *l.Units, v), {"remaining", remainingOf(done.Credential)}}, v)
		},
	})
}

// lentPair says what was done, or that there was nothing to do.
func lentPair(done api.Lent, n int64, v term.View) [2]string {
	switch {
	case !done.Changed:
		return [2]string{"unchanged", "nothing is lent to " + done.Limit}
	case n == 0:
		return [2]string{"ended", "the loans of " + done.Limit}
	}
	text := units(n) + " to " + done.Limit
	if done.Until != nil && done.Units == n {
		text += " until " + v.Until(*done.Until)
	} else if done.Until != nil {
		text += fmt.Sprintf("; %s are lent in all, the first until %s", units(done.Units), v.Until(*done.Until))
	}
	return [2]string{"lent", text}
}

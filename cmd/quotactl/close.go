package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota/api"
)

const closeUsage = `Close a limit until a time: calls that count against it are denied on all hosts,
with that time and your reason. It opens by itself. A limit that is already
closed until later stays closed until then. For operators; the log names you.

Usage:
  quotactl close CREDENTIAL LIMIT --until TIME [FLAGS]

Flags:
      --until TIME    how long from now, 90m or 1d, or an instant like
                      2026-03-14T09:00:00Z
      --reason TEXT   why: denied callers and the log show it

With -o value the answer is what remains in the limit, in units.

Example:
  $ quotactl close youtube search --until 3h --reason 'kept for the demo'
  closed     search, opens in 3h, at 12:00:00
  remaining  9,400 units in daily, 0 units in search
`

const openUsage = `Open a limit that the upstream or an operator closed. If the upstream still says
that it is exhausted, the next call closes it again. For operators; the log
names you.

Usage:
  quotactl open CREDENTIAL LIMIT [FLAGS]

Flags:
      --reason TEXT   why, for the log

With -o value the answer is what remains in the limit, in units.

Example:
  $ quotactl open youtube search --reason 'the project was given more'
  opened     search
  remaining  9,400 units in daily, 3,900 units in search
`

func newClose(c *cli) *cobra.Command {
	var k api.Closing
	cmd := &cobra.Command{
		Use:               "close CREDENTIAL LIMIT",
		Short:             "deny all calls of a limit until a time",
		Long:              closeUsage,
		Args:              arguments("CREDENTIAL", "LIMIT"),
		ValidArgsFunction: c.completeCredentialAndLimit,
		RunE: func(cmd *cobra.Command, args []string) error {
			if k.Until == "" {
				return usageError("such as --until 90m", "a limit is closed until a time: --until is missing")
			}
			k.Limit = args[1]
			done, err := c.reader().CloseLimit(cmd.Context(), args[0], k)
			return c.shut(done, err, "quotactl close")
		},
	}
	cmd.Flags().StringVar(&k.Until, "until", "", "how long, or until when")
	cmd.Flags().StringVar(&k.Note, "reason", "", "why")
	return cmd
}

func newOpen(c *cli) *cobra.Command {
	var k api.Closing
	cmd := &cobra.Command{
		Use:               "open CREDENTIAL LIMIT",
		Short:             "open a limit that is closed",
		Long:              openUsage,
		Args:              arguments("CREDENTIAL", "LIMIT"),
		ValidArgsFunction: c.completeCredentialAndLimit,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.open(cmd.Context(), args[0], args[1], k)
		},
	}
	cmd.Flags().StringVar(&k.Note, "reason", "", "why")
	return cmd
}

func (c *cli) open(ctx context.Context, credential, limit string, k api.Closing) error {
	k.Limit = limit
	done, err := c.reader().OpenLimit(ctx, credential, k)
	return c.shut(done, err, "quotactl open")
}

// shut writes how a limit is after a command that closed or opened it.
func (c *cli) shut(done api.Shut, err error, command string) error {
	if err != nil {
		return inDoubt(c.explain(err), "it may be so all the same: "+command+" can be repeated: quotactl status shows whether it was done")
	}
	return c.print(answer{
		body:  done,
		value: func() (int64, error) { return remainingIn(done.Credential, done.Limit) },
		table: func(v term.View) string {
			return term.Pairs([][2]string{shutPair(done, v), {"remaining", remainingOf(done.Credential)}}, v)
		},
	})
}

// shutPair says what was done, or that there was nothing to do.
func shutPair(done api.Shut, v term.View) [2]string {
	switch {
	case done.Closed != nil && done.Changed:
		return [2]string{"closed", fmt.Sprintf("%s, opens %s", done.Limit, v.When(done.Closed.Until))}
	case done.Closed != nil:
		return [2]string{"unchanged", fmt.Sprintf("%s is closed for longer, opens %s", done.Limit, v.When(done.Closed.Until))}
	case done.Changed:
		return [2]string{"opened", done.Limit}
	default:
		return [2]string{"unchanged", done.Limit + " is open"}
	}
}

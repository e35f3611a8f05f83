package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	"quotad/quota"
	"quotad/quota/api"
)

const bookUsage = `
Book units that were spent elsewhere in a limit. They count like those of a
call, even past the limit. To correct a booking, settle its entry. For
operators; the log names you. quotactl sends it once: if the answer is lost,
quotactl log shows whether it was booked.

Example:
  $ quotactl book youtube daily 500 --reason 'the old script'
  booked     500 units in daily
  entry      youtube:R5XNI6CC57W6YGWV
  remaining  4,910 units in daily, 3,000 units in search`

func newBook(c *cli) *cobra.Command {
	var b quota.Booking
	cmd := command("book [CREDENTIAL] LIMIT UNITS [--reason TEXT]", "units spent elsewhere", bookUsage, 2, 3, func(ctx context.Context, args []string) error {
		last := len(args) - 1
		n, ok := parseUnits(args[last], 1)
		if !ok {
			return usageError("to count less for a call or a booking, settle it: quotactl settle ID UNITS", "UNITS must be a whole number from 1: %q", args[last])
		}
		b.Limit, b.Units = args[last-1], quota.Units(n)
		done, err := c.client().Book(ctx, credentialBefore(args, 2), b)
		err = c.inDoubt(err, "it may be booked all the same: book it again only if quotactl log does not show it")
		return showLimits(c, done, err, done.Credential, [2]string{"booked", units(done.Units) + " in " + done.Limit}, [2]string{"entry", done.GrantID})
	})
	cmd.Flags().StringVar(&b.Note, "reason", "", "why: `TEXT` for the log")
	return cmd
}

// showLimits prints a change of limits: what was done, and what remains of the credential.
func showLimits(c *cli, body any, err error, left api.Credential, did ...[2]string) error {
	remaining := "not known: " + left.Error
	if left.Error == "" {
		remaining = remainingText(left.Limits)
	}
	return show(c, body, err, func(_ any, v wording.View) string {
		return pairs(v, append(did, [2]string{"remaining", remaining})...)
	})
}

const resetUsage = `
Start every limit of a credential from zero, and open it. Use it for a new
project under an old name, or after a test. What was spent and what the upstream
said counts no more; the upstream still counts it. The log still shows it. It
cannot be undone, and needs --yes. For operators; the log names you.

Example:
  $ quotactl reset youtube --yes --reason 'the project was replaced'
  reset      youtube
  remaining  9,500 units in daily, 4,000 units in search`

func newReset(c *cli) *cobra.Command {
	var yes bool
	var reason string
	cmd := command("reset CREDENTIAL --yes [--reason TEXT]", "every limit starts from zero, and is open", resetUsage, 1, 1, func(ctx context.Context, args []string) error {
		if !yes {
			return usageError("quotactl usage "+args[0]+" shows it; then add --yes", "a reset forgets what %s has spent, and cannot be undone", args[0])
		}
		done, err := c.client().Reset(ctx, args[0], reason)
		err = c.inDoubt(err, "it may be done all the same: quotactl log "+args[0]+" shows it")
		return showLimits(c, done, err, done, [2]string{"reset", args[0]})
	})
	cmd.Flags().BoolVar(&yes, "yes", false, "forget it")
	cmd.Flags().StringVar(&reason, "reason", "", "why: `TEXT` for the log")
	return cmd
}

const closeUsage = `
Close a limit until a time: calls that count against it are denied on all hosts,
with that time and your reason. It opens by itself. A limit that is already
closed until later stays closed until then. For operators; the log names you.

Example:
  $ quotactl close youtube search --until 3h --reason 'kept for the demo'
  closed     search, opens in 3h, at 12:00:00
  remaining  9,400 units in daily, 0 units in search`

func newClose(c *cli) *cobra.Command {
	var k api.Closing
	cmd := command("close [CREDENTIAL] LIMIT --until TIME [--reason TEXT]", "deny all calls of a limit until a time", closeUsage, 1, 2, func(ctx context.Context, args []string) error {
		if k.Until == "" {
			return usageError("such as --until 22:00, or --until 90m", "a limit is closed until a time: --until is missing")
		}
		at, ok := c.instant(k.Until, false)
		if !ok {
			return usageError("", "--until must be a time like 22:00, how long from now like 90m or 1d, or an instant like 2026-03-14T22:00:00Z: %q", k.Until)
		}
		k.Until = at.Format(time.RFC3339Nano)
		return c.shut(ctx, "close", args, k)
	})
	cmd.Flags().StringVar(&k.Until, "until", "", "until `TIME`: 22:00, 90m or 1d from now, or an instant like 2026-03-14T22:00:00Z")
	cmd.Flags().StringVar(&k.Note, "reason", "", "why: `TEXT` that denied callers and the log show")
	return cmd
}

const openUsage = `
Open a limit that the upstream or an operator closed. If the upstream still says
that it is exhausted, the next call closes it again. For operators; the log
names you.

Example:
  $ quotactl open youtube search --reason 'the project was given more'
  opened     search
  remaining  9,400 units in daily, 3,900 units in search`

func newOpen(c *cli) *cobra.Command {
	k := api.Closing{Open: true}
	cmd := command("open [CREDENTIAL] LIMIT [--reason TEXT]", "open a limit that is closed", openUsage, 1, 2, func(ctx context.Context, args []string) error {
		return c.shut(ctx, "open", args, k)
	})
	cmd.Flags().StringVar(&k.Note, "reason", "", "why: `TEXT` for the log")
	return cmd
}

// shut closes or opens a limit, and prints how it is afterwards.
func (c *cli) shut(ctx context.Context, name string, args []string, k api.Closing) error {
	k.Limit = args[len(args)-1]
	done, err := c.client().CloseLimit(ctx, credentialBefore(args, 1), k)
	err = c.inDoubt(err, "it may have been done all the same, and can be repeated: quotactl "+name)
	return showLimits(c, done, err, done.Credential, shutPair(done, c.view()))
}

// shutPair says what was done, or that there was nothing to do.
func shutPair(done api.Shut, v wording.View) [2]string {
	switch {
	case done.Closed != nil && done.Changed:
		return [2]string{"closed", fmt.Sprintf("%s, opens %s", done.Limit, v.When(done.Closed.Until))}
	case done.Closed != nil:
		return [2]string{"unchanged", fmt.Sprintf("%s is closed for longer, opens %s", done.Limit, v.When(done.Closed.Until))}
	case done.Changed:
		return [2]string{"opened", done.Limit}
	}
	return [2]string{"unchanged", done.Limit + " is open"}
}

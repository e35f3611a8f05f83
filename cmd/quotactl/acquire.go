package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	"quotad/quota"
	"quotad/quota/api"
)

const acquireUsage = `
Ask to spend before a call upstream. A grant debits the operation's cost at
once; a denial moves nothing and ends with exit code 75.

Example:
  $ quotactl acquire videos.list && curl "$URL"
  granted    1 unit
  grant      youtube:P6C7MCXZRIWZH5UKP6PA
  remaining  9,399 units in daily`

func newAcquire(c *cli) *cobra.Command {
	var r api.AcquireRequest
	cmd := command("acquire OPERATION [FLAGS]", "ask to spend before a call; exit code 75 when denied", acquireUsage, 1, 1, func(ctx context.Context, args []string) error {
		r.Operation = args[0]
		d, err := c.acquire(ctx, r)
		granted := units(d.Units)
		if d.GrantID == "" {
			granted = "free"
		}
		return c.printDecision(d, err, [2]string{"granted", granted}, [2]string{"grant", d.GrantID})
	})
	c.requestFlags(cmd, &r)
	return cmd
}

// requestFlags declares the flags that acquire and exec share.
func (c *cli) requestFlags(cmd *cobra.Command, r *api.AcquireRequest) {
	f := cmd.Flags()
	f.StringVar(&r.Credential, "credential", "", "the credential `NAME`; may be left out in a pass, and where only one is configured")
	f.Int64Var(&r.Count, "count", 1, "acquire `N` calls at once")
	f.StringVar(&r.RequestID, "request-id", "", "the `ID` of the upstream call: asking again with the same id debits once")
	f.BoolVar(&r.UseReserve, "use-reserve", false, "may spend the reserve (operators only)")
	f.BoolVar(&r.Optional, "optional", false, "the pass can do without the call: a denial does not end its run")
}

// acquire asks for a decision. It returns a refusal as an error, with the decision.
func (c *cli) acquire(ctx context.Context, r api.AcquireRequest) (api.Decision, error) {
	if r.Count < 1 {
		return api.Decision{}, usageError("", "--count must be a whole number from 1: %d", r.Count)
	}
	d, err := c.granted(c.spender().Acquire(ctx, r))
	if errors.Is(err, quota.ErrOutcomeUnknown) {
		err = c.inDoubt(err, "it may be granted all the same: quotactl log shows it, and asking again with the same --request-id debits once")
	}
	return d, err
}

// granted returns a refusal as an error, too.
func (c *cli) granted(d api.Decision, err error) (api.Decision, error) {
	if err == nil && !d.Granted {
		err = c.refusal(d)
	}
	return d, err
}

const settleUsage = `
Set a grant to what its call really cost. Less returns units at once. More is
booked even past the limit, because it has been spent. 0 returns the grant
whole: its call was certainly never sent. An operator can settle a booking, too.

Example:
  $ quotactl settle youtube:P6C7MCXZRIWZH5UKP6PA 40
  grant      youtube:P6C7MCXZRIWZH5UKP6PA
  counts     40 units
  remaining  9,440 units in daily`

func newSettle(c *cli) *cobra.Command {
	return command("settle GRANT UNITS", "correct a grant to what its call really cost", settleUsage, 2, 2, func(ctx context.Context, args []string) error {
		n, ok := parseUnits(args[1], 0)
		if !ok {
			return usageError("0, if the call was never sent", "UNITS must be a whole number from 0: %q", args[1])
		}
		d, err := c.granted(c.spender().Settle(ctx, args[0], n))
		return c.printDecision(d, err, [2]string{"grant", d.GrantID}, [2]string{"counts", units(d.Units)})
	})
}

// printDecision prints a decision. People read the given lines first, then what remains and what is unusual about it. Of a
// refusal they read the error, and scripts the decision too.
func (c *cli) printDecision(d api.Decision, refused error, lines ...[2]string) error {
	if refused != nil && (c.output == "table" || d.Reason == "") {
		return refused
	}
	err := show(c, d, nil, func(d api.Decision, v wording.View) string {
		return pairs(v, append(lines, particulars(d, v)...)...)
	})
	return errors.Join(err, refused)
}

func particulars(d api.Decision, v wording.View) [][2]string {
	lines := [][2]string{{"remaining", remainingText(d.Limits)}}
	if d.Replayed {
		lines = append(lines, [2]string{"replayed", "granted before under this request id; nothing new was debited"})
	}
	for _, short := range d.WouldDeny {
		lines = append(lines, [2]string{"would deny", "limit " + short.Limit + ": " + shortText(short, v)})
	}
	return append(lines, [2]string{"mode", d.Mode})
}

// remainingText writes "9,400 units in daily, 3,900 units in search", and marks a limit that
// denies nothing.
func remainingText(limits []api.Limit) string {
	left := make([]string, len(limits))
	for i, limit := range limits {
		left[i] = units(limit.Remaining) + " in " + limit.Name
		if limit.Observes {
			left[i] += ", which denies nothing now"
		}
	}
	return strings.Join(left, ", ")
}

const execUsage = `
Acquire, then become the command. If the call is denied, the command does not
run and the exit code is 75. Else the exit code and the signals are the
command's.

The command finds the id of its grant in $QUOTAD_GRANT_ID, for quotactl settle.
If the command cannot start, its grant is set to 0.

Example:
  $ quotactl exec search.list -- curl -sS "$URL"`

func newExec(c *cli) *cobra.Command {
	var r api.AcquireRequest
	cmd := command("exec OPERATION [FLAGS] -- COMMAND [ARGUMENTS]", "acquire, then run a command", execUsage, 0, 0, func(ctx context.Context, args []string) error {
		r.Operation = args[0]
		return c.exec(ctx, r, args[1:])
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.ArgsLenAtDash() == 1 && len(args) > 1 {
			return nil
		}
		return usageError("quotactl exec OPERATION -- COMMAND", "quotactl exec takes one operation, a --, and a command behind it")
	}
	c.requestFlags(cmd, &r)
	return cmd
}

// exec acquires and then replaces this process by the command, so that the command has its
// terminal, its signals and its parent to itself. It returns only if the command does not
// run.
func (c *cli) exec(ctx context.Context, r api.AcquireRequest, command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("cannot run %q: %w", command[0], errors.Unwrap(err)) // before anything is spent
	}
	// Between the question and the command's start a signal must not end this process: it
	// would leave a debit for a call that was never made.
	signaled, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	d, err := c.acquire(ctx, r)
	if err != nil {
		return err
	}
	if err = signaled.Err(); err == nil {
		err = syscall.Exec(path, command, append(os.Environ(), "QUOTAD_GRANT_ID="+d.GrantID))
	}
	err = fmt.Errorf("cannot run %q: %w", command[0], err)
	if d.Replayed || d.GrantID == "" { // the call may have been made when it was first granted
		return err
	}
	hint := "quotactl log shows grant " + d.GrantID + ": it was set to 0"
	_, unsettled := c.granted(c.spender().Settle(ctx, d.GrantID, 0))
	if unsettled != nil {
		hint = "quotactl settle " + d.GrantID + " 0 returns its units"
	}
	return &failure{code: exitError, err: errors.Join(err, unsettled), hint: hint}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"quotad/quota/api"
)

const execUsage = `Acquire, then become the command. If the call is denied, the command does not
run and the exit code is 75. Else the exit code and the signals are the
command's.

The command finds the id of its grant in $QUOTAD_GRANT_ID, for quotactl settle.
If the command cannot start, its grant is released.

Example:
  $ quotactl exec search.list -- curl -sS "$URL"
`

// grantEnv holds the id of the grant that a command runs on.
const grantEnv = "QUOTAD_GRANT_ID"

func newExec(c *cli) *cobra.Command {
	var r api.AcquireRequest
	cmd := &cobra.Command{
		Use:   "exec OPERATION [FLAGS] -- COMMAND [ARGUMENTS]",
		Short: "acquire, then run a command",
		Long:  execUsage,
		Args:  operationAndCommand,
		ValidArgsFunction: func(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveDefault // the command's own
			}
			return arguments(c.operationsOfFlag(&r.Credential))(cmd, args, word)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			r.Operation = args[0]
			return c.exec(cmd.Context(), r, args[1:])
		},
	}
	c.requestFlags(cmd, &r)
	return cmd
}

// operationAndCommand requires the "--" that separates the command's flags from ours.
func operationAndCommand(cmd *cobra.Command, args []string) error {
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0:
		return usageError(seeHelp(cmd), "an operation is missing")
	case dash < 0:
		return usageError("quotactl exec "+args[0]+" -- COMMAND", "a -- is missing between the operation and the command")
	case dash != 1:
		return usageError(seeHelp(cmd), "give exactly one operation before the --, not %d", dash)
	case len(args) == 1:
		return usageError(seeHelp(cmd), "a command is missing after the --")
	}
	return nil
}

// exec acquires and then replaces this process by the command, so that the command has its
// terminal, its signals and its parent to itself. It returns only if the command does not
// run.
func (c *cli) exec(ctx context.Context, r api.AcquireRequest, command []string) error {
	path, err := exec.LookPath(command[0])
	if err != nil {
		return cannotRun(command[0], err) // before anything is spent
	}
	// Between the question and the command's start a signal must not end this process: it
	// would leave a debit for a call that was never made.
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	d, err := c.acquire(context.WithoutCancel(ctx), r)
	if err != nil {
		return err
	}
	environ := append(c.env[:len(c.env):len(c.env)], grantEnv+"="+d.GrantID)
	if err = ctx.Err(); err == nil {
		err = syscall.Exec(path, command, environ)
	}
	return errors.Join(cannotRun(command[0], err), c.release(d))
}

func cannotRun(command string, err error) error {
	var lookup *exec.Error
	if errors.As(err, &lookup) {
		err = lookup.Err
	}
	return fmt.Errorf("cannot run %q: %w", command, err)
}

// release releases a grant whose call was provably never made. It keeps a replayed one: the
// call may have been made when it was first granted.
func (c *cli) release(d api.Decision) error {
	if d.Replayed {
		return nil
	}
	released, err := c.spender().Release(context.Background(), d.GrantID)
	if err == nil && !released.Granted {
		err = errors.New(describe(released))
	}
	if err != nil {
		return fmt.Errorf("cannot release grant %s: %w", d.GrantID, err)
	}
	fmt.Fprintf(c.stderr, "quotactl: released %s: the command did not start\n", units(d.Units))
	return nil
}

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota/api"
)

const resetUsage = `Empty a credential's log: every limit starts from zero and is open. Use it for a
new project under an old name, or after a test. quotad forgets what was spent
and what the upstream said; the upstream does not. On a terminal it asks first,
elsewhere it needs --yes. For operators; the log names you.

Usage:
  quotactl reset CREDENTIAL [FLAGS]

Flags:
      --yes           do not ask
      --reason TEXT   why, for the log

Example:
  $ quotactl reset youtube --yes --reason 'the project was replaced'
  reset      youtube
  remaining  9,500 units in daily, 4,000 units in search
`

func newReset(c *cli) *cobra.Command {
	var yes bool
	var reason string
	cmd := &cobra.Command{
		Use:               "reset CREDENTIAL",
		Short:             "empty a log: every limit starts from zero, and is open",
		Long:              resetUsage,
		Args:              arguments("CREDENTIAL"),
		ValidArgsFunction: c.completeCredential,
		RunE: func(cmd *cobra.Command, args []string) error {
			if !yes {
				if err := c.confirmReset(cmd.Context(), args[0]); err != nil {
					return err
				}
			}
			return c.reset(cmd.Context(), args[0], reason)
		},
	}
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask")
	cmd.Flags().StringVar(&reason, "reason", "", "why")
	return cmd
}

// confirmReset says what would be forgotten and asks; only "y" and "yes" are.
func (c *cli) confirmReset(ctx context.Context, name string) error {
	if !term.IsTerminal(c.stdin) {
		return usageError("add --yes", "a reset forgets what %s has spent and cannot be undone", name)
	}
	list, err := c.reader().Credentials(ctx)
	if err != nil {
		return c.explain(err)
	}
	for _, credential := range list {
		if credential.Name == name {
			return c.ask(fmt.Sprintf("reset %s: forget %s? [y/N] ", name, usedText(credential.Limits)))
		}
	}
	return notFound("credential", name, credentialNames(list))
}

// usedText writes "120 units in daily, 100 units in search".
func usedText(limits []api.Limit) string {
	used := make([]string, len(limits))
	for i, l := range limits {
		used[i] = units(l.Used) + " in " + l.Name
	}
	return strings.Join(used, ", ")
}

// ask returns nil when the question is answered with yes.
func (c *cli) ask(question string) error {
	fmt.Fprint(c.stderr, question)
	line, _ := bufio.NewReader(c.stdin).ReadString('\n') // an end of input is no yes
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	default:
		return errors.New("nothing was changed")
	}
}

func (c *cli) reset(ctx context.Context, name, reason string) error {
	done, err := c.reader().Reset(ctx, name, reason)
	if err != nil {
		return inDoubt(c.explain(err), "it may be empty all the same: quotactl log "+name+" shows it")
	}
	return c.print(answer{
		body:  done,
		value: func() (int64, error) { return leastRemaining([]api.Credential{done}) },
		table: func(v term.View) string {
			return term.Pairs([][2]string{{"reset", name}, {"remaining", remainingOf(done)}}, v)
		},
	})
}

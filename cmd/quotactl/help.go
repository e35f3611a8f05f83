package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/manual"
	"quotad/quota/api"
)

const helpUsage = `Print the usage of a command, with an example.

Usage:
  quotactl help [COMMAND]

Example:
  $ quotactl help exec
`

func newHelp(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "help [COMMAND]",
		Short:             "the usage of a command, with an example",
		Long:              helpUsage,
		ValidArgsFunction: completeCommand,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			if len(args) == 0 {
				return c.write(root.Long)
			}
			found, rest, err := root.Find(args)
			if err != nil || found == root || len(rest) > 0 {
				return knownCommand(root, args)
			}
			return c.write(found.Long)
		},
	}
}

func completeCommand(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return commandNames(cmd.Root()), cobra.ShellCompDirectiveNoFileComp
}

const manUsage = `Print the manual page, made of the texts that help prints.

Usage:
  quotactl man

Example:
  $ quotactl man >/usr/local/share/man/man1/quotactl.1
`

func newMan(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:   "man",
		Short: "the manual page",
		Long:  manUsage,
		Args:  arguments(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.write(manualPage(cmd.Root())) },
	}
}

// manualPage returns quotactl(1).
func manualPage(root *cobra.Command) string {
	var b strings.Builder
	page := manual.Page{Name: "quotactl", Section: 1, Version: api.BuildVersion(), Purpose: "ask and operate a running quotad"}
	b.WriteString(page.Header() + ".SH DESCRIPTION\n" + manual.Verbatim(root.Long) + ".SH COMMANDS\n")
	commands(root, func(cmd *cobra.Command) {
		fmt.Fprintf(&b, ".SS %s\n%s", manual.Escape(strings.TrimPrefix(cmd.CommandPath(), "quotactl ")), manual.Verbatim(cmd.Long))
	})
	b.WriteString(manual.SeeAlso("quotad(8)", "quotad.toml(5)"))
	return b.String()
}

// commands calls do for every command below root that people may use.
func commands(root *cobra.Command, do func(*cobra.Command)) {
	for _, cmd := range root.Commands() {
		if !cmd.Hidden {
			do(cmd)
			commands(cmd, do)
		}
	}
}

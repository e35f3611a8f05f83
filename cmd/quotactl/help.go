package main

import "github.com/spf13/cobra"

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

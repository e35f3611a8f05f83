package main

import (
	"context"

	"github.com/spf13/cobra"
)

const completionUsage = `Print a script that lets a shell complete quotactl's commands, flags and names.

Usage:
  quotactl completion bash|zsh|fish|powershell

Example:
  $ source <(quotactl completion bash)
`

func newCompletion(c *cli) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "a completion script for a shell",
		Long:      completionUsage,
		Args:      arguments("SHELL"),
		ValidArgs: shells,
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(c.stdout, true)
			case "zsh":
				return root.GenZshCompletion(c.stdout)
			case "fish":
				return root.GenFishCompletion(c.stdout, true)
			case "powershell":
				return root.GenPowerShellCompletionWithDesc(c.stdout)
			}
			return usageError("use bash, zsh, fish or powershell", "unknown shell %q", args[0])
		},
	}
}

// completes gives a flag the names that the daemon knows. When it does not
// answer, nothing is completed: a prompt is no place for errors.
func completes(cmd *cobra.Command, flag string, names func(context.Context) ([]string, error)) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		known, err := names(cmd.Context())
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		return known, cobra.ShellCompDirectiveNoFileComp
	})
	if err != nil {
		panic(err) // the command has no such flag: a slip in this program
	}
}

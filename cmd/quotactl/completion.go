package main

import (
	"context"

	"github.com/spf13/cobra"

	jobsapi "quotad/jobs/api"
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

// completes gives a flag the names that may stand behind it.
func completes(cmd *cobra.Command, flag string, known func(context.Context) ([]string, error)) {
	complete(cmd, flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return names(known(cmd.Context()))
	})
}

// complete gives a flag what completes its value.
func complete(cmd *cobra.Command, flag string, with cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, with); err != nil {
		panic(err) // the command has no such flag: a slip in this program
	}
}

// completeRegion completes a region of the job that is the first argument, or of
// any job where none is given yet.
func (c *cli) completeRegion(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 0 {
		return names(c.regionNames(cmd.Context()))
	}
	job, err := c.operator().Job(cmd.Context(), args[0])
	return names(regionNames(job), err)
}

// completeJob completes the name of a job as the first argument.
func (c *cli) completeJob(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names(c.jobNames(cmd.Context()))
}

// completeJobAndRegion completes a job and then one of its regions.
func (c *cli) completeJobAndRegion(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		return names(c.jobNames(cmd.Context()))
	case 1:
		job, err := c.operator().Job(cmd.Context(), args[0])
		return names(regionNames(job), err)
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeRun completes the id of a run, the latest first.
func (c *cli) completeRun(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	runs, err := c.operator().Runs(cmd.Context(), jobsapi.Selection{})
	ids := make([]string, len(runs))
	for i, r := range runs {
		ids[i] = r.ID + "\t" + r.Job + " " + string(r.State)
	}
	return names(ids, err)
}

// names completes from what the daemon knows. When it does not answer, nothing
// is completed: a prompt is no place for errors.
func names(known []string, err error) ([]string, cobra.ShellCompDirective) {
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return known, cobra.ShellCompDirectiveNoFileComp
}

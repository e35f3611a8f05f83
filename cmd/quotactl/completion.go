package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
	"quotad/regions"
)

const completionUsage = `Print a script that lets a shell complete quotactl's commands, flags and names.

Example:
  $ source <(quotactl completion bash)
`

func newCompletion(c *cli) *cobra.Command {
	var cmd *cobra.Command
	cmd = command("completion bash|zsh|fish", "a completion script for bash, zsh or fish", completionUsage, func(_ context.Context, args []string) error {
		switch root := cmd.Root(); args[0] {
		case "bash":
			return root.GenBashCompletionV2(c.stdout, true)
		case "zsh":
			return root.GenZshCompletion(c.stdout)
		case "fish":
			return root.GenFishCompletion(c.stdout, true)
		}
		return usageError("use bash, zsh or fish", "unknown shell %q", args[0])
	})
	cmd.ValidArgs = []string{"bash", "zsh", "fish"}
	return cmd
}

// complete lets a shell complete the arguments of a command, and those of its flags that are
// called as an argument is.
func (c *cli) complete(cmd *cobra.Command) {
	arguments := argumentNames(cmd)
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) (list []string, _ cobra.ShellCompDirective) {
			if len(args) >= len(arguments) && strings.Contains(cmd.Use, "-- COMMAND") {
				return nil, cobra.ShellCompDirectiveDefault // the command's own
			}
			for _, argument := range arguments[min(len(args), len(arguments)):] {
				if list = append(list, c.names(cmd.Context(), strings.Trim(argument, "[]"))...); argument != "[CREDENTIAL]" {
					break // else the next argument can stand here
				}
			}
			return list, cobra.ShellCompDirectiveNoFileComp
		}
	}
	for _, argument := range []string{"CREDENTIAL", "LIMIT", "JOB", "REGION"} {
		if flag := strings.ToLower(argument); cmd.LocalNonPersistentFlags().Lookup(flag) != nil {
			completes(cmd, flag, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return c.names(cmd.Context(), argument), cobra.ShellCompDirectiveNoFileComp
			})
		}
	}
}

// names returns the names that the daemon knows for an argument, as the usage calls it: each once, sorted.
// If it does not answer there are none: a prompt is no place for errors.
func (c *cli) names(ctx context.Context, argument string) (names []string) {
	switch argument {
	case "NAME":
		list, _ := c.client().ListClients(ctx)
		names = namesOf(list, func(one api.Clients) string { return one.Name })
	case "JOB", "JOB|RUN":
		list, _ := c.client().Jobs(ctx)
		names = namesOf(list, func(j jobsapi.Job) string { return j.Name })
	case "REGION":
		list, _ := c.client().Jobs(ctx)
		for _, j := range list {
			names = append(names, namesOf(j.Regions, func(r regions.Region) string { return string(r) })...)
		}
	case "CREDENTIAL":
		list, _ := c.client().Credentials(ctx)
		names = namesOf(list, credentialName)
	case "LIMIT":
		list, _ := c.client().Credentials(ctx)
		for _, one := range list {
			names = append(names, namesOf(one.Limits, limitName)...)
		}
	case "OPERATION":
		list, _ := c.client().Credentials(ctx)
		for _, one := range list {
			names = slices.AppendSeq(names, maps.Keys(one.Operations))
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// completes completes the value of a flag.
func completes(cmd *cobra.Command, flag string, by cobra.CompletionFunc) {
	if err := cmd.RegisterFlagCompletionFunc(flag, by); err != nil {
		panic(err) // the command has no such flag: a mistake in this program
	}
}

// words completes by words that are known beforehand.
func words(list []string) cobra.CompletionFunc {
	return cobra.FixedCompletions(list, cobra.ShellCompDirectiveNoFileComp)
}

// namesOf returns the names of a list.
func namesOf[T any](list []T, name func(T) string) []string {
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = name(one)
	}
	return names
}

func credentialName(one api.Credential) string { return one.Name }
func limitName(l api.Limit) string             { return l.Name }

// credentialFlag declares which credential a command is about.
func credentialFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "credential", "", "the credential `NAME`; may be left out in a pass, and where only one is configured")
}

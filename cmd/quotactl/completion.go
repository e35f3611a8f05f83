package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

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

// A lister returns the names of one kind that the daemon knows. If it does not answer, it returns nothing:
// a prompt is no place for errors.
type lister func(context.Context) []string

// listers are those of arguments and flags, by their names in the usage.
func (c *cli) listers() map[string]lister {
	return map[string]lister{
		"CREDENTIAL": c.credentialNames, "LIMIT": c.limitNames, "OPERATION": c.operations, "NAME": c.clientNames,
		"JOB": c.jobNames, "REGION": c.regionNames, "JOB|RUN": c.jobNames,
	}
}

// complete lets a shell complete the arguments of a command, and those of its flags that are
// called as an argument is.
func (c *cli) complete(cmd *cobra.Command) {
	listers, names := c.listers(), argumentNames(cmd)
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) (list []string, _ cobra.ShellCompDirective) {
			if len(args) >= len(names) && strings.Contains(cmd.Use, "-- COMMAND") {
				return nil, cobra.ShellCompDirectiveDefault // the command's own
			}
			for _, name := range names[min(len(args), len(names)):] {
				if list = append(list, listed(cmd.Context(), listers, name)...); name != "[CREDENTIAL]" {
					break // else the next argument can stand here
				}
			}
			return list, cobra.ShellCompDirectiveNoFileComp
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if name := strings.ToUpper(flag.Name); listers[name] != nil {
			completes(cmd, flag.Name, func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
				return listed(cmd.Context(), listers, name), cobra.ShellCompDirectiveNoFileComp
			})
		}
	})
}

// listed returns the names that an argument may be.
func listed(ctx context.Context, listers map[string]lister, argument string) []string {
	if list := listers[strings.Trim(argument, "[]")]; list != nil {
		return list(ctx)
	}
	return nil
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

func jobName(j jobsapi.Job) string             { return j.Name }
func credentialName(one api.Credential) string { return one.Name }
func limitName(l api.Limit) string             { return l.Name }

func (c *cli) jobNames(ctx context.Context) []string {
	list, _ := c.client().Jobs(ctx)
	return namesOf(list, jobName)
}

// regionNames returns the regions of all jobs, each once.
func (c *cli) regionNames(ctx context.Context) (names []string) {
	list, _ := c.client().Jobs(ctx)
	return eachOnce(list, func(j jobsapi.Job) []string {
		return namesOf(j.Regions, func(r regions.Region) string { return string(r) })
	})
}

func (c *cli) credentialNames(ctx context.Context) []string {
	list, _ := c.client().Credentials(ctx)
	return namesOf(list, credentialName)
}

// limitNames returns the limits of all credentials, each once.
func (c *cli) limitNames(ctx context.Context) []string {
	list, _ := c.client().Credentials(ctx)
	return eachOnce(list, func(one api.Credential) []string { return namesOf(one.Limits, limitName) })
}

// operations returns what may be acquired from all credentials, each once.
func (c *cli) operations(ctx context.Context) []string {
	list, _ := c.client().Credentials(ctx)
	return eachOnce(list, func(one api.Credential) []string { return slices.Collect(maps.Keys(one.Operations)) })
}

func eachOnce[T any](list []T, names func(T) []string) (all []string) {
	for _, one := range list {
		all = append(all, names(one)...)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// credentialFlag declares which credential a command is about.
func credentialFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "credential", "", "the credential `NAME`; may be left out in a pass, and where only one is configured")
}

package main

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
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

// A lister returns what can stand in a place of the command line. Of is the argument before
// it or, without one, the value of --credential. If the daemon does not answer, it returns nothing: a
// prompt is no place for errors.
type lister func(ctx context.Context, of string) []string

// listers are those of arguments and flags, by their names in the usage; those of one command alone
// by its name, too.
func (c *cli) listers() map[string]lister {
	anyJob := func(jobsapi.Job) bool { return true }
	return map[string]lister{
		"CREDENTIAL": c.credentialNames, "LIMIT": c.limitNames, "OPERATION": c.operations, "NAME": c.clientNames,
		"JOB": c.jobsThat(anyJob), "REGION": c.regionNames,
		"why [CREDENTIAL]": both(c.credentialNames, c.jobsThat(anyJob)),
		"resume JOB":       c.jobsThat(func(j jobsapi.Job) bool { return j.Pause != nil }),
		"runs [JOB|RUN]":   both(c.jobsThat(anyJob), c.runsThat(func(jobs.Run) bool { return true })),
		"stop JOB|RUN": both(c.jobsThat(func(j jobsapi.Job) bool { return j.Last != nil && j.Last.State == jobs.RunRunning }),
			c.runsThat(func(r jobs.Run) bool { return r.State == jobs.RunRunning })),
	}
}

// complete lets a shell complete the arguments of a command, and those of its flags that are
// called as an argument is.
func (c *cli) complete(cmd *cobra.Command) {
	listers, names := c.listers(), argumentNames(cmd)
	listerOf := func(name string) lister {
		if own := listers[cmd.Name()+" "+name]; own != nil {
			return own
		}
		return listers[strings.Trim(name, "[]")]
	}
	if cmd.ValidArgsFunction == nil {
		cmd.ValidArgsFunction = func(cmd *cobra.Command, args []string, _ string) (list []string, _ cobra.ShellCompDirective) {
			if len(args) >= len(names) && strings.Contains(cmd.Use, "-- COMMAND") {
				return nil, cobra.ShellCompDirectiveDefault // the command's own
			}
			for i, of := len(args), before(cmd, args); i < len(names); i, of = i+1, c.credential("") {
				if lister := listerOf(names[i]); lister != nil {
					list = append(list, lister(cmd.Context(), of)...)
				}
				if names[i] != "[CREDENTIAL]" {
					break // else the next argument can stand here
				}
			}
			return list, cobra.ShellCompDirectiveNoFileComp
		}
	}
	cmd.LocalNonPersistentFlags().VisitAll(func(flag *pflag.Flag) {
		if lister := listers[strings.ToUpper(flag.Name)]; lister != nil {
			completes(cmd, flag.Name, func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
				return lister(cmd.Context(), before(cmd, args)), cobra.ShellCompDirectiveNoFileComp
			})
		}
	})
}

func before(cmd *cobra.Command, args []string) string {
	if len(args) > 0 {
		return args[len(args)-1]
	}
	credential, _ := cmd.Flags().GetString("credential") // empty if there is no such flag
	return credential
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

func both(one, other lister) lister {
	return func(ctx context.Context, of string) []string { return append(one(ctx, of), other(ctx, of)...) }
}

func (c *cli) jobsThat(wanted func(jobsapi.Job) bool) lister {
	return func(ctx context.Context, _ string) []string {
		list, _ := c.client().Jobs(ctx)
		return namesOf(slices.DeleteFunc(list, func(j jobsapi.Job) bool { return !wanted(j) }), jobName)
	}
}

// runsThat lists the ids of runs, the latest first.
func (c *cli) runsThat(wanted func(jobs.Run) bool) lister {
	return func(ctx context.Context, _ string) []string {
		list, _ := c.client().Runs(ctx, jobsapi.Selection{})
		return namesOf(slices.DeleteFunc(list, func(r jobs.Run) bool { return !wanted(r) }),
			func(r jobs.Run) string { return r.ID + "\t" + r.Job + " " + string(r.State) })
	}
}

// regionNames returns the regions of a job, or of all jobs.
func (c *cli) regionNames(ctx context.Context, job string) (names []string) {
	list, _ := c.client().Jobs(ctx)
	for _, j := range list {
		for _, region := range j.Regions {
			if (job == "" || job == j.Name) && !slices.Contains(names, string(region)) {
				names = append(names, string(region))
			}
		}
	}
	if job == "" {
		slices.Sort(names)
	}
	return names
}

func (c *cli) credentialNames(ctx context.Context, _ string) []string {
	list, _ := c.client().Credentials(ctx)
	return namesOf(list, credentialName)
}

// limitNames returns the limits of a credential, or of all, each once.
func (c *cli) limitNames(ctx context.Context, credential string) []string {
	return c.each(ctx, credential, func(one api.Credential) []string { return namesOf(one.Limits, limitName) })
}

// operations returns what may be acquired from a credential, or from all, each once.
func (c *cli) operations(ctx context.Context, credential string) []string {
	return c.each(ctx, credential, func(one api.Credential) []string { return slices.Collect(maps.Keys(one.Operations)) })
}

func (c *cli) each(ctx context.Context, credential string, names func(api.Credential) []string) (all []string) {
	list, _ := c.client().Credentials(ctx)
	for _, one := range list {
		if credential == "" || credential == one.Name || credential == api.OnlyCredential && len(list) == 1 {
			all = append(all, names(one)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// credentialFlag declares which credential a command is about.
func credentialFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "credential", "", "the credential `NAME`; may be left out in a pass, and where only one is configured")
}

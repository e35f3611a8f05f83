package main

import (
	"context"
	"maps"
	"net/url"
	"slices"

	"github.com/spf13/cobra"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
)

const completionUsage = `Print a script that lets a shell complete quotactl's commands, flags and names.

Example:
  $ source <(quotactl completion bash)
`

func newCompletion(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "a completion script for bash, zsh, fish or powershell",
		Long:      completionUsage,
		ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
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

// A lister returns the names that can stand in a place of the command line, behind the
// arguments that are already there.
type lister func(ctx context.Context, args []string) ([]string, error)

// arguments completes the n-th argument by the n-th lister.
func arguments(listers ...lister) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		if len(args) >= len(listers) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return listed(listers[len(args)](cmd.Context(), args))
	}
}

// completes completes the value of a flag.
func completes(cmd *cobra.Command, flag string, known lister) {
	err := cmd.RegisterFlagCompletionFunc(flag, func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		return listed(known(cmd.Context(), args))
	})
	if err != nil {
		panic(err) // the command has no such flag: a mistake in this program
	}
}

// listed completes from what the daemon knows. If it does not answer, nothing is
// completed: a prompt is no place for errors.
func listed(known []string, err error) ([]string, cobra.ShellCompDirective) {
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	return known, cobra.ShellCompDirectiveNoFileComp
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

func (c *cli) jobNames(ctx context.Context, _ []string) ([]string, error) {
	list, err := c.client().Jobs(ctx)
	return namesOf(list, jobName), err
}

// regionNames returns the regions of the job that is the first argument, or of all jobs.
func (c *cli) regionNames(ctx context.Context, args []string) ([]string, error) {
	list, err := c.client().Jobs(ctx)
	var names []string
	for _, j := range list {
		for _, region := range j.Regions {
			if (len(args) == 0 || args[0] == j.Name) && !slices.Contains(names, string(region)) {
				names = append(names, string(region))
			}
		}
	}
	if len(args) == 0 {
		slices.Sort(names)
	}
	return names, err
}

// runIDs returns the ids of runs, the latest first.
func (c *cli) runIDs(ctx context.Context, _ []string) ([]string, error) {
	return c.runs(ctx, func(jobs.Run) bool { return true })
}

// runsUnderWay returns the ids of the runs that can be stopped.
func (c *cli) runsUnderWay(ctx context.Context, _ []string) ([]string, error) {
	return c.runs(ctx, func(r jobs.Run) bool { return r.State == jobs.RunRunning })
}

func (c *cli) runs(ctx context.Context, wanted func(jobs.Run) bool) (ids []string, err error) {
	runs, err := c.client().Runs(ctx, jobsapi.Selection{})
	for _, r := range runs {
		if wanted(r) {
			ids = append(ids, r.ID+"\t"+r.Job+" "+string(r.State))
		}
	}
	return ids, err
}

func (c *cli) credentialNames(ctx context.Context, _ []string) ([]string, error) {
	status, err := c.client().Status(ctx)
	return namesOf(status.Credentials, credentialName), err
}

// limitNames returns the names of all limits, each once.
func (c *cli) limitNames(ctx context.Context, _ []string) ([]string, error) {
	status, err := c.client().Status(ctx)
	var names []string
	for _, credential := range status.Credentials {
		names = append(names, namesOf(credential.Limits, limitName)...)
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// limitsOf returns the names of the limits of the credential that is the first argument.
func (c *cli) limitsOf(ctx context.Context, args []string) ([]string, error) {
	var one api.Credential
	err := c.client().Get(ctx, "/v1/credentials/"+url.PathEscape(args[0]), &one)
	return namesOf(one.Limits, limitName), err
}

// credentialsAndLimits returns the credentials and, if there is only one, its limits.
func (c *cli) credentialsAndLimits(ctx context.Context, args []string) ([]string, error) {
	credentials, err := c.credentialNames(ctx, args)
	limits, _ := c.limitsOf(ctx, []string{c.credential("")}) // fails for several credentials
	return append(credentials, limits...), err
}

// operationsOf returns the operations of the credential that is the first argument.
func (c *cli) operationsOf(ctx context.Context, args []string) ([]string, error) {
	return c.operations(ctx, args[0])
}

// operations returns what may be acquired from a credential, or from all of them if
// credential is empty, each once.
func (c *cli) operations(ctx context.Context, credential string) ([]string, error) {
	list, err := c.client().Credentials(ctx)
	var names []string
	for _, one := range list {
		if credential == "" || one.Name == credential {
			names = slices.AppendSeq(names, maps.Keys(one.Operations))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// operationsOfFlag returns a lister of the operations of the credential that a flag names.
func (c *cli) operationsOfFlag(credential *string) lister {
	return func(ctx context.Context, _ []string) ([]string, error) { return c.operations(ctx, *credential) }
}

// credentialFlag declares which credential a command is about.
func (c *cli) credentialFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "credential", "", "the credential `NAME`; may be left out in a pass, and where only one is configured")
	completes(cmd, "credential", c.credentialNames)
}

package main

import (
	"cmp"
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

Usage:
  quotactl completion bash|zsh|fish|powershell

Example:
  $ source <(quotactl completion bash)
`

func newCompletion(c *cli) *cobra.Command {
	shells := []string{"bash", "zsh", "fish", "powershell"}
	return &cobra.Command{
		Use:       "completion bash|zsh|fish|powershell",
		Short:     "a completion script for bash, zsh, fish or powershell",
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
	var ids []string
	for _, r := range runs {
		if cmd.Name() != "stop" || r.State == jobs.RunRunning { // what is over cannot be stopped
			ids = append(ids, r.ID+"\t"+r.Job+" "+string(r.State))
		}
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

// credentialFlag declares which credential a command is about.
func (c *cli) credentialFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "credential", "", "whose")
	completes(cmd, "credential", c.configured)
}

// credential returns the credential that a question is about: the named one, else that
// of the pass, else the only one, whichever the daemon has.
func (c *cli) credential(named string) string {
	return cmp.Or(named, c.env.Get("QUOTAD_CREDENTIAL"), api.OnlyCredential)
}

// configured returns the names of the credentials.
func (c *cli) configured(ctx context.Context) ([]string, error) {
	status, err := c.reader().Status(ctx)
	return credentialNames(status.Credentials), err
}

// operations returns what may be acquired from one credential, or from all where
// none is named, each once.
func (c *cli) operations(ctx context.Context, credential string) ([]string, error) {
	list, err := c.reader().Credentials(ctx)
	var names []string
	for _, one := range list {
		if credential == "" || one.Name == credential {
			names = slices.AppendSeq(names, maps.Keys(one.Operations))
		}
	}
	slices.Sort(names)
	return slices.Compact(names), err
}

// completeOperation completes an operation as the first argument, of the
// credential that the flag names.
func (c *cli) completeOperation(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names(c.operations(cmd.Context(), cmd.Flag("credential").Value.String()))
}

// completeCredential completes a credential as the first argument.
func (c *cli) completeCredential(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names(c.configured(cmd.Context()))
}

// completeCredentialAndLimit completes a credential and then one of its limits, or a
// limit of the only credential.
func (c *cli) completeCredentialAndLimit(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		credentials, err := c.configured(cmd.Context())
		limits, _ := c.limitsOf(cmd.Context(), c.credential("")) // none of several credentials
		return names(append(credentials, limits...), err)
	case 1:
		return names(c.limitsOf(cmd.Context(), args[0]))
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeLimit completes a limit, of the credential that a flag names or the only one.
func (c *cli) completeLimit(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return names(c.limitsOf(cmd.Context(), c.credential(cmd.Flag("credential").Value.String())))
}

// limitsOf returns the names of a credential's limits.
func (c *cli) limitsOf(ctx context.Context, credential string) ([]string, error) {
	var one api.Credential
	err := c.reader().Get(ctx, "/v1/credentials/"+url.PathEscape(credential), &one)
	return limitNames(one.Limits), err
}

func limitNames(limits []api.Limit) []string {
	names := make([]string, len(limits))
	for i, l := range limits {
		names[i] = l.Name
	}
	return names
}

package main

import (
	"context"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quotad/quota/api"
)

// credentialFlag declares which credential a command is about.
func (c *cli) credentialFlag(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "credential", "", "whose")
	completes(cmd, "credential", c.configured)
}

// credential returns the credential that a question is about: the named one, else
// the only one that is configured.
func (c *cli) credential(ctx context.Context, named string) (string, error) {
	if named != "" {
		return named, nil
	}
	return c.onlyCredential(ctx, "add --credential NAME")
}

func (c *cli) onlyCredential(ctx context.Context, hint string) (string, error) {
	names, err := c.configured(ctx)
	if err != nil {
		return "", c.explain(err)
	}
	if len(names) != 1 {
		return "", usageError(hint, "several credentials are configured: %s", strings.Join(names, ", "))
	}
	return names[0], nil
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

// completeCredentialAndLimit completes a credential and then one of its limits.
func (c *cli) completeCredentialAndLimit(cmd *cobra.Command, args []string, word string) ([]string, cobra.ShellCompDirective) {
	if len(args) == 1 {
		return names(c.limitsOf(cmd.Context(), args[0]))
	}
	return c.completeCredential(cmd, args, word)
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

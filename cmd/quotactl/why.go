package main

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

const whyUsage = `Tell whether calls would be granted now; if not, which limit is in the way, by
how much, who holds its units, when exactly the calls fit, and what would change
that. Asking spends nothing.

Usage:
  quotactl why [CREDENTIAL] OPERATION [FLAGS]

Flags:
      --count N   so many calls at once (default 1)

CREDENTIAL may be left out where only one is configured. With -o value the
answer is how many units are missing, 0 when the calls fit.

Example:
  $ quotactl why youtube search.list
  denied: no room for 100 units in limit daily, 40 are missing
  fits in 3h 11m, at 12:38:11, if nothing else happens
`

func newWhy(c *cli) *cobra.Command {
	count := int64(1)
	cmd := &cobra.Command{
		Use:               "why [CREDENTIAL] OPERATION",
		Short:             "would a call be granted now, and if not, why",
		Long:              whyUsage,
		Args:              whyArguments,
		ValidArgsFunction: c.completeWhy,
		RunE: func(cmd *cobra.Command, args []string) error {
			if count < 1 {
				return usageError("", "--count must be a whole number from 1: %d", count)
			}
			return c.why(cmd.Context(), args, count)
		},
	}
	cmd.Flags().Int64Var(&count, "count", 1, "so many calls at once")
	return cmd
}

func whyArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 1 || len(args) == 2 {
		return nil
	}
	return usageError(seeHelp(cmd), "quotactl why takes [CREDENTIAL] OPERATION: %d given", len(args))
}

// completeWhy completes a credential or an operation first, then an operation.
func (c *cli) completeWhy(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	switch len(args) {
	case 0:
		credentials, err := c.configured(cmd.Context())
		operations, err2 := c.operations(cmd.Context(), "")
		return names(append(credentials, operations...), errors.Join(err, err2))
	case 1:
		return names(c.operations(cmd.Context(), args[0]))
	default:
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

func (c *cli) why(ctx context.Context, args []string, count int64) error {
	operation := args[len(args)-1]
	credential := args[0]
	if len(args) == 1 {
		var err error
		if credential, err = c.onlyCredential(ctx, "quotactl why CREDENTIAL "+operation); err != nil {
			return err
		}
	}
	w, err := c.reader().Why(ctx, credential, operation, count)
	if err != nil {
		return c.explain(err)
	}
	return c.print(answer{
		body:  w,
		value: func() (int64, error) { return mostMissing(w), nil },
		table: func(v term.View) string { return whyPage(w, v) },
	})
}

func mostMissing(w api.Why) int64 {
	most := int64(0)
	for _, o := range w.Obstacles {
		most = max(most, o.Missing)
	}
	return most
}

func whyPage(w api.Why, v term.View) string {
	var b strings.Builder
	v.Prose(&b, 0, verdictStyle(w), verdict(w))
	if w.RetryAt != nil {
		v.Prose(&b, 0, term.Plain, fmt.Sprintf("fits %s, if nothing else happens", v.When(*w.RetryAt)))
	}
	b.WriteByte('\n')
	renderLimits(&b, w.Limits, nil, v)
	for _, o := range w.Obstacles {
		renderHolders(&b, o, v)
	}
	if cures := curesOf(w, v); len(cures) > 0 {
		b.WriteString("\nwhat would change it\n")
		for _, cure := range cures {
			v.Item(&b, 2, "- ", cure)
		}
	}
	return b.String()
}

func verdictStyle(w api.Why) term.Style {
	if w.Granted {
		return term.Green
	}
	return term.Red
}

func verdict(w api.Why) string {
	asked := fmt.Sprintf("%s of %s", quota.Count(w.Count, "call", "calls"), w.Operation)
	switch {
	case w.Outage:
		return fmt.Sprintf("granted: %s (%s), from the outage's own units: the ledger cannot be reached", asked, units(w.Units))
	case w.Granted:
		return fmt.Sprintf("granted: there is room for %s (%s), and for %s in all", asked, units(w.Units), quota.Thousands(w.FitsCount))
	case quota.Reason(w.Reason) == quota.CostExceedsLimit:
		return fmt.Sprintf("never: %s cannot fit limit %s, however long one waits", units(w.Units), w.Limit)
	default:
		return "denied: " + obstacleText(w)
	}
}

func obstacleText(w api.Why) string {
	text := fmt.Sprintf("no room for %s in limit %s", units(w.Units), w.Limit)
	for _, o := range w.Obstacles {
		switch {
		case o.Limit != w.Limit:
		case o.Missing > 0:
			text = fmt.Sprintf("no room for %s in limit %s, %s missing", units(o.Cost), o.Limit, quota.Count(o.Missing, "is", "are"))
		default:
			text += ", which counts as spent until its log is as long as its window"
		}
	}
	return text
}

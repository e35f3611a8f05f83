package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

const clientsUsage = `Show the limits of the clients of your own APIs and, to operators, which of
their subjects were denied most; or what one subject has left.

Usage:
  quotactl clients [NAME] [FLAGS]

Flags:
      --subject TEXT   only this address, user or key, and what it has left
      --reset          forget what the subject spent; for operators

Subjects are kept as hashes, unless the group says subjects = "plain": the list
shows the hash, and --subject shows both. Calls are counted since this quotad
started, denials over the last two hours at most. With -o value the answer is
the number of groups; of NAME, how many calls were denied; of a subject, what
remains, in units.

Example:
  $ quotactl clients public --subject 192.0.2.1
  public, kept as #42023dfee4b90b79af4a4afe8a4f0a89
    LIMIT                                    USED  RESERVE  REMAINING  UNITS
    default  ████████████░░░░░░░░░░░░░░░░░░    24        0         36     60
             in any 1m; 1 unit back in 12s, at 09:12:30
`

func newClients(c *cli) *cobra.Command {
	subject, reset := "", false
	cmd := &cobra.Command{
		Use:   "clients [NAME]",
		Short: "limits of your own API's clients, and who was denied most",
		Long:  clientsUsage,
		Args:  arguments("[NAME]"),
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return names(c.clientNames(cmd.Context()))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			named := cmd.Flags().Changed("subject")
			switch {
			case named && (len(args) == 0 || subject == ""):
				return usageError(seeHelp(cmd), "--subject needs NAME, and is not empty")
			case reset && !named:
				return usageError(seeHelp(cmd), "--reset needs --subject")
			case reset:
				return c.resetSubject(cmd.Context(), args[0], subject)
			case named:
				return c.showSubject(cmd.Context(), args[0], subject)
			case len(args) == 1:
				return c.showClients(cmd.Context(), args[0])
			}
			return c.listClients(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&subject, "subject", "", "only this one")
	cmd.Flags().BoolVar(&reset, "reset", false, "forget what the subject spent")
	return cmd
}

// clientNames returns what the configured clients are called.
func (c *cli) clientNames(ctx context.Context) ([]string, error) {
	list, err := c.reader().ListClients(ctx)
	names := make([]string, len(list))
	for i, one := range list {
		names[i] = one.Name
	}
	return names, err
}

func (c *cli) listClients(ctx context.Context) error {
	list, err := c.reader().ListClients(ctx)
	if err != nil {
		return c.explain(err)
	}
	return c.print(answer{
		body:  list,
		value: func() (int64, error) { return int64(len(list)), nil },
		table: func(v term.View) string { return clientsTable(list, v) },
	})
}

func clientsTable(list []api.Clients, v term.View) string {
	if len(list) == 0 {
		return "no clients are configured\n"
	}
	t := term.Table{Columns: []term.Column{
		{Head: "CLIENTS"}, {Head: "LIMIT"}, {Head: "UNITS", Right: true}, {Head: "OF EACH"}, {Head: "ALGORITHM"}, {Head: "GRANTED", Right: true}, {Head: "DENIED", Right: true},
	}}
	for _, one := range list {
		for i, l := range one.Limits {
			cells := []term.Cell{{}, {Text: l.Name}, {Text: quota.Thousands(l.Units)}, {Text: l.Describe}, {}, {}, {}}
			if i == 0 {
				cells[0].Text, cells[4].Text = one.Name, one.Algorithm
				cells[5].Text, cells[6].Text = quota.Thousands(one.Granted), quota.Thousands(one.Denied)
			}
			t.Add(cells...)
		}
	}
	var b strings.Builder
	t.Render(&b, v)
	return b.String()
}

func (c *cli) showClients(ctx context.Context, name string) error {
	one, err := c.reader().GetClients(ctx, name)
	if err != nil {
		return c.explain(err)
	}
	return c.print(answer{
		body:  one,
		value: func() (int64, error) { return one.Denied, nil },
		table: func(v term.View) string { return clientsPage(one, v) },
	})
}

func clientsPage(one api.Clients, v term.View) string {
	var b strings.Builder
	v.Prose(&b, 0, term.Bold, "clients "+one.Name)
	for _, l := range one.Limits {
		v.Item(&b, 2, l.Name+" ", fmt.Sprintf("%s for each %s", quota.Count(l.Units, "unit", "units"), l.Describe))
	}
	for _, operation := range slices.Sorted(maps.Keys(one.Operations)) {
		v.Item(&b, 2, operation+" ", "costs "+quota.Count(one.Operations[operation], "unit", "units"))
	}
	outage := "on an outage every call is granted"
	if one.OnOutage != "open" {
		outage = "on an outage no call is granted"
	}
	v.Prose(&b, 2, term.Plain, "algorithm "+one.Algorithm+"; "+outage)
	v.Prose(&b, 2, term.Plain, fmt.Sprintf("granted %s, denied %s%s%s", quota.Count(one.Granted, "call", "calls"), quota.Thousands(one.Denied),
		some(one.OutageGrants, ", granted without the ledger "), some(one.Undecided, ", not decided ")))
	switch {
	case one.Top == nil:
		v.Prose(&b, 2, term.Faint, "only operators see who was denied")
		return b.String()
	case len(one.Top) == 0:
		return b.String()
	}
	b.WriteByte('\n')
	t := term.Table{Indent: 2, Columns: []term.Column{{Head: "SUBJECT"}, {Head: "DENIED", Right: true}, {Head: "LAST" + v.ZoneMark()}}}
	for _, d := range one.Top {
		subject := term.Cell{Text: v.Clean(d.Subject)}
		if d.Hash != "" {
			subject = term.Cell{Text: "#" + d.Hash, Style: term.Faint}
		}
		t.Add(subject, term.Cell{Text: quota.Thousands(d.Denials)}, term.Cell{Text: v.Clock(d.Last)})
	}
	t.Render(&b, v)
	return b.String()
}

// some is empty of nothing.
func some(n int64, text string) string {
	if n == 0 {
		return ""
	}
	return text + quota.Thousands(n)
}

func (c *cli) showSubject(ctx context.Context, name, subject string) error {
	state, err := c.reader().Subject(ctx, name, subject)
	if err != nil {
		return c.explain(err)
	}
	return c.print(answer{
		body:  state,
		value: func() (int64, error) { return leastRemaining([]api.Credential{{Limits: state.Limits}}) },
		table: func(v term.View) string { return subjectPage(state, v) },
	})
}

func subjectPage(state api.SubjectState, v term.View) string {
	var b strings.Builder
	title := state.Name
	if state.Hash != "" {
		title += ", kept as #" + state.Hash
	}
	v.Prose(&b, 0, term.Bold, title)
	renderLimits(&b, "", state.Limits, nil, v)
	return b.String()
}

func (c *cli) resetSubject(ctx context.Context, name, subject string) error {
	done, err := c.reader().ResetSubject(ctx, name, subject)
	if err != nil {
		return c.explain(err)
	}
	return c.print(answer{
		body:  done,
		value: noInteger("a reset"),
		table: func(v term.View) string {
			return term.Pairs([][2]string{{"reset", "the subject has its whole limits again"}}, v)
		},
	})
}

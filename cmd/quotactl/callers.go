package main

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota/api"
)

const clientsUsage = `Show the limits of the clients of your own APIs, or what one subject has left.

Subjects are kept as hashes: with --subject you see the hash. Calls are counted
since this quotad started. With -o value and --subject the answer is what
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
	var cmd *cobra.Command
	cmd = command("clients [NAME] [FLAGS]", "limits of your own API's clients", clientsUsage, func(ctx context.Context, args []string) error {
		named := cmd.Flags().Changed("subject")
		switch {
		case named && (len(args) == 0 || subject == ""):
			return usageError(seeHelp(cmd), "--subject needs NAME, and is not empty")
		case reset && !named:
			return usageError(seeHelp(cmd), "--reset needs --subject")
		case reset:
			if c.output == "value" {
				return noInteger()
			}
			done, err := c.client().ResetSubject(ctx, args[0], subject)
			return show(c, done, err, nil, func(_ api.SubjectReset, v term.View) string {
				return term.Pairs([][2]string{{"reset", "the subject has its whole limits again"}}, v)
			})
		case named:
			state, err := c.client().Subject(ctx, args[0], subject)
			return show(c, state, err, subjectRemaining, subjectPage)
		case len(args) == 1:
			one, err := c.client().GetClients(ctx, args[0])
			return show(c, one, err, nil, func(one api.Clients, v term.View) string { return clientsTable([]api.Clients{one}, v) })
		}
		list, err := c.client().ListClients(ctx)
		return show(c, list, err, nil, clientsTable)
	})
	cmd.Flags().StringVar(&subject, "subject", "", "only the address, user or key `TEXT`, and what it has left")
	cmd.Flags().BoolVar(&reset, "reset", false, "forget what the subject spent; for operators")
	return cmd
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
			if i == 0 {
				t.Add(one.Name, l.Name, l.Units, l.Describe, one.Algorithm, one.Granted, one.Denied)
			} else {
				t.Add("", l.Name, l.Units, l.Describe, "", "", "")
			}
		}
	}
	return t.Text(v)
}

func subjectRemaining(state api.SubjectState) (int64, error) {
	return minRemaining([]api.Credential{{Limits: state.Limits}})
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

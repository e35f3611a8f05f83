package main

import (
	"context"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
)

const clientsUsage = `
Show the limits of the clients of your own APIs, or what one subject has left.
Subjects are kept as hashes. Calls are counted since this quotad started.

Example:
  $ quotactl clients public --subject 192.0.2.1
  public, kept as #42023dfee4b90b79af4a4afe8a4f0a89
  LIMIT                     LEFT  OF  OUTLOOK
  default  ██████░░░░░░░░░░   36  60`

func newClients(c *cli) *cobra.Command {
	subject, reset := "", false
	cmd := command("clients [NAME] [--subject TEXT [--reset]]", "limits of your own API's clients", clientsUsage, 0, 1, func(ctx context.Context, args []string) error {
		client := c.client()
		switch {
		case subject != "" && len(args) == 0 || reset && subject == "":
			return usageError("quotactl clients NAME --subject TEXT --reset", "--subject needs NAME, and --reset needs both")
		case reset:
			done, err := client.ResetSubject(ctx, args[0], subject)
			return show(c, done, err, func(_ api.SubjectReset, v wording.View) string {
				return "the subject has its whole limits again\n"
			})
		case subject != "":
			state, err := client.Subject(ctx, args[0], subject)
			return show(c, state, err, subjectPage)
		case len(args) == 1:
			one, err := client.GetClients(ctx, args[0])
			return show(c, one, err, func(one api.Clients, v wording.View) string { return clientsTable([]api.Clients{one}, v) })
		}
		list, err := client.ListClients(ctx)
		return show(c, list, err, clientsTable)
	})
	cmd.Flags().StringVar(&subject, "subject", "", "only the address, user or key `TEXT`, and what it has left")
	cmd.Flags().BoolVar(&reset, "reset", false, "forget what the subject spent; for operators")
	return cmd
}

func clientsTable(list []api.Clients, v wording.View) string {
	if len(list) == 0 {
		return "no clients are configured\n"
	}
	t := table{columns: []column{
		{head: "CLIENTS"}, {head: "LIMIT"}, {head: "UNITS", right: true}, {head: "OF EACH"}, {head: "ALGORITHM"}, {head: "GRANTED", right: true}, {head: "DENIED", right: true},
	}}
	for _, one := range list {
		for i, l := range one.Limits {
			if i == 0 {
				t.add(one.Name, l.Name, l.Units, l.Describe, one.Algorithm, one.Granted, one.Denied)
			} else {
				t.add("", l.Name, l.Units, l.Describe, "", "", "")
			}
		}
	}
	return t.text(v)
}

func subjectPage(state api.SubjectState, v wording.View) string {
	title := state.Name
	if state.Hash != "" {
		title += ", kept as #" + state.Hash
	}
	limits := jobsapi.Status{Status: api.Status{Credentials: []api.Credential{{Limits: state.Limits}}}}
	return v.Paint(wording.Bold, v.Clean(title)) + "\n" + limitTable(limits, v).text(v)
}

package main

import (
	"context"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

const remoteUsage = `List the callers on other hosts: when each was here last and from where, the
units it has spent in the windows of its limits, and how many of its requests
were refused.

REFUSED counts denied acquires, FORBIDDEN what the caller may not do. Both
count from the start of quotad.

Example:
  $ quotactl remote
  on [::]:9466; certificate until Mon 09:12:30
  CALLER  LAST SEEN  FROM       TOKENS  SPENT  GRANTED  REFUSED  FORBIDDEN
  shop    13:27:04   192.0.2.7       1     40       52        3          0
`

func newRemote(c *cli) *cobra.Command {
	return command("remote [FLAGS]", "the callers on other hosts: last seen, spent, refused", remoteUsage, func(ctx context.Context, _ []string) error {
		remote, err := c.client().Remote(ctx)
		return show(c, remote, err, nil, remoteTable)
	})
}

// knowsRemote returns an error unless a caller of that name is configured.
func (c *cli) knowsRemote(ctx context.Context, name string) error {
	remote, err := c.client().Remote(ctx)
	if err != nil || slices.ContainsFunc(remote.Callers, func(one api.RemoteCaller) bool { return one.Name == name }) {
		return err
	}
	return api.NewProblem(api.NotFound, "there is no remote caller %q: quotactl remote lists them", name)
}

func remoteTable(remote api.Remote, v term.View) string {
	if remote.Address == "" {
		return "no [remote] listen is configured: quotad answers on its socket alone\n"
	}
	var b strings.Builder
	v.Prose(&b, 0, term.Plain, strings.Join(remoteFacts(remote, v), "; "))
	t := term.Table{Columns: []term.Column{
		{Head: "CALLER"}, {Head: "LAST SEEN" + v.ZoneMark()}, {Head: "FROM", Sinks: true}, {Head: "TOKENS", Right: true}, {Head: "SPENT", Right: true},
		{Head: "GRANTED", Right: true}, {Head: "REFUSED", Right: true}, {Head: "FORBIDDEN", Right: true},
	}}
	for _, one := range remote.Callers {
		seen, units := "never", int64(0)
		if one.LastSeen != nil {
			seen = v.Clock(*one.LastSeen)
		}
		for _, spent := range one.Spent {
			units += spent.Units
		}
		t.Add(one.Name, seen, v.Clean(one.From), one.Tokens, units, int64(one.Granted), int64(one.Refused), int64(one.Forbidden))
	}
	if len(remote.Callers) > 0 {
		t.Render(&b, v)
	}
	return b.String()
}

// remoteFacts say at which address quotad answers remote callers, and what is unusual.
func remoteFacts(remote api.Remote, v term.View) []string {
	facts := []string{"on " + remote.Address}
	switch c := remote.Certificate; {
	case c == nil:
		facts = append(facts, "plain HTTP, behind a proxy")
	case c.Error != "":
		facts = append(facts, "the new certificate cannot be used, the one before ends "+v.When(c.NotAfter)+": "+c.Error)
	default:
		facts = append(facts, "certificate until "+v.Clock(c.NotAfter)+v.ZoneMark())
	}
	if remote.WrongTokens > 0 {
		facts = append(facts, quota.Count(int64(remote.WrongTokens), "request", "requests")+" without a known token")
	}
	if remote.TurnedAway > 0 {
		facts = append(facts, quota.Count(int64(remote.TurnedAway), "connection", "connections")+" too many")
	}
	if remote.Handshakes > 0 {
		facts = append(facts, quota.Count(int64(remote.Handshakes), "connection", "connections")+" without TLS")
	}
	return facts
}

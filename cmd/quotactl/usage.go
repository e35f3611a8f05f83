package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	"quotad/quota"
	"quotad/quota/api"
)

const usageUsage = `
Show who spent what, after settling: of CREDENTIAL, else of all. It sums the
log. Without --since it is what each limit's window counts now.

Example:
  $ quotactl usage --by region --since 6h`

func newUsage(c *cli) *cobra.Command {
	var by, since string
	cmd := command("usage [CREDENTIAL] [FLAGS]", "who spent what, by job, region, operation or day", usageUsage, 0, 1, func(ctx context.Context, args []string) error {
		if words := []string{"job", "region", "operation", "day"}; !slices.Contains(words, by) {
			return usageError(quota.DidYouMean(by, words, "words"), "--by takes no %q", by)
		}
		from, err := c.since(since)
		if err != nil {
			return err
		}
		return c.usage(ctx, credentialBefore(args, 0), api.UsageQuery{By: by, Since: from, Zone: c.view().Zone})
	})
	cmd.Flags().StringVar(&by, "by", "job", "group by `WORD`: job (or other caller), region, operation or day")
	sinceFlag(cmd, &since, "spending")
	return cmd
}

// usage prints the usage of a credential, or of each if several are configured and none is named.
func (c *cli) usage(ctx context.Context, credential string, q api.UsageQuery) error {
	names := []string{credential}
	if credential == api.OnlyCredential {
		if s, _ := c.client().Status(ctx); len(s.Credentials) > 1 {
			names = nil
			for _, one := range s.Credentials {
				names = append(names, one.Name)
			}
		}
	}
	for i, name := range names {
		u, err := c.client().Usage(ctx, name, q)
		table := func(u api.Usage, v wording.View) string { return "\n"[:min(i, 1)] + usageTable(u, v) }
		if err := show(c, u, err, table); err != nil {
			return err
		}
	}
	return nil
}

// usageTable has a line for each share.
func usageTable(u api.Usage, v wording.View) string {
	var b strings.Builder
	v.Prose(&b, 0, wording.Bold, fmt.Sprintf("%s since %s, %s ago", u.Credential, v.Clock(u.Since), wording.Brief(v.Now.Sub(u.Since))))
	if u.Total.Calls == 0 && u.Total.Units == 0 {
		return b.String() + "nothing was spent\n"
	}
	t := table{columns: []column{
		{head: strings.ToUpper(u.By)}, {head: "CALLS", right: true}, {head: "UNITS", right: true}, {head: "SHARE", right: true},
	}}
	for _, s := range u.Shares {
		t.add(shareName(u.By, s.Name, v), s.Calls, s.Units, percent(s.Units, u.Total.Units))
	}
	t.add(wording.Line{Text: "total", Style: wording.Bold}, u.Total.Calls, u.Total.Units, "")
	b.WriteString(t.text(v))
	for _, name := range slices.Sorted(maps.Keys(u.Total.WouldDeny)) {
		refused := quota.Count(u.Total.WouldDeny[name], "call", "calls")
		v.Prose(&b, 0, wording.Yellow, fmt.Sprintf("limit %s would have refused %s, if it were enforced", name, refused))
	}
	return b.String()
}

// shareName is what people read for the name of a share.
func shareName(by, name string, v wording.View) string {
	switch {
	case name == "" && by == "operation":
		return "(booked)"
	case name == "":
		return "(outside a pass)"
	}
	caller := v.Caller(name)
	if user, is := strings.CutPrefix(caller, "@"); is {
		return "user " + user
	}
	return caller
}

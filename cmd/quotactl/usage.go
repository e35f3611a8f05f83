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
  $ quotactl usage --by region --since 6h
  youtube since 03:26:53, 6h ago
  REGION  CALLS  UNITS  SHARE
  US         96    192    60%
  GB         64    128    40%
  total     160    320`

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
		names := []string{credentialBefore(args, 0)}
		if names[0] == api.OnlyCredential {
			if s, _ := c.client().Status(ctx); len(s.Credentials) > 1 {
				names = namesOf(s.Credentials, func(one api.Credential) string { return one.Name })
			}
		}
		return c.usage(ctx, names, api.UsageQuery{By: by, Since: asQuery(from), Zone: c.view().Zone})
	})
	cmd.Flags().StringVar(&by, "by", "job", "group by `WORD`: job (or other caller), region, operation or day")
	sinceFlag(cmd, &since, "spending")
	return cmd
}

func (c *cli) usage(ctx context.Context, names []string, q api.UsageQuery) error {
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
	v.Prose(&b, 0, wording.Bold, fmt.Sprintf("%s since %s%s, %s ago", u.Credential, v.Clock(u.Since), v.ZoneMark(), wording.Brief(v.Now.Sub(u.Since))))
	if u.Total.Calls == 0 && u.Total.Units == 0 {
		return b.String() + "nothing was spent\n"
	}
	t := table{columns: []column{
		{head: strings.ToUpper(u.By)}, {head: "CALLS", right: true}, {head: "UNITS", right: true}, {head: "SHARE", right: true}, {head: "WOULD REFUSE", right: true},
	}}
	for _, s := range u.Shares {
		t.add(shareName(u.By, s.Name, v), s.Calls, s.Units, percent(s.Units, u.Total.Units), wouldRefuse(s))
	}
	t.add(wording.Line{Text: "total", Style: wording.Bold}, u.Total.Calls, u.Total.Units, "", wouldRefuse(u.Total))
	b.WriteString(t.text(v))
	for _, name := range slices.Sorted(maps.Keys(u.Total.WouldDeny)) {
		refused := quota.Count(u.Total.WouldDeny[name], "call", "calls")
		v.Prose(&b, 0, wording.Yellow, fmt.Sprintf("limit %s would have refused %s, if it were enforced", name, refused))
	}
	return b.String()
}

// wouldRefuse is how many calls limits would have refused, if they were enforced; empty: none.
func wouldRefuse(s api.SpentBy) string {
	most := int64(0) // a call that several refuse is one
	for _, calls := range s.WouldDeny {
		most = max(most, calls)
	}
	if most == 0 {
		return ""
	}
	return quota.Thousands(most)
}

// shareName is what people read for the name of a share.
func shareName(by, name string, v wording.View) string {
	switch {
	case name == "" && by == "operation":
		return "(booked)"
	case name == "":
		return "(outside a pass)"
	}
	return v.Caller(name)
}

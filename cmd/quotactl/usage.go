package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

const usageUsage = `Show who spent what, after settling.

Usage:
  quotactl usage [CREDENTIAL] [FLAGS]

Flags:
      --by WORD           job (default), region, operation, caller or hour
      --since TIME        90m, 24h, 7d, or an instant like 2026-03-14T09:00:00Z,
                          as far back as the log goes; default: what each
                          limit's window counts now
      --limit NAME        only what counts in this limit; default: the largest
                          cost of each call
      --suggest-expects   instead: what the ok passes of each job spent in the
                          last 7d or --since, as expects for config.toml

CREDENTIAL may be left out where only one is configured. With -o value the
answer is the sum, in units.

Example:
  $ quotactl usage --by region --since 6h
  youtube since 03:26:53, 6h ago
  REGION  CALLS  UNITS  SHARE
  US         96    192    60%
  GB         64    128    40%
  total     160    320
`

// A usageQuery says whose spending is asked for, and how it is told apart.
type usageQuery struct {
	credential, by, since, limit string
}

func newUsage(c *cli) *cobra.Command {
	var q usageQuery
	suggest := false
	cmd := &cobra.Command{
		Use:               "usage [CREDENTIAL]",
		Short:             "who spent what, by job, region, operation, caller or hour",
		Long:              usageUsage,
		Args:              arguments("[CREDENTIAL]"),
		ValidArgsFunction: c.completeCredential,
		RunE: func(cmd *cobra.Command, args []string) error {
			q.credential = strings.Join(args, "")
			if suggest {
				return c.suggest(cmd.Context(), q)
			}
			return c.usage(cmd.Context(), q)
		},
	}
	cmd.Flags().StringVar(&q.by, "by", string(quota.ByJob), "group by this")
	cmd.Flags().StringVar(&q.since, "since", "", "only spending since then")
	cmd.Flags().StringVar(&q.limit, "limit", "", "only what counts in this limit")
	cmd.Flags().BoolVar(&suggest, "suggest-expects", false, "what passes took, as expects")
	completes(cmd, "by", func(context.Context) ([]string, error) { return dimensions(), nil })
	completes(cmd, "limit", c.limitNames)
	return cmd
}

func dimensions() []string {
	var words []string
	for _, d := range quota.Dimensions() {
		words = append(words, string(d))
	}
	return words
}

func (c *cli) usage(ctx context.Context, q usageQuery) error {
	if !slices.Contains(dimensions(), q.by) {
		return usageError(quota.DidYouMean(q.by, dimensions(), "words"), "--by takes no %q", q.by)
	}
	u, err := c.reader().Usage(ctx, c.credential(q.credential), api.UsageQuery{By: q.by, Since: q.since})
	if err != nil {
		return c.explain(err)
	}
	if _, known := u.Total.Limits[q.limit]; q.limit != "" && !known {
		return notFound("limit", q.limit, slices.Sorted(maps.Keys(u.Total.Limits)))
	}
	return c.print(answer{
		body:  u,
		value: func() (int64, error) { return spentIn(u.Total, q.limit), nil },
		table: func(v term.View) string { return usageTable(u, q.limit, v) },
	})
}

// spentIn is what a share spent in a limit, or in all where none is named.
func spentIn(s api.Share, limit string) int64 {
	if limit != "" {
		return s.Limits[limit]
	}
	return s.Units
}

func usageTable(u api.Usage, limit string, v term.View) string {
	var b strings.Builder
	title, since := u.Credential, u.Since
	if limit != "" {
		title += " in limit " + limit
		if began, known := u.Windows[limit]; known {
			since = began
		}
	}
	v.Prose(&b, 0, term.Bold, fmt.Sprintf("%s since %s%s, %s ago", title, v.Clock(since), v.ZoneMark(), term.Brief(v.Now.Sub(since))))
	if spentIn(u.Total, limit) == 0 {
		return b.String() + "nothing was spent\n"
	}
	bar := min(mostBar, v.Width-term.Gap-sharesTable(u, limit, 0, v).Width())
	if bar < leastBar {
		bar = 0
	}
	sharesTable(u, limit, bar, v).Render(&b, v)
	return b.String()
}

// sharesTable has a bar of that width for each share, the longest for the greatest.
func sharesTable(u api.Usage, limit string, bar int, v term.View) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Head: strings.ToUpper(u.By)}, {Head: "CALLS", Right: true}, {Head: "UNITS", Right: true}, {Head: "SHARE", Right: true}, {Whole: true},
	}}
	shares, greatest := sharesIn(u, limit)
	total := spentIn(u.Total, limit)
	for _, s := range shares {
		spent := spentIn(s, limit)
		t.Add(term.Cell{Text: shareName(u.By, s.Name, v)}, term.Cell{Text: callsIn(s, limit)}, term.Cell{Text: quota.Thousands(spent)},
			term.Cell{Text: percent(spent, total)}, term.Cell{Text: strings.Repeat(v.Full(), share(spent, greatest, bar))})
	}
	t.Add(term.Cell{Text: "total", Style: term.Bold}, term.Cell{Text: callsIn(u.Total, limit)}, term.Cell{Text: quota.Thousands(total)}, term.Cell{}, term.Cell{})
	return t
}

// callsIn is empty of one limit: how many of the calls it counts is not told.
func callsIn(s api.Share, limit string) string {
	if limit != "" {
		return ""
	}
	return quota.Thousands(s.Calls)
}

// sharesIn returns the shares that have something in the limit, and how much the
// greatest has.
func sharesIn(u api.Usage, limit string) (shares []api.Share, greatest int64) {
	for _, s := range u.Shares {
		if spent := spentIn(s, limit); spent > 0 {
			shares, greatest = append(shares, s), max(greatest, spent)
		}
	}
	if limit != "" && u.By != string(quota.ByHour) {
		slices.SortStableFunc(shares, func(x, y api.Share) int { return cmp.Compare(y.Limits[limit], x.Limits[limit]) })
	}
	return shares, greatest
}

// shareName is what people read for the name of a share.
func shareName(by, name string, v term.View) string {
	switch {
	case name == "" && by == string(quota.ByOperation):
		return "(adjusted)"
	case name == "":
		return "(outside a pass)"
	case by == string(quota.ByHour):
		if at, err := time.Parse(time.RFC3339, name); err == nil {
			return v.Clock(at)
		}
	}
	return v.Caller(name)
}

// percent writes a part of a whole in whole hundredths; what is not nothing is not
// told as nothing, and what is not all not as all.
func percent(part, whole int64) string {
	hundredths := 100 * float64(part) / float64(max(1, whole))
	if 0 < hundredths && hundredths < 1 {
		return "<1%"
	}
	if part < whole {
		hundredths = min(hundredths, 99)
	}
	return fmt.Sprintf("%.0f%%", hundredths)
}

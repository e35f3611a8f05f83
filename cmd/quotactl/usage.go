package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

const usageUsage = `Show who spent what, after settling.

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

// A usageQuery selects spending, and says how to group it.
type usageQuery struct {
	credential, by, since, limit string
}

func newUsage(c *cli) *cobra.Command {
	var q usageQuery
	suggest := false
	cmd := &cobra.Command{
		Use:               "usage [CREDENTIAL] [FLAGS]",
		Short:             "who spent what, by job, region, operation, caller or hour",
		Long:              usageUsage,
		ValidArgsFunction: arguments(c.credentialNames),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.credential = strings.Join(args, "")
			if suggest {
				return c.suggest(cmd.Context(), q)
			}
			return c.usage(cmd.Context(), q)
		},
	}
	cmd.Flags().StringVar(&q.by, "by", string(quota.ByJob), "group by `WORD`: job, region, operation, caller or hour")
	cmd.Flags().StringVar(&q.since, "since", "", "only spending since `TIME`: 90m, 24h, 7d, or an instant like 2026-03-14T09:00:00Z, as far back as the log goes (default: what each limit's window counts now)")
	cmd.Flags().StringVar(&q.limit, "limit", "", "only what counts in the limit `NAME` (default: the largest cost of each call)")
	cmd.Flags().BoolVar(&suggest, "suggest-expects", false, "instead: what the ok passes of each job spent in the last 7d or --since, as expects for config.toml")
	completes(cmd, "by", func(context.Context, []string) ([]string, error) { return dimensions(), nil })
	completes(cmd, "limit", c.limitNames)
	return cmd
}

func dimensions() []string {
	return namesOf(quota.Dimensions(), func(d quota.Dimension) string { return string(d) })
}

func (c *cli) usage(ctx context.Context, q usageQuery) error {
	if !slices.Contains(dimensions(), q.by) {
		return usageError(quota.DidYouMean(q.by, dimensions(), "words"), "--by takes no %q", q.by)
	}
	u, err := c.client().Usage(ctx, c.credential(q.credential), api.UsageQuery{By: q.by, Since: api.Since(q.since)})
	if _, known := u.Total.Limits[q.limit]; err == nil && q.limit != "" && !known {
		return notFound("limit", q.limit, slices.Sorted(maps.Keys(u.Total.Limits)))
	}
	return show(c, u, err,
		func(u api.Usage) (int64, error) { return wording.Spent(u.Total, q.limit), nil },
		func(u api.Usage, v term.View) string { return usageTable(u, q.limit, v) })
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
	if wording.Spent(u.Total, limit) == 0 {
		return b.String() + "nothing was spent\n"
	}
	bar := min(maxBar, v.Width-term.Gap-sharesTable(u, limit, 0, v).Width())
	if bar < minBar {
		bar = 0
	}
	sharesTable(u, limit, bar, v).Render(&b, v)
	return b.String()
}

// sharesTable has a bar for each share. The greatest share's bar has the given width.
func sharesTable(u api.Usage, limit string, bar int, v term.View) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Head: strings.ToUpper(u.By)}, {Head: "CALLS", Right: true}, {Head: "UNITS", Right: true}, {Head: "SHARE", Right: true}, {Whole: true},
	}}
	shares, greatest := wording.Shares(u, limit)
	total := wording.Spent(u.Total, limit)
	for _, s := range shares {
		spent := wording.Spent(s, limit)
		t.Add(wording.ShareName(u.By, s.Name, v), callsIn(s, limit), spent, wording.Percent(spent, total), strings.Repeat(v.Full(), share(spent, greatest, bar)))
	}
	t.Add(term.Styled(term.Bold, "total"), callsIn(u.Total, limit), total, "", "")
	return t
}

// callsIn is empty for one limit: how many of the calls it counts is not known.
func callsIn(s api.Share, limit string) string {
	if limit != "" {
		return ""
	}
	return quota.Thousands(s.Calls)
}

// suggestedRuns is how many of the latest runs count.
const suggestedRuns = 200

// A suggestion is what the passes of a job spent that ended well.
type suggestion struct {
	Job    string           `json:"job"`
	Passes int              `json:"passes"`
	Median map[string]int64 `json:"median"` // calls by operation
	Most   map[string]int64 `json:"most"`
}

// suggest prints what passes spent, as expects of their jobs.
func (c *cli) suggest(ctx context.Context, q usageQuery) error {
	client := c.client() // one connection for all pages
	runs, err := client.Runs(ctx, jobsapi.Selection{Most: suggestedRuns})
	if err != nil {
		return c.explain(err)
	}
	passes := passesOf(runs)
	for e, err := range entries(ctx, client, c.credential(q.credential), api.LogQuery{Since: api.Since(cmp.Or(q.since, "7d")), Most: quota.MaxLogPage}) {
		if err != nil {
			return c.explain(err)
		}
		passes.add(e)
	}
	return show(c, passes.suggestions(), nil, length, func(all []suggestion, _ term.View) string { return expectsText(all) })
}

// A spentPass is what one pass spent, by operation.
type spentPass struct {
	job          string
	began, ended time.Time
	calls        map[string]int64
}

// spentPasses are the passes that ended well, by job and region, the latest first.
type spentPasses map[string][]*spentPass

func passesOf(runs []jobs.Run) spentPasses {
	passes := spentPasses{}
	for _, run := range runs {
		for _, p := range run.Passes {
			if p.Outcome == jobs.OK && p.Units > 0 {
				key := run.Job + " " + string(p.Region)
				// The ledger's clock ticks in milliseconds.
				passes[key] = append(passes[key], &spentPass{run.Job, p.StartedAt.Truncate(time.Millisecond), p.EndedAt, map[string]int64{}})
			}
		}
	}
	return passes
}

// add counts a grant for the pass that acquired it. A released grant does not count.
func (t spentPasses) add(e api.Entry) {
	if e.Kind != string(quota.KindGrant) || e.SettledTo != nil && *e.SettledTo == 0 {
		return
	}
	for _, p := range t[e.By+" "+e.Region] {
		if !e.At.Before(p.began) && !e.At.After(p.ended) {
			p.calls[e.Operation] += e.Count
		}
	}
}

// suggestions returns one suggestion for each job with passes in the log.
func (t spentPasses) suggestions() []suggestion {
	byJob := map[string][]*spentPass{}
	for _, passes := range t {
		for _, p := range passes {
			if len(p.calls) > 0 {
				byJob[p.job] = append(byJob[p.job], p)
			}
		}
	}
	all := []suggestion{}
	for _, job := range slices.Sorted(maps.Keys(byJob)) {
		s := suggestion{Job: job, Passes: len(byJob[job]), Median: map[string]int64{}, Most: map[string]int64{}}
		for _, p := range byJob[job] {
			for operation, calls := range p.calls {
				s.Most[operation] = max(s.Most[operation], calls)
			}
		}
		for operation := range s.Most {
			var counts []int64
			for _, p := range byJob[job] {
				counts = append(counts, p.calls[operation])
			}
			slices.Sort(counts)
			if median := counts[len(counts)/2]; median > 0 {
				s.Median[operation] = median
			}
		}
		all = append(all, s)
	}
	return all
}

// expectsText writes suggestions as lines of a configuration.
func expectsText(suggestions []suggestion) string {
	if len(suggestions) == 0 {
		return "# no pass has ended well and spent anything, as far as the log goes back\n"
	}
	var b strings.Builder
	for _, s := range suggestions {
		fmt.Fprintf(&b, "[jobs.%s] # the median of %s\nexpects = %s # at most %s\n", s.Job, quota.Count(s.Passes, "pass", "passes"), inlineTable(s.Median), inlineTable(s.Most))
	}
	return b.String()
}

func inlineTable(calls map[string]int64) string {
	var parts []string
	for _, operation := range slices.Sorted(maps.Keys(calls)) {
		parts = append(parts, strconv.Quote(operation)+" = "+strconv.FormatInt(calls[operation], 10))
	}
	return "{ " + strings.Join(parts, ", ") + " }"
}

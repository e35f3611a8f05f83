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
	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

const usageUsage = `Show who spent what, after settling: of CREDENTIAL, else of all.

With -o value the answer is the sum of one credential, in units. With -o json
each credential is an object of its own.

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
	credential, by, limit, since string
}

func newUsage(c *cli) *cobra.Command {
	var q usageQuery
	suggest := false
	cmd := command("usage [CREDENTIAL] [FLAGS]", "who spent what, by job, region, operation or day", usageUsage, func(ctx context.Context, args []string) error {
		q.credential = strings.Join(args, "")
		if suggest {
			return c.suggest(ctx, q)
		}
		return c.usage(ctx, q)
	})
	cmd.Flags().StringVar(&q.by, "by", "job", "group by `WORD`: job (or other caller), region, operation or day")
	sinceFlag(cmd, &q.since, "spending", " (default: what each limit's window counts now)")
	cmd.Flags().StringVar(&q.limit, "limit", "", "only what counts in the limit `NAME` (default: the largest cost of each call)")
	cmd.Flags().BoolVar(&suggest, "suggest-expects", false, "instead: what the ok passes of each job spent in the last 7d or --since, as expects for config.toml")
	completes(cmd, "by", words(dimensions))
	return cmd
}

var dimensions = []string{"job", "region", "operation", "day"}

func (c *cli) usage(ctx context.Context, q usageQuery) error {
	if !slices.Contains(dimensions, q.by) {
		return usageError(quota.DidYouMean(q.by, dimensions, "words"), "--by takes no %q", q.by)
	}
	since, err := c.since(q.since)
	if err != nil {
		return err
	}
	names := []string{c.credential(q.credential)}
	if names[0] == api.OnlyCredential {
		if all, _ := c.client().Credentials(ctx); len(all) > 1 {
			names = namesOf(all, credentialName)
		}
	}
	if len(names) > 1 && c.output == "value" {
		return severalCredentials(names)
	}
	var found []api.Usage
	limits := map[string]bool{}
	for _, name := range names {
		u, err := c.client().Usage(ctx, name, api.UsageQuery{By: q.by, Since: asQuery(since), Zone: c.view().Zone})
		if err != nil {
			return err
		}
		for limit := range u.Total.Limits {
			limits[limit] = true
		}
		if _, known := u.Total.Limits[q.limit]; known || q.limit == "" {
			found = append(found, u)
		}
	}
	if len(found) == 0 {
		return notFound("limit", q.limit, slices.Sorted(maps.Keys(limits)))
	}
	for i, u := range found {
		err := show(c, u, nil,
			func(u api.Usage) (int64, error) { return wording.Spent(u.Total, q.limit), nil },
			func(u api.Usage, v term.View) string { return "\n"[:min(i, 1)] + usageTable(u, q.limit, v) })
		if err != nil {
			return err
		}
	}
	return nil
}

// usageTable has a bar for each share.
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
	total := wording.Spent(u.Total, limit)
	if total == 0 && (limit != "" || u.Total.Calls == 0) {
		return b.String() + "nothing was spent\n"
	}
	t := term.Table{Columns: []term.Column{
		{Head: strings.ToUpper(u.By)}, {Head: "CALLS", Right: true}, {Head: "UNITS", Right: true}, {Head: "SHARE", Right: true}, {Whole: true},
	}}
	shares, greatest := wording.Shares(u, limit)
	for _, s := range shares {
		spent := wording.Spent(s, limit)
		bar := term.Cell{Bar: func(width int) string { return strings.Repeat(term.Full, share(spent, max(1, greatest), width)) }}
		t.Add(wording.ShareName(u.By, s.Name, v), callsIn(s, limit), spent, wording.Percent(spent, total), bar)
	}
	t.Add(term.Styled(term.Bold, "total"), callsIn(u.Total, limit), total, "", "")
	b.WriteString(t.Text(v))
	for _, name := range slices.Sorted(maps.Keys(u.Total.WouldDeny)) {
		v.Prose(&b, 0, term.Yellow, fmt.Sprintf("limit %s would have refused %s, if it were enforced", name, quota.Count(u.Total.WouldDeny[name], "call", "calls")))
	}
	return b.String()
}

// callsIn is empty for one limit: how many of the calls it counts is not known.
func callsIn(s api.SpentBy, limit string) string {
	if limit != "" {
		return ""
	}
	return quota.Thousands(s.Calls)
}

// suggestedRuns is how many of a job's latest runs count.
const suggestedRuns = 200

// A suggestion is what the passes of a job made that ended well.
type suggestion struct {
	Job    string    `json:"job"`
	Passes int       `json:"passes"`
	Median jobs.Made `json:"median"` // calls by operation
	Most   jobs.Made `json:"most"`
	// Replaces means that the job has expects already.
	Replaces bool `json:"replaces,omitempty"`
}

// suggest prints what passes made, as expects of their jobs.
func (c *cli) suggest(ctx context.Context, q usageQuery) error {
	since, err := c.since(cmp.Or(q.since, "7d"))
	if err != nil {
		return err
	}
	all, err := c.suggestions(ctx, q.credential, since)
	return show(c, all, err, length, func(all []suggestion, _ term.View) string { return expectsText(all) })
}

// suggestions returns what passes made since a time, job by job: of a credential, or of all.
func (c *cli) suggestions(ctx context.Context, credential string, since time.Time) ([]suggestion, error) {
	s, err := c.client().Status(ctx)
	if err == nil {
		err = selection{credential: credential}.apply(&s)
	}
	all := []suggestion{}
	for _, job := range s.Jobs {
		runs, failed := c.client().Runs(ctx, jobsapi.Selection{Job: job.Name, Most: suggestedRuns})
		if one := suggestionOf(job, runs, since); one.Passes > 0 {
			all = append(all, one)
		}
		err = cmp.Or(err, failed)
	}
	return all, err
}

func suggestionOf(job jobs.Status, runs []jobs.Run, since time.Time) suggestion {
	s := suggestion{Job: job.Name, Replaces: len(job.Expects) > 0, Median: jobs.Made{}, Most: jobs.Made{}}
	counts := map[string][]quota.Units{} // by operation, of the passes that made calls of it
	for _, r := range runs {
		for _, p := range r.Passes {
			if p.Outcome != jobs.OK || len(p.Made) == 0 || p.StartedAt.Before(since) {
				continue
			}
			s.Passes++
			for operation, calls := range p.Made {
				counts[operation] = append(counts[operation], calls)
			}
		}
	}
	for operation, made := range counts {
		made = append(made, make([]quota.Units, s.Passes-len(made))...) // the others made none
		slices.Sort(made)
		s.Most[operation] = made[len(made)-1]
		if median := made[len(made)/2]; median > 0 {
			s.Median[operation] = median
		}
	}
	return s
}

// expectsText writes suggestions as tables that can be appended to a configuration.
func expectsText(suggestions []suggestion) string {
	if len(suggestions) == 0 {
		return "# no pass has ended well and spent anything\n"
	}
	var b strings.Builder
	for _, s := range suggestions {
		instead := ""
		if s.Replaces {
			instead = "; instead of the expects that it has"
		}
		fmt.Fprintf(&b, "[jobs.%s.expects] # the median of %s%s\n", s.Job, quota.Count(s.Passes, "pass", "passes"), instead)
		for _, operation := range slices.Sorted(maps.Keys(s.Most)) {
			usual := "# " // none in most passes
			if s.Median[operation] > 0 {
				usual = ""
			}
			fmt.Fprintf(&b, "%s%q = %d # at most %d\n", usual, operation, s.Median[operation], s.Most[operation])
		}
	}
	return b.String()
}

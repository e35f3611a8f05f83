package main

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/quota"
	"quotad/quota/api"
)

const refusalsUsage = `List the calls that were refused in the last day, the latest first: when, to
whom, why, and when they would fit. Calls that are alike are counted together
for a quarter of an hour.

With -o value the answer is the number of refused calls.

Example:
  $ quotactl refusals --since 3h
  WHEN      TIMES  WHO           WHAT         WHY
  13:27:04     37  trending, US  search.list  no room for 100 units in limit s…
`

func newRefusals(c *cli) *cobra.Command {
	var since, job string
	cmd := &cobra.Command{
		Use:   "refusals [FLAGS]",
		Short: "calls refused in the last day, to whom and why",
		Long:  refusalsUsage,
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.refusals(cmd.Context(), since, job) },
	}
	cmd.Flags().StringVar(&since, "since", "", "only refusals since `TIME`: 90m, 6h, or an instant like 2026-03-14T09:00:00Z")
	cmd.Flags().StringVar(&job, "job", "", "only passes of the job `NAME`")
	completes(cmd, "job", c.jobNames)
	return cmd
}

func (c *cli) refusals(ctx context.Context, since, job string) error {
	from, err := parseSince(since, time.Now())
	if err != nil {
		return err
	}
	list, err := c.client().Refusals(ctx)
	list.Refusals = slices.DeleteFunc(list.Refusals, func(r api.Refusal) bool { return r.At.Before(from) || job != "" && r.By != job })
	return show(c, list, err,
		func(list api.Refusals) (times int64, _ error) {
			for _, r := range list.Refusals {
				times += r.Times
			}
			return times, nil
		}, refusalTable)
}

func refusalTable(list api.Refusals, v term.View) string {
	if len(list.Refusals) == 0 {
		return "nothing was refused since " + v.Clock(list.Since) + v.ZoneMark() + "\n"
	}
	t := term.Table{Columns: []term.Column{{Head: "WHEN" + v.ZoneMark(), Whole: true}, {Head: "TIMES", Right: true}, {Head: "WHO"}, {Head: "WHAT"}, {Head: "WHY", Sinks: true}}}
	for _, r := range list.Refusals {
		who := v.Caller(r.By)
		if r.Region != "" {
			who += ", " + v.Clean(r.Region)
		}
		what := v.Clean(r.Operation)
		if r.Count > 1 {
			what = quota.Thousands(r.Count) + " " + what
		}
		t.Add(v.Clock(r.At), r.Times, who, what, v.Clean(wording.Refused(r, v)))
	}
	return t.Text(v)
}

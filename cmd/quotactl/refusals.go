package main

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/quota"
	"quotad/quota/api"
)

const refusalsUsage = `List the calls that were refused in the last day, the latest first: when, to
whom, why, and when they would fit. Calls that are alike are counted together
for a quarter of an hour.

Usage:
  quotactl refusals [FLAGS]

Flags:
      --since TIME   only since then: 90m, 6h, or an instant like
                     2026-03-14T09:00:00Z
      --job JOB      only of passes of this job

With -o value the answer is the number of refused calls.

Example:
  $ quotactl refusals --since 3h
  WHEN      TIMES  WHO           WHAT         WHY
  13:27:04     37  trending, US  search.list  no room for 100 units in limit s…
`

func newRefusals(c *cli) *cobra.Command {
	var since, job string
	cmd := &cobra.Command{
		Use:   "refusals",
		Short: "calls refused in the last day, to whom and why",
		Long:  refusalsUsage,
		Args:  arguments(),
		RunE:  func(cmd *cobra.Command, _ []string) error { return c.refusals(cmd.Context(), since, job) },
	}
	cmd.Flags().StringVar(&since, "since", "", "only since")
	cmd.Flags().StringVar(&job, "job", "", "only of this job")
	completes(cmd, "job", c.jobNames)
	return cmd
}

func (c *cli) refusals(ctx context.Context, since, job string) error {
	from, err := instantOf(since, time.Now())
	if err != nil {
		return err
	}
	told, err := c.reader().Refusals(ctx)
	if err != nil {
		return c.explain(err)
	}
	told.Refusals = slices.DeleteFunc(told.Refusals, func(r api.Refusal) bool { return r.At.Before(from) || job != "" && r.By != job })
	return c.print(answer{
		body: told,
		value: func() (times int64, _ error) {
			for _, r := range told.Refusals {
				times += r.Times
			}
			return times, nil
		},
		table: func(v term.View) string { return refusalTable(told, v) },
	})
}

func refusalTable(told api.Refusals, v term.View) string {
	if len(told.Refusals) == 0 {
		return "nothing was refused since " + v.Clock(told.Since) + v.ZoneMark() + "\n"
	}
	t := term.Table{Columns: []term.Column{{Head: "WHEN" + v.ZoneMark(), Whole: true}, {Head: "TIMES", Right: true}, {Head: "WHO"}, {Head: "WHAT"}, {Head: "WHY", Sinks: true}}}
	for _, r := range told.Refusals {
		who := v.Caller(r.By)
		if r.Region != "" {
			who += ", " + v.Clean(r.Region)
		}
		what := v.Clean(r.Operation)
		if r.Count > 1 {
			what = quota.Thousands(r.Count) + " " + what
		}
		t.Add(term.Cell{Text: v.Clock(r.At)}, term.Cell{Text: quota.Thousands(r.Times)}, term.Cell{Text: who}, term.Cell{Text: what}, term.Cell{Text: v.Clean(refusedText(r, v))})
	}
	var b strings.Builder
	t.Render(&b, v)
	return b.String()
}

package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/quota/api"
	"quotad/regions"
)

const refusalsUsage = `List what was refused in the last day, the latest first: when, to whom, why, and
when it would fit. What is alike is counted together for a quarter of an hour.
The page shows the same list. It begins when quotad starts; the log has
what was before.

A cause has one word. Exhausted: a call was denied. Not launched: the next pass
of a run would not fit, so quotad did not start it. Closed: the upstream or an
operator closed the limit.

With -o value the answer is the number of refusals.

Example:
  $ quotactl refusals --since 3h
  WHEN      TIMES  WHO           WHAT         WHY
  13:27:04     37  trending, US  search.list  exhausted: no room for 100 units…
  13:20:00      1  search, DE    a pass       not launched: no room for 300 un…
`

func newRefusals(c *cli) *cobra.Command {
	var since, job string
	cmd := command("refusals [FLAGS]", "what was refused in the last day, to whom and why", refusalsUsage, func(ctx context.Context, _ []string) error { return c.refusals(ctx, since, job) })
	sinceFlag(cmd, &since, "refusals", "")
	cmd.Flags().StringVar(&job, "job", "", "only calls and passes of the job `NAME`")
	return cmd
}

func (c *cli) refusals(ctx context.Context, since, job string) error {
	from, err := c.since(since)
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
		if r.Region != "" && r.Region != string(regions.None) {
			who += ", " + v.Clean(r.Region)
		}
		t.Add(v.Clock(r.At), r.Times, who, v.Clean(wording.RefusedWhat(r)), v.Clean(wording.Refused(r, v)))
	}
	return t.Text(v)
}

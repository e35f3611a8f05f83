package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/regions"
)

const logUsage = `Show a credential's log: each debit, who made it, and each correction. A line is
kept for as long as a limit counts it, or for longer if keep of the credential
says so.

With -f, -o json writes one line of JSON for each.

Example:
  $ quotactl log -n 2
  AT        BY        OPERATION    CALLS  UNITS  ENTRY
  09:00:00  trending  videos.list      1      1  youtube:P6C7MCXZRIWZH5UKP6PA
  09:00:01  @alice    search.list      1    100  youtube:7QH2VQXK5SY4LJ3MFTWA
`

// A logFilter selects lines of a log.
type logFilter struct {
	credential string
	since      string
	number     int // 0: all
	follow     bool
}

func newLog(c *cli) *cobra.Command {
	var f logFilter
	var cmd *cobra.Command
	cmd = command("log [CREDENTIAL] [FLAGS]", "debits and corrections; -f follows them", logUsage, func(ctx context.Context, args []string) error {
		f.credential = strings.Join(args, "")
		switch {
		case f.number < 1:
			return usageError("", "--number must be from 1: %d", f.number)
		case f.since != "" && !cmd.Flags().Changed("number"):
			f.number = 0
		}
		return c.log(ctx, f)
	})
	sinceFlag(cmd, &f.since, "lines", "")
	cmd.Flags().IntVarP(&f.number, "number", "n", 20, "the latest `N` lines, or all of them with --since")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "then show new lines as they are written")
	return cmd
}

func (c *cli) log(ctx context.Context, f logFilter) error {
	since, err := c.since(f.since)
	if err != nil {
		return err
	}
	name, client := c.credential(f.credential), c.client() // one connection for all pages
	list := []api.Entry{}
	q := api.LogQuery{Since: asQuery(since), Newest: f.number > 0, Most: quota.MaxLogPage}
	for more := true; more; {
		if f.number > 0 {
			q.Most = min(f.number-len(list), quota.MaxLogPage)
		}
		page, err := client.Log(ctx, name, q)
		if err != nil {
			return err
		}
		list = append(list, page.Entries...)
		q.After, more = page.Next, page.Next != "" && len(list) != f.number
	}
	if f.number > 0 {
		slices.Reverse(list)
	}
	if f.follow {
		return c.followLog(ctx, client, name, asQuery(since), list)
	}
	return show(c, api.LogPage{Entries: list}, nil, nil, func(page api.LogPage, v term.View) string { return logTable(page.Entries, v) })
}

// followPace is how often new entries are asked for.
const followPace = time.Second

// followLog prints entries, and then new ones, until it is interrupted or the daemon stops. While the ledger
// cannot be reached it prints nothing, and leaves nothing out.
func (c *cli) followLog(ctx context.Context, client jobsapi.Client, name string, since api.Since, entries []api.Entry) error {
	if c.output == "value" {
		return noInteger()
	}
	q := api.LogQuery{Since: since, Most: quota.MaxLogPage}
	var widths []int
	for {
		if n := len(entries); n > 0 {
			q.After = strconv.FormatInt(entries[n-1].At.UnixMicro(), 10)
		}
		if err := c.writeEntries(&widths, entries...); err != nil {
			return err
		}
		if len(entries) < quota.MaxLogPage && !quota.Sleep(ctx, followPace) {
			return ctx.Err()
		}
		page, err := client.Log(ctx, name, q)
		if err != nil && !errors.Is(err, api.ErrLedgerUnavailable) {
			return err
		}
		entries = page.Entries
	}
}

// writeEntries prints entries below those before: as lines of JSON, or as a table whose columns get
// wider where they must.
func (c *cli) writeEntries(widths *[]int, entries ...api.Entry) error {
	if c.output == "table" && len(entries) > 0 {
		v := c.view()
		var b strings.Builder
		*widths = newLogTable(entries, v).Append(&b, v, *widths)
		return c.write(b.String())
	}
	for _, e := range entries {
		if err := c.printJSON(e, ""); err != nil {
			return err
		}
	}
	return nil
}

func logTable(entries []api.Entry, v term.View) string {
	if len(entries) == 0 {
		return "nothing was debited\n"
	}
	return newLogTable(entries, v).Text(v)
}

func newLogTable(entries []api.Entry, v term.View) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Head: "AT" + v.ZoneMark(), Whole: true}, {Head: "BY", Least: 6}, {Head: "REGION"}, {Head: "OPERATION", Least: 6},
		{Head: "CALLS", Right: true}, {Head: "UNITS", Right: true}, {Head: "ENTRY", Whole: true},
	}}
	for _, e := range entries {
		calls, spent := "", ""
		if e.Operation != "" {
			calls = quota.Thousands(e.Count)
		}
		if len(e.Charges) > 0 {
			spent = quota.Thousands(e.Units)
		}
		t.Add(v.Clock(e.At), v.Caller(e.By), v.Clean(e.Region), v.Clean(e.Operation), calls, spent, e.ID)
		t.Rows[len(t.Rows)-1].Below = entryNote(e)
	}
	return t
}

// entryNote says what a correction did, and why. For a grant that counts less or more by now it
// says what was debited.
func entryNote(e api.Entry) string {
	text := ""
	switch e.Kind {
	case string(quota.KindSettlement):
		text = fmt.Sprintf("settle %s to %s", e.GrantID, quota.Thousands(*e.SettledTo))
	case string(quota.KindBooking):
		text = "book " + quota.Thousands(e.Charges[0].Debited) + " in " + e.Charges[0].Limit
		if e.SettledTo != nil {
			text += ", settled to " + quota.Thousands(*e.SettledTo)
		}
	case string(quota.KindReset):
		text = "reset"
	case string(quota.KindClosing):
		text = "close " + e.Limit + " until " + e.Until.UTC().Format(time.RFC3339)
	case string(quota.KindOpening):
		text = "open " + e.Limit
	default:
		return grantNote(e)
	}
	if e.Note != "" {
		text += ": " + e.Note
	}
	return text
}

func grantNote(e api.Entry) string {
	debited := int64(0)
	for _, charge := range e.Charges {
		debited = max(debited, charge.Debited)
	}
	if debited == e.Units {
		return ""
	}
	return "settled; " + quota.Count(debited, "was", "were") + " debited"
}

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
	cmd := command("refusals [FLAGS]", "what was refused in the last day, to whom and why", refusalsUsage, func(ctx context.Context, _ []string) error {
		from, err := c.since(since)
		if err != nil {
			return err
		}
		list, err := c.client().Refusals(ctx)
		list.Refusals = slices.DeleteFunc(list.Refusals, func(r api.Refusal) bool { return r.At.Before(from) || job != "" && r.By != job })
		return show(c, list, err, refusedTimes, refusalTable)
	})
	sinceFlag(cmd, &since, "refusals", "")
	cmd.Flags().StringVar(&job, "job", "", "only calls and passes of the job `NAME`")
	return cmd
}

func refusedTimes(list api.Refusals) (times int64, _ error) {
	for _, r := range list.Refusals {
		times += r.Times
	}
	return times, nil
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

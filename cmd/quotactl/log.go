package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

const logUsage = `
Show a credential's log: each debit, who made it, and each correction. A line is
kept for as long as a limit counts it, or for longer if keep of the credential
says so.

With -f, -o json writes one line of JSON for each.

With --denied, show the last 200 calls that were refused, by whomever and for
whatever reason. quotad remembers them since it started.

Example:
  $ quotactl log --since 1h`

// A logFilter selects lines of a log.
type logFilter struct {
	since          string
	number         int // 0: all
	follow, denied bool
}

func newLog(c *cli) *cobra.Command {
	var f logFilter
	var cmd *cobra.Command
	cmd = command("log [CREDENTIAL] [FLAGS]", "what was debited; with --denied, what was refused and why", logUsage, 0, 1, func(ctx context.Context, args []string) error {
		switch {
		case f.denied && (f.follow || f.since != ""):
			return usageError("", "--denied goes with neither --since nor -f")
		case f.number < 1:
			return usageError("", "--number must be from 1: %d", f.number)
		case f.denied:
			page, err := c.client().Log(ctx, api.LogQuery{Credential: strings.Join(args, ""), Denied: true})
			page.Entries = page.Entries[max(0, len(page.Entries)-f.number):]
			return show(c, page, err, logTable)
		case f.since != "" && !cmd.Flags().Changed("number"):
			f.number = 0
		}
		return c.log(ctx, credentialBefore(args, 0), f)
	})
	sinceFlag(cmd, &f.since, "lines")
	cmd.Flags().IntVarP(&f.number, "number", "n", 20, "the latest `N` lines, or all of them with --since")
	cmd.Flags().BoolVarP(&f.follow, "follow", "f", false, "then show new lines as they are written")
	cmd.Flags().BoolVar(&f.denied, "denied", false, "the last calls that were refused, of all credentials if none is named")
	return cmd
}

func (c *cli) log(ctx context.Context, credential string, f logFilter) error {
	since, err := c.since(f.since)
	if err != nil {
		return err
	}
	client, list := c.client(), []api.Entry{} // one connection for all pages
	q := api.LogQuery{Credential: credential, Since: since, Newest: f.number > 0}
	err = client.Walk(ctx, q, func(e api.Entry) bool {
		list = append(list, e)
		return len(list) != f.number
	})
	if f.number > 0 {
		slices.Reverse(list)
	}
	if err == nil && f.follow {
		return c.followLog(ctx, client, q, list)
	}
	return show(c, api.LogPage{Entries: list}, err, logTable)
}

// followLog prints entries, and then asks each second for new ones, until it is interrupted or the daemon stops. While the
// ledger cannot be reached it prints nothing, and leaves nothing out.
func (c *cli) followLog(ctx context.Context, client jobsapi.Client, q api.LogQuery, entries []api.Entry) error {
	q.Newest, q.Most = false, quota.MaxLogPage
	var widths []int // of the columns, which get wider where they must
	for {
		if n := len(entries); n > 0 {
			q.After = strconv.FormatInt(entries[n-1].At.UnixMicro(), 10)
			if err := c.followed(entries, &widths); err != nil {
				return err
			}
		}
		if len(entries) < quota.MaxLogPage && !quota.Sleep(ctx, time.Second) {
			return ctx.Err()
		}
		page, err := client.Log(ctx, q)
		if err != nil && !errors.Is(err, api.ErrLedgerUnavailable) {
			return err
		}
		entries = page.Entries
	}
}

// followed prints more entries, in columns that were that wide; the first ones below a head.
func (c *cli) followed(entries []api.Entry, widths *[]int) (err error) {
	if c.output == "json" {
		for _, e := range entries {
			err = errors.Join(err, c.printJSON(e, ""))
		}
		return err
	}
	v := c.view()
	t := newLogTable(entries, v)
	t.widths = *widths
	t.widen()
	text := t.lines(v)
	if *widths == nil {
		text = t.head(v) + text
	}
	*widths = t.widths
	return c.write(text)
}

func logTable(page api.LogPage, v wording.View) string {
	if len(page.Entries) == 0 {
		return "no calls; quotactl runs shows runs that did not begin\n"
	}
	return newLogTable(page.Entries, v).text(v)
}

func newLogTable(entries []api.Entry, v wording.View) *table {
	last := map[bool]string{true: "REASON", false: "ENTRY"}[len(entries) > 0 && entries[0].Kind == api.Denied]
	t := &table{columns: []column{
		{head: "AT", whole: true}, {head: "BY"}, {head: "REGION"}, {head: "OPERATION"},
		{head: "CALLS", right: true}, {head: "UNITS", right: true}, {head: last, whole: true},
	}}
	for _, e := range entries {
		calls, spent := "", ""
		if e.Operation != "" {
			calls = quota.Thousands(e.Count)
		}
		if len(e.Charges) > 0 || e.Kind == api.Denied {
			spent = quota.Thousands(e.Units)
		}
		t.add(v.Clock(e.At), v.Caller(e.By), v.Clean(e.Region), v.Clean(e.Operation), calls, spent, cmp.Or(e.ID, e.Reason))
		t.rows[len(t.rows)-1].below = entryNote(e, v)
	}
	return t
}

// entryNote says what a correction did, and why. For a grant that counts less or more by now it
// says what was debited.
func entryNote(e api.Entry, v wording.View) string {
	text := ""
	switch e.Kind {
	case api.Denied:
		if e.Until != nil {
			return e.Note + "; fits " + v.When(*e.Until)
		}
		return e.Note
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

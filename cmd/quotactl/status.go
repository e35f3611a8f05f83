package main

import (
	"context"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

const statusUsage = `
Show what needs you, what is left of each limit and how long it lasts, and the
last and the next run of each job. The bar shows what is used, what is free, and
at its end the reserve. OUTLOOK says when a limit is used up if others spend as
in the last hour, unless the schedule alone does the same.

Example:
  $ quotactl status youtube daily -o value
  9400`

func newStatus(c *cli) *cobra.Command {
	watch := false
	cmd := command("status [CREDENTIAL LIMIT] [-w]", "what needs you, what is left, what the jobs did (default)", statusUsage, 0, 2, func(ctx context.Context, args []string) error {
		switch {
		case len(args) == 1:
			return usageError("quotactl status CREDENTIAL LIMIT", "a limit is named by its credential and its name: %q", args[0])
		case len(args) == 2 && (watch || c.output == "json"):
			return usageError("jq selects", "--watch and JSON show the whole status")
		case len(args) == 2:
			return c.limit(ctx, args[0], args[1])
		case watch:
			return c.watch(ctx)
		}
		s, err := c.client().Status(ctx)
		return show(c, s, err, renderStatus)
	})
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "update it in place, until Ctrl-C")
	return cmd
}

// limit prints one limit or, with -o value, what is left of it.
func (c *cli) limit(ctx context.Context, credential, limit string) error {
	s, err := c.client().Status(ctx)
	if err != nil {
		return err
	}
	var known []string
	for _, one := range s.Credentials {
		for _, l := range one.Limits {
			known = append(known, one.Name+" "+l.Name)
			if one.Name != credential || l.Name != limit {
				continue
			}
			if c.output == "value" {
				return c.write(fmt.Sprintln(l.Remaining))
			}
			one.Limits = []api.Limit{l}
			s.Credentials = []api.Credential{one}
			return c.write(limitTable(s, c.view()).text(c.view()))
		}
		if one.Name == credential && one.Error != "" {
			return fmt.Errorf("what is left is not known: %s", one.Error)
		}
	}
	name := credential + " " + limit
	return &failure{exitNotFound, fmt.Errorf("unknown limit %q", name), quota.DidYouMean(name, known, "limits")}
}

// renderStatus writes what needs a person, and then a line for each limit and each job.
func renderStatus(s jobsapi.Status, v wording.View) string {
	var b strings.Builder
	if len(s.Triage.Troubles) == 0 && s.Triage.Says != "" {
		v.Prose(&b, 0, wording.Green, wording.Calm(s))
	}
	for _, t := range s.Triage.Troubles {
		b.WriteString(troubleLine(t, wording.TroubleStyle(t), v))
	}
	for _, t := range s.Triage.Notes {
		v.Prose(&b, 2, wording.Faint, t.Says+wording.Since(t, v))
	}
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	if len(s.Credentials) == 0 {
		v.Prose(&b, 0, wording.Faint, "no credential is configured")
	} else {
		b.WriteString(limitTable(s, v).text(v))
	}
	if len(s.Jobs) > 0 {
		b.WriteString(lastTable(s.Jobs, v).text(v))
	}
	return b.String()
}

// troubleLine writes a trouble on one line: what, since when, and what to do about it. What does not fit is cut: the end
// of what is said, which is often an upstream's words, then the time. The command stays.
func troubleLine(t jobsapi.Trouble, style wording.Style, v wording.View) string {
	const least = 24 // columns of what is said
	says, since, do := v.Clean(t.Says), wording.Since(t, v), v.Clean(t.Do)
	if do != "" {
		do = "  → " + do
	}
	if room := v.Width - utf8.RuneCountInString(since+do); !v.Whole && room < utf8.RuneCountInString(says) {
		if room < least {
			room, since = v.Width-utf8.RuneCountInString(do), ""
		}
		says = v.Cut(says, max(least, room))
	}
	return v.Paint(style, says) + since + do + "\n"
}

// limitTable has a line for each limit.
func limitTable(s jobsapi.Status, v wording.View) *table {
	t := &table{columns: []column{{head: "LIMIT"}, {whole: true}, {head: "LEFT", right: true}, {head: "OF", right: true}, {head: "OUTLOOK"}}}
	width := 16
	if v.Width < wording.DefaultWidth {
		width = 0
	}
	for _, c := range s.Credentials {
		if c.Error != "" {
			t.add(c.Name, "", wording.Line{Text: "?", Style: wording.Red}, "", wording.Line{Text: "not known: " + v.Clean(c.Error), Style: wording.Red})
		}
		for _, l := range c.Limits {
			style := wording.LimitStyle(l)
			outlook := wording.Line{Text: wording.Outlook(s, c, l, v), Style: wording.Faint}
			left := wording.Line{Text: quota.Thousands(l.Remaining), Style: style}
			t.add(strings.TrimSpace(c.Name+" "+l.Name), wording.Line{Text: bar(l, width), Style: style}, left, l.Units-l.Reserve, outlook)
		}
	}
	return t
}

// bar draws a limit: what is used from the left, what is left of the reserve at the right, and between them what ordinary
// callers may spend, which shows if there is any.
func bar(l api.Limit, width int) string {
	if l.Units < 1 || width < 1 {
		return ""
	}
	free := share(l.Remaining, l.Units, width)
	_, kept := wording.Bar(l)
	reserve := min(share(kept, l.Units, width), width-free)
	used := width - free - reserve
	if l.Used > 0 && used == 0 && free > 1 {
		used, free = 1, free-1
	}
	return strings.Repeat("█", used) + strings.Repeat("░", free) + strings.Repeat("▒", reserve)
}

// share is the part of width that an amount is of a whole, rounded up, and at most width. Width is small and amounts end at
// 2^53, so nothing overflows.
func share(amount, whole int64, width int) int {
	return int(min(int64(width), (amount*int64(width)+whole-1)/whole))
}

// lastTable has a line for each job.
func lastTable(list []jobsapi.Job, v wording.View) *table {
	t := &table{columns: []column{
		{head: "JOB"}, {head: "NEXT", whole: true}, {head: "LAST"}, {head: "TOOK", right: true}, {head: "OK", right: true}, {head: "UNITS", right: true},
	}}
	for _, j := range list {
		took, ok, spent := "", "", ""
		if j.Last != nil {
			took, ok, spent = wording.RunSums(*j.Last, v.Now)
		}
		last := wording.LastRun(j.Last, v)
		if !j.Due.IsZero() && !v.Now.Before(j.Due) {
			last = wording.Line{Text: last.Text + ", overdue", Style: wording.Red}
		}
		t.add(j.Name, wording.Next(j, v), last, took, strings.TrimSuffix(ok, " ok"), spent)
	}
	return t
}

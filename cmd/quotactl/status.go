package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

const statusUsage = `Show what needs you, what is left of each limit and how long it lasts, and the
last and the next run of each job.

With --watch it is updated in place until Ctrl-C, also when the screen has
another size.

With -o value the answer is what remains, in units: the smallest of the limits
shown, of one credential. With -o json it is the whole status of the daemon.

The bar shows what is used, what is free, and at its end the reserve. OUTLOOK
says when the limit is used up if all others spend as in the last hour, unless
the schedule alone does the same.

With --all, each job shows the passes of its last run that were not ok; quotactl
runs RUN prints all of them.

Example:
  $ quotactl status -o value --limit daily
  9400
`

// A selection narrows a status down; empty fields select everything.
type selection struct {
	credential string
	limit      string
}

func newStatus(c *cli) *cobra.Command {
	w := watcher{cli: c, render: renderGlance}
	all, watch := false, false
	cmd := command("status [FLAGS]", "what needs you, what is left, what the jobs did (default)", statusUsage, func(ctx context.Context, _ []string) error {
		if all {
			w.render = renderStatus
		}
		if watch {
			return w.watch(ctx)
		}
		body, s, err := w.only.read(ctx, c.client(), c.output == "json")
		return show(c, body, err,
			func(json.RawMessage) (int64, error) { return minRemaining(s.Credentials) },
			func(_ json.RawMessage, v term.View) string { return w.render(s, v) })
	})
	cmd.Flags().StringVar(&w.only.credential, "credential", "", "only the credential `NAME`")
	cmd.Flags().StringVar(&w.only.limit, "limit", "", "only limits called `NAME`")
	cmd.Flags().BoolVar(&all, "all", false, "everything about each limit and job")
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "update it in place")
	return cmd
}

// read asks for the status. As JSON it is always whole.
func (only selection) read(ctx context.Context, client jobsapi.Client, isJSON bool) (body json.RawMessage, s jobsapi.Status, err error) {
	if isJSON && only != (selection{}) {
		return nil, s, usageError("jq selects", "JSON is the whole status: --credential and --limit do not apply")
	}
	if err = client.Get(ctx, "/v1/status", &body); err == nil {
		err = cmp.Or(json.Unmarshal(body, &s), only.apply(&s))
	}
	return body, s, err
}

// apply removes from s what is not selected. A name that selects nothing is not found.
func (only selection) apply(s *jobsapi.Status) (err error) {
	if only.credential != "" {
		if s.Credentials, err = named("credential", only.credential, s.Credentials, credentialName); err != nil {
			return err
		}
		s.Jobs = slices.DeleteFunc(s.Jobs, func(j jobsapi.Job) bool { return j.Credential != only.credential })
	}
	only.triage(s)
	if only.limit == "" {
		return nil
	}
	var all []api.Limit
	for i, c := range s.Credentials {
		all = append(all, c.Limits...)
		s.Credentials[i].Limits = slices.DeleteFunc(c.Limits, func(l api.Limit) bool { return l.Name != only.limit })
	}
	_, err = named("limit", only.limit, all, limitName)
	return err
}

// named returns those of a list that have a name. It returns an error if there is none.
func named[T any](what, name string, list []T, nameOf func(T) string) ([]T, error) {
	found := slices.DeleteFunc(slices.Clone(list), func(one T) bool { return nameOf(one) != name })
	if len(found) == 0 {
		return nil, notFound(what, name, namesOf(list, nameOf))
	}
	return found, nil
}

// triage removes the troubles of what is not selected. The sentence goes too, because it
// counts them.
func (only selection) triage(s *jobsapi.Status) {
	if only == (selection{}) {
		return
	}
	s.Triage.Says = ""
	others := func(t jobsapi.Trouble) bool {
		kind, name, _ := strings.Cut(t.Of, " ")
		switch kind {
		case "job":
			return !slices.ContainsFunc(s.Jobs, func(j jobsapi.Job) bool { return j.Name == name })
		case "limit", "credential":
			credential, limit, _ := strings.Cut(name, " ")
			return only.credential != "" && credential != only.credential || only.limit != "" && limit != only.limit
		}
		return false
	}
	s.Triage.Troubles, s.Triage.Notes = slices.DeleteFunc(s.Triage.Troubles, others), slices.DeleteFunc(s.Triage.Notes, others)
}

func notFound(what, name string, names []string) error {
	return &failure{
		code: exitNotFound,
		err:  fmt.Errorf("unknown %s %q", what, name),
		hint: quota.DidYouMean(name, names, "configured"),
	}
}

// severalCredentials refuses -o value where there is an answer for each of several credentials.
func severalCredentials(names []string) error {
	return usageError(api.NameCredential, "-o value is one integer, but there are several credentials: %s", strings.Join(names, ", "))
}

// minRemaining is what a call that counts against all limits of the only credential may
// spend.
func minRemaining(credentials []api.Credential) (int64, error) {
	if len(credentials) != 1 {
		return 0, severalCredentials(namesOf(credentials, credentialName))
	}
	if credentials[0].Error != "" {
		return 0, fmt.Errorf("what remains is not known: %s", credentials[0].Error)
	}
	left, none := int64(quota.MaxUnits), !slices.ContainsFunc(credentials[0].Limits, func(l api.Limit) bool { return !l.Observes })
	for _, l := range credentials[0].Limits {
		if none || !l.Observes {
			left = min(left, l.Remaining)
		}
	}
	return left, nil
}

// renderStatus writes a whole status: what needs a person first, then the budgets, then the
// jobs.
func renderStatus(s jobsapi.Status, v term.View) string {
	var b strings.Builder
	renderTriage(&b, s.Triage, max(len(s.Triage.Troubles), len(s.Triage.Notes)), true, v)
	if b.Len() > 0 {
		b.WriteByte('\n')
	}
	style := term.Plain
	if s.Ledger.State != "ok" {
		style = term.Red
	}
	v.Prose(&b, 0, style, fmt.Sprintf("quotad %s, %s ledger: %s", s.Version, s.Ledger.Backend, s.Ledger.State))
	if len(s.Credentials) == 0 {
		v.Prose(&b, 0, term.Faint, noCredential)
	}
	for _, c := range s.Credentials {
		renderCredential(&b, c, s.Rates, v)
		renderProxied(&b, s.Proxy, c.Name, v)
	}
	for _, j := range s.Jobs {
		b.WriteByte('\n')
		renderJob(&b, j, v)
	}
	return b.String()
}

func renderCredential(b *strings.Builder, c api.Credential, rates []plan.Rate, v term.View) {
	b.WriteByte('\n')
	title := "credential " + c.Name
	if c.AsOf != nil {
		title += ", as of " + v.Clock(*c.AsOf) + ": the ledger cannot be reached"
	}
	v.Prose(b, 0, term.Bold, title)
	if c.Error != "" {
		v.Prose(b, 2, term.Red, "not known: "+c.Error)
		return
	}
	renderLimits(b, c.Name, c.Limits, rates, v)
}

// renderLimits writes a credential's limits, one line each, with notes below.
func renderLimits(b *strings.Builder, credential string, limits []api.Limit, rates []plan.Rate, v term.View) {
	t := term.Table{Indent: 2, Columns: []term.Column{
		{Head: "LIMIT"}, {Whole: true},
		{Head: "USED", Right: true}, {Head: "RESERVE", Right: true}, {Head: "REMAINING", Right: true}, {Head: "UNITS", Right: true},
	}}
	for i, l := range limits {
		style := wording.LimitStyle(l)
		bar := term.Cell{Style: style, Bar: func(width int) string { return barOf(l, width) }}
		t.Add(l.Name, bar, l.Used, l.Reserve, term.Styled(style, quota.Thousands(l.Remaining)), l.Units)
		t.Rows[i].Below = strings.Join(wording.LimitNotes(l, plan.RateOf(rates, credential, l.Name), v), "; ")
	}
	b.WriteString(t.Text(v))
}

// barOf draws a limit: what is used from the left, what is left of the reserve at the
// right, and between them what ordinary callers may spend, which shows if there is any.
func barOf(l api.Limit, width int) string {
	if l.Units < 1 || width < 1 {
		return ""
	}
	freeCells := share(l.Remaining, l.Units, width)
	_, reserved := wording.Bar(l)
	reserveCells := min(share(reserved, l.Units, width), width-freeCells)
	usedCells := width - freeCells - reserveCells
	if l.Used > 0 && usedCells == 0 && freeCells > 1 {
		usedCells, freeCells = 1, freeCells-1
	}
	return strings.Repeat(term.Full, usedCells) + strings.Repeat("░", freeCells) + strings.Repeat("▒", reserveCells)
}

// share is the part of width that an amount is of a whole, rounded up, and at most width.
// Width is small and amounts end at 2^53, so nothing overflows.
func share(amount, whole int64, width int) int {
	return int(min(int64(width), (amount*int64(width)+whole-1)/whole))
}

// renderProxied writes the address of the proxy for a credential, and where it sends calls.
func renderProxied(b *strings.Builder, proxy *api.Proxy, credential string, v term.View) {
	if proxy == nil {
		return
	}
	for _, c := range proxy.Credentials {
		if c.Name == credential {
			v.Prose(b, 2, term.Plain, fmt.Sprintf("through the proxy at %s to %s", proxy.Address, c.Upstream))
		}
	}
}

// How much of each kind the short status shows.
const (
	maxTroubles = 4
	maxLines    = 40 // of limits, and of jobs
)

const noCredential = "no credential is configured; quotactl clients shows limits for clients"

// renderGlance writes what needs a person, and then a line for each limit and each job.
func renderGlance(s jobsapi.Status, v term.View) string {
	var b strings.Builder
	renderTriage(&b, s.Triage, maxTroubles, false, v)
	if len(s.Credentials) == 0 {
		v.Prose(&b, 0, term.Faint, noCredential)
	} else if b.Len() > 0 {
		b.WriteByte('\n')
	}
	limits, jobs := glanceLimits(s, v), glanceJobs(s.Jobs, v)
	limitLines, jobLines := maxLines, maxLines
	if v.Drawn { // it cannot be scrolled: each table has half, and what the other leaves
		const around, least = 5, 6 // the heads of both, how many there are beyond them, and where the cursor is
		room := max(least, v.Lines-strings.Count(b.String(), "\n")-around)
		limitLines = room - min(len(jobs.Rows), room/2)
		jobLines = room - min(len(limits.Rows), limitLines)
	}
	if len(s.Credentials) > 0 {
		renderShort(&b, limits, limitLines, v)
	}
	if len(s.Jobs) > 0 {
		renderShort(&b, jobs, jobLines, v)
	}
	return b.String()
}

// renderShort writes the first lines of a table, and how many there are beyond them.
func renderShort(b *strings.Builder, t *term.Table, most int, v term.View) {
	more := t.Keep(most)
	b.WriteString(t.Text(v))
	if more > 0 {
		v.Prose(b, 0, term.Faint, fmt.Sprintf("and %s more: quotactl --all", quota.Thousands(more)))
	}
}

// renderTriage writes what needs a person, a line for each trouble: what, since when, and what to do about it. With
// cures, the last has a line of its own, and nothing is cut.
func renderTriage(b *strings.Builder, t jobsapi.Triage, max int, cures bool, v term.View) {
	if len(t.Troubles) == 0 && t.Says != "" {
		v.Prose(b, 0, term.Green, t.Says)
	}
	shown := t.Troubles
	if len(shown) > max {
		shown = shown[:max-1]
	}
	for _, trouble := range shown {
		if !cures {
			b.WriteString(troubleLine(trouble, v))
			continue
		}
		v.Prose(b, 0, wording.TroubleStyle(trouble), wording.Trouble(trouble, v))
		if trouble.Do != "" {
			v.Prose(b, 2, term.Plain, trouble.Do)
		}
	}
	if more := len(t.Troubles) - len(shown); more > 0 {
		v.Prose(b, 0, term.Plain, fmt.Sprintf("and %s more: quotactl --all", quota.Thousands(more)))
	}
	for _, note := range t.Notes[:min(max, len(t.Notes))] {
		v.Prose(b, 2, term.Faint, wording.Trouble(note, v))
		if cures && note.Do != "" {
			v.Prose(b, 4, term.Faint, note.Do)
		}
	}
}

// troubleLine writes a trouble on one line. What does not fit is cut: the end of what is said, which is often an upstream's
// words, then the time. The command stays.
func troubleLine(t jobsapi.Trouble, v term.View) string {
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
	return v.Paint(wording.TroubleStyle(t), says) + since + do + "\n"
}

// glanceLimits has a line for each limit.
func glanceLimits(s jobsapi.Status, v term.View) *term.Table {
	t := &term.Table{Columns: []term.Column{{Head: "LIMIT"}, {Whole: true}, {Head: "LEFT", Right: true}, {Head: "OF", Right: true}, {Head: "OUTLOOK"}}}
	bar := 16
	if v.Width < term.DefaultWidth {
		bar = 0
	}
	for _, c := range s.Credentials {
		if c.Error != "" {
			t.Add(c.Name, "", term.Styled(term.Red, "?"), "", term.Styled(term.Red, "not known: "+v.Clean(c.Error)))
		}
		for _, l := range c.Limits {
			style := wording.LimitStyle(l)
			outlook := wording.Outlook(c, l, plan.RateOf(s.Rates, c.Name, l.Name), v)
			t.Add(c.Name+" "+l.Name, term.Styled(style, barOf(l, bar)), term.Styled(style, quota.Thousands(l.Remaining)),
				l.Units-l.Reserve, term.Styled(term.Faint, outlook))
		}
	}
	return t
}

// glanceJobs has a line for each job.
func glanceJobs(list []jobsapi.Job, v term.View) *term.Table {
	t := &term.Table{Columns: []term.Column{{Head: "JOB"}, {Head: "NEXT" + v.ZoneMark()}, {Head: "LAST"}, {Head: "TOOK", Right: true}, {Head: "OK", Right: true}, {Head: "UNITS", Right: true}}}
	for _, j := range list {
		if j.Last == nil {
			t.Add(j.Name, nextCell(j, v), term.Styled(term.Faint, "none"), "", "", "")
			continue
		}
		took, ok, spent := wording.RunSums(*j.Last, v.Now)
		last := wording.LastRun(j.Last, v)
		t.Add(j.Name, nextCell(j, v), last, took, strings.TrimSuffix(ok, " ok"), spent)
	}
	return t
}

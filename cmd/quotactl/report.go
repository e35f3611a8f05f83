package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
	"quotad/quota/api"
)

const reportUsage = `
Say what the limits would have refused if they were enforced, to whom and when,
what each job really takes, and which lines of config.toml follow. It plays the
log again: what would have been refused is not spent there.

A log goes back as far as its longest window. This limit keeps it for a week:
  limits.week = { units = 1_000_000_000, window = "7d", enforce = false }

Example:
  $ quotactl report --since 7d`

func newReport(c *cli) *cobra.Command {
	since := ""
	cmd := command("report [CREDENTIAL] [FLAGS]", "what enforced limits would have refused, and what to write", reportUsage, 0, 1, func(ctx context.Context, args []string) error {
		return c.reportOn(ctx, credentialBefore(args, 0), since)
	})
	sinceFlag(cmd, &since, "what was spent", " (default: all of the log)")
	return cmd
}

// keepsLog is the least size of a limit that is there to keep the log, see reportUsage.
const keepsLog = 1_000_000_000

// A report is what the log of a credential says of its limits.
type report struct {
	Credential  string       `json:"credential"`
	Since       time.Time    `json:"since"`           // the first call
	Asked       *time.Time   `json:"asked,omitempty"` // --since, if the log does not go back so far
	Calls       int64        `json:"calls"`
	Refused     int64        `json:"refused"` // of these calls
	Limits      []*metered   `json:"limits"`
	Who         []*refused   `json:"who"`
	Suggestions []suggestion `json:"expects"`
}

// Metered is what a limit held and would have refused.
type metered struct {
	Name   string `json:"name"`
	Budget int64  `json:"budget"`
	meter
	Refused int64            `json:"refused"` // calls
	DryRun  bool             `json:"dry_run"`
	Jobs    map[string]int64 `json:"jobs,omitempty"` // the most that a window held of each; nil: of a share

	kept  meter // of what would have been spent
	byJob map[string]*meter
}

// Refused is calls of one caller that a limit would have refused.
type refused struct {
	By        string    `json:"by"`
	Operation string    `json:"operation"`
	Limit     string    `json:"limit"`
	Calls     int64     `json:"calls"`
	First     time.Time `json:"first"`
	Last      time.Time `json:"last"`
}

// A meter sums what a window holds.
type meter struct {
	Most int64     `json:"most"` // that it held
	At   time.Time `json:"at,omitzero"`

	window quota.Window
	held   []heldUnits
	used   int64
}

type heldUnits struct {
	at    time.Time
	units int64
}

// at returns what the window holds at a time, which is not before any other one.
func (m *meter) at(now time.Time) int64 {
	after, _ := m.window.Bounds(now)
	gone := 0
	for gone < len(m.held) && !m.held[gone].at.After(after) {
		m.used -= m.held[gone].units
		gone++
	}
	m.held = m.held[gone:]
	return m.used
}

func (m *meter) add(now time.Time, units int64) {
	m.used = m.at(now) + units
	m.held = append(m.held, heldUnits{now, units})
	if m.used > m.Most {
		m.Most, m.At = m.used, now
	}
}

// windowOf reads the window of a limit, as quota.Window writes it.
func windowOf(l api.Limit) (quota.Window, error) {
	kind, rest, _ := strings.Cut(l.Window, " ")
	if l.WindowMs > 0 {
		return quota.Sliding(time.Duration(l.WindowMs) * time.Millisecond), nil
	}
	if from, anchored := strings.CutPrefix(rest, "from "); anchored {
		at, err := time.Parse(time.RFC3339Nano, from)
		every, wrong := api.ParseSpan(kind)
		return quota.Anchored(every, at), errors.Join(err, wrong)
	}
	zone, err := time.LoadLocation(rest)
	return quota.Calendar(quota.Period(kind), zone), err
}

// windowText writes a window as a configuration has it.
func windowText(w quota.Window) string {
	switch {
	case w.Period != "":
		return fmt.Sprintf("{ calendar = %q, timezone = %q }", w.Period, w.Zone)
	case w.Every > 0:
		return fmt.Sprintf("{ every = %q, from = %q }", quota.Brief(w.Every), w.From.Format(time.RFC3339Nano))
	}
	return fmt.Sprintf("%q", w)
}

func newReportOf(c api.Credential) (*report, error) {
	r := &report{Credential: c.Name, Limits: []*metered{}, Who: []*refused{}, Suggestions: []suggestion{}}
	for _, l := range c.Limits {
		w, err := windowOf(l)
		if err != nil {
			return nil, fmt.Errorf("cannot read the window of limit %s, %q: %w", l.Name, l.Window, err)
		}
		m := &metered{Name: l.Name, Budget: l.Units - l.Reserve, DryRun: l.Observes, meter: meter{window: w}, kept: meter{window: w}, byJob: map[string]*meter{}}
		if len(l.Jobs)+len(l.ExceptJobs) == 0 {
			m.Jobs = map[string]int64{}
		}
		r.Limits = append(r.Limits, m)
	}
	return r, nil
}

// play adds an entry of the log: a grant, what was booked, or a reset.
func (r *report) play(e api.Entry) {
	if e.Kind == "reset" {
		for _, m := range r.Limits {
			m.held, m.used, m.kept.held, m.kept.used = nil, 0, nil, 0
		}
	}
	if e.Kind != "grant" && e.Kind != "booking" {
		return
	}
	var short []*metered
	for _, m := range r.Limits {
		units := unitsIn(e, m.Name)
		m.add(e.At, units)
		isOfJob := e.Kind == "grant" && !strings.HasPrefix(e.By, "@") && !strings.Contains(e.By, "/")
		if m.Jobs != nil && isOfJob && units > 0 {
			job := cmp.Or(m.byJob[e.By], &meter{window: m.window})
			job.add(e.At, units)
			m.byJob[e.By], m.Jobs[e.By] = job, job.Most
		}
		if e.Kind == "grant" && units > 0 && m.kept.at(e.At)+units > m.Budget {
			short = append(short, m)
		}
	}
	if e.Kind == "grant" {
		r.Calls += e.Count
		r.Since = cmp.Or(r.Since, e.At)
	}
	for _, m := range short {
		m.Refused += e.Count
	}
	if len(short) > 0 {
		r.refuse(e, short[0].Name)
		return
	}
	for _, m := range r.Limits {
		m.kept.add(e.At, unitsIn(e, m.Name))
	}
}

// unitsIn returns what an entry counts in a limit.
func unitsIn(e api.Entry, limit string) (units int64) {
	for _, charge := range e.Charges {
		if charge.Limit == limit {
			units += charge.Units
		}
	}
	return units
}

func (r *report) refuse(e api.Entry, limit string) {
	r.Refused += e.Count
	i := slices.IndexFunc(r.Who, func(w *refused) bool { return w.By == e.By && w.Operation == e.Operation && w.Limit == limit })
	if i < 0 {
		i, r.Who = len(r.Who), append(r.Who, &refused{By: e.By, Operation: e.Operation, Limit: limit, First: e.At})
	}
	r.Who[i].Calls, r.Who[i].Last = r.Who[i].Calls+e.Count, e.At
}

func (c *cli) reportOn(ctx context.Context, name, since string) error {
	asked, err := c.since(since)
	if err != nil {
		return err
	}
	client := c.client() // one connection for all pages
	state, err := client.Credential(ctx, name)
	if err != nil {
		return err
	}
	r, err := newReportOf(state)
	if err != nil {
		return err
	}
	err = client.Walk(ctx, api.LogQuery{Credential: state.Name, Since: asQuery(asked)}, func(e api.Entry) bool {
		r.play(e)
		return true
	})
	if err != nil {
		return err
	}
	keeps := time.Duration(0)
	for _, m := range r.Limits {
		keeps = max(keeps, m.window.Span())
	}
	if !asked.IsZero() && asked.Before(c.view().Now.Add(-keeps-time.Minute)) {
		r.Asked = &asked
	}
	slices.SortFunc(r.Who, func(a, b *refused) int { return cmp.Or(cmp.Compare(b.Calls, a.Calls), a.First.Compare(b.First)) })
	r.Suggestions, err = c.suggestions(ctx, r.Credential, asked)
	return show(c, r, err, reportPage)
}

func reportPage(r *report, v wording.View) string {
	var b strings.Builder
	if r.Calls == 0 {
		return r.Credential + ": nothing was spent\n"
	}
	style := wording.Plain
	if r.Refused > 0 {
		style = wording.Yellow
	}
	v.Prose(&b, 0, style, fmt.Sprintf("%s since %s%s: enforced, the limits would have refused %s of %s", r.Credential, v.Clock(r.Since), v.ZoneMark(),
		quota.Thousands(r.Refused), quota.Count(r.Calls, "call", "calls")))
	if r.Asked != nil {
		v.Prose(&b, 0, wording.Faint, "the log holds no more: it goes back as far as its longest window")
	}
	limits := table{indent: 2, columns: []column{{head: "LIMIT"}, {head: "BUDGET", right: true}, {head: "MOST", right: true}, {head: "AT"}, {head: "REFUSED", right: true}}}
	for _, m := range r.Limits {
		limits.add(m.Name, m.Budget, m.Most, v.Clock(m.At), m.Refused)
	}
	b.WriteString(limits.text(v))
	if len(r.Who) > 0 {
		who := table{indent: 2, columns: []column{{head: "REFUSED"}, {head: "OPERATION"}, {head: "BY"}, {head: "CALLS", right: true}, {head: "FIRST"}, {head: "LAST"}}}
		for _, w := range r.Who {
			who.add(v.Caller(w.By), v.Clean(w.Operation), w.Limit, w.Calls, v.Clock(w.First), v.Clock(w.Last))
		}
		b.WriteString(who.text(v))
	}
	b.WriteString("\n# to append to config.toml:\n" + r.lines())
	return b.String()
}

// lines are those of a configuration that follow: enforced limits, a share for each of several jobs, and what passes take.
// Each can be appended to the file: what a line of the file has already is said in a comment.
func (r *report) lines() string {
	var b strings.Builder
	for _, m := range r.Limits {
		if m.Budget >= keepsLog {
			continue
		}
		if m.DryRun {
			fmt.Fprintf(&b, "# take enforce = false out of credentials.%s.limits.%s: this log has %s that it would have refused\n", r.Credential, m.Name, quota.Count(m.Refused, "call", "calls"))
		}
		if len(m.Jobs) < 2 || m.Refused == 0 {
			continue
		}
		for _, job := range slices.Sorted(maps.Keys(m.Jobs)) {
			share := m.Name + "-" + job
			if !slices.ContainsFunc(r.Limits, func(l *metered) bool { return l.Name == share }) {
				fmt.Fprintf(&b, "[credentials.%s.limits.%s]\nunits = %d # a share: the most that %s took\nwindow = %s\njobs = [%q]\n",
					r.Credential, share, m.Jobs[job], job, windowText(m.window), job)
			}
		}
	}
	if len(r.Suggestions) > 0 {
		b.WriteString(expectsText(r.Suggestions))
	}
	return b.String()
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

// suggestions returns what passes made since a time, job by job: of a credential, or of all.
func (c *cli) suggestions(ctx context.Context, credential string, since time.Time) ([]suggestion, error) {
	s, err := c.client().Status(ctx)
	s.Jobs = slices.DeleteFunc(s.Jobs, func(j jobsapi.Job) bool { return j.Credential != credential })
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

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

const whyUsage = `Show whether a call would be granted now. If not: which limit denies it, how
many units are missing, who spent them, exactly when the call fits, and what you
can do. It also shows what the schedule asks of each limit. Asking spends
nothing.

With JOB, show why it runs or does not: its pause and its next run, how the last
one ended, whether the next pass fits, and what was refused last. For a name of
both the operation comes first and the job after it; --job JOB without OPERATION
shows the job alone.

With -o value the answer is how many units are missing, 0 when the call or the
pass fits; for a name of both, those of the call.

Example:
  $ quotactl why youtube search.list
  denied: no room for 100 units in limit daily, which has 60 left
  fits in 3h 11m, at 12:38:11, if nothing else happens
`

func newWhy(c *cli) *cobra.Command {
	var q api.WhyQuery
	cmd := command("why [CREDENTIAL] OPERATION [FLAGS]\nwhy JOB", "would a call be granted, does a job run, and why not", whyUsage, func(ctx context.Context, args []string) error {
		if q.Count < 1 {
			return usageError("", "--count must be a whole number from 1: %d", q.Count)
		}
		switch {
		case len(args) == 0:
			job, err := c.client().Job(ctx, q.Job)
			return c.whyJob(ctx, job, err)
		case len(args) == 1 && q.Job == "":
			q.Operation = args[0]
			return c.whyName(ctx, q)
		}
		q.Operation = args[len(args)-1]
		return c.why(ctx, args[:len(args)-1], q, nil)
	})
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 && q.Job != "" && !strings.HasPrefix(q.Job, quota.RemotePrefix) {
			return nil
		}
		return argumentsOf(cmd)(cmd, args)
	}
	cmd.Flags().Int64Var(&q.Count, "count", 1, "ask for `N` calls at once")
	cmd.Flags().StringVar(&q.Job, "job", "", "calls of the job `NAME`, or of the remote caller remote/NAME: some limits count only some jobs (default: calls outside any pass)")
	return cmd
}

// whyName answers for a name alone: of an operation, of a job, or of both.
func (c *cli) whyName(ctx context.Context, q api.WhyQuery) error {
	job, noJob := c.client().Job(ctx, q.Operation)
	if noJob == nil && !slices.Contains(c.names(ctx, "OPERATION"), q.Operation) {
		return c.whyJob(ctx, job, nil)
	}
	var asJob *whyJob
	if noJob == nil {
		body, err := c.ofJob(ctx, job)
		if err != nil {
			return err
		}
		asJob = &body
	}
	err := c.why(ctx, nil, q, asJob)
	if p := (*api.Problem)(nil); errors.As(err, &p) && p.Reason == quota.UnknownOperation {
		known := slices.Sorted(slices.Values(append(c.names(ctx, "OPERATION"), c.names(ctx, "JOB")...)))
		return &failure{exitNotFound, err, quota.DidYouMean(q.Operation, slices.Compact(known), "operations and jobs")}
	}
	return err
}

// A whyBody is the API's answer, and what the schedule asks of the limits.
type whyBody struct {
	api.Why
	Schedule []plan.Fit `json:"schedule,omitempty"`
	AsJob    *whyJob    `json:"as_job,omitempty"` // the job of the operation's name
}

func (c *cli) why(ctx context.Context, credential []string, q api.WhyQuery, asJob *whyJob) error {
	named := strings.Join(credential, "")
	if q.Job != "" && !strings.HasPrefix(q.Job, quota.RemotePrefix) { // the API would read an unknown name as a caller outside any pass
		job, err := c.client().Job(ctx, q.Job)
		if err != nil {
			return err
		}
		named = cmp.Or(named, job.Credential)
	}
	w, err := c.client().Why(ctx, c.credential(named), q)
	p, _ := c.client().Plan(ctx) // empty if the ledger is away
	return show(c, whyBody{w, askedOf(w, p), asJob}, err,
		func(w whyBody) (int64, error) { return maxMissing(w.Why), nil }, whyPage)
}

// askedOf returns what the schedule asks of the limits of the call, without those it asks nothing of.
func askedOf(w api.Why, p plan.Plan) []plan.Fit {
	return slices.DeleteFunc(p.Limits, func(f plan.Fit) bool {
		isOfCall := slices.ContainsFunc(w.Limits, func(l api.Limit) bool { return l.Name == f.Limit })
		return f.Credential != w.Credential || !isOfCall || f.Demand == 0
	})
}

func maxMissing(w api.Why) int64 {
	missing := int64(0)
	for _, o := range w.Obstacles {
		missing = max(missing, o.Missing)
	}
	return missing
}

func whyPage(body whyBody, v term.View) string {
	w := body.Why
	var b strings.Builder
	style := term.Red
	if w.Granted {
		style = term.Green
	}
	v.Prose(&b, 0, style, verdict(w))
	if w.RetryAt != nil {
		v.Prose(&b, 0, term.Plain, fmt.Sprintf("fits %s, if nothing else happens", v.When(*w.RetryAt)))
	}
	for _, short := range w.WouldDeny {
		v.Prose(&b, 0, term.Yellow, shortageText(short))
	}
	b.WriteByte('\n')
	renderLimits(&b, "", w.Limits, nil, v)
	for _, f := range body.Schedule {
		renderFit(&b, f, v)
	}
	for _, o := range w.Obstacles {
		renderHolders(&b, o, v)
	}
	if cures := curesOf(w, v); len(cures) > 0 {
		b.WriteString("\nwhat would change it\n")
		for _, cure := range cures {
			v.Item(&b, 2, "- ", cure)
		}
	}
	if body.AsJob != nil {
		b.WriteString("\n" + whyJobPage(*body.AsJob, v))
	}
	return b.String()
}

// renderFit writes what the schedule asks of a limit, and for whom.
func renderFit(b *strings.Builder, f plan.Fit, v term.View) {
	v.Item(b, 2, "limit "+f.Limit+": ", "the schedule "+f.String()+"; by "+f.ByJob())
}

// shortageText says what a limit that is not enforced would do.
func shortageText(s quota.Shortage) string {
	if !s.Closed.IsZero() {
		return fmt.Sprintf("limit %s, which is closed, would deny this if it were enforced", s.Limit)
	}
	return fmt.Sprintf("limit %s would deny this, %s missing, if it were enforced", s.Limit, quota.Count(s.Missing, "is", "are"))
}

func verdict(w api.Why) string {
	asked := fmt.Sprintf("%s of %s", quota.Count(w.Count, "call", "calls"), w.Operation)
	switch {
	case w.Outage:
		return fmt.Sprintf("granted: %s (%s), from the outage's own units: the ledger cannot be reached", asked, units(w.Units))
	case w.Granted && w.Units == 0:
		return fmt.Sprintf("granted: %s is free, whatever the limits hold", w.Operation)
	case w.Granted:
		return fmt.Sprintf("granted: there is room for %s (%s), and for %s in all", asked, units(w.Units), quota.Thousands(w.FitsCount))
	default:
		return "denied: " + cmp.Or(w.Detail, w.Reason)
	}
}

// curesOf returns what would get the calls granted, each alone, the cheapest first.
func curesOf(w api.Why, v term.View) []string {
	if w.Granted {
		return nil
	}
	var cures []string
	if w.ReserveAllows {
		command := fmt.Sprintf("quotactl acquire %s --credential %s", w.Operation, w.Credential)
		if w.Count > 1 {
			command += fmt.Sprintf(" --count %d", w.Count)
		}
		cures = append(cures, "spend from the reserve, as an operator: "+command+" --use-reserve")
	}
	if w.RetryAt != nil {
		cures = append(cures, "wait until "+v.Clock(term.CeilSecond(*w.RetryAt))+v.ZoneMark())
	}
	if 0 < w.FitsCount && w.FitsCount < w.Count {
		cures = append(cures, fmt.Sprintf("ask for less: %s would be granted now", quota.Count(w.FitsCount, "call", "calls")))
	}
	for _, cure := range []struct {
		text string
		part func(w api.Why, o api.Obstacle) string
	}{
		{"if the upstream is known to grant it again: ", openCommand},
		{"lower the reserve in the configuration, then quotactl reload: ", reserveLine},
		{"raise the limit in the configuration, then quotactl reload: ", unitsLine},
	} {
		if parts := ofEach(w, cure.part); parts != nil {
			cures = append(cures, cure.text+strings.Join(parts, " and "))
		}
	}
	return cures
}

// ofEach returns what part has for each obstacle, none where it has nothing for one of them: all
// of them must go.
func ofEach(w api.Why, part func(w api.Why, o api.Obstacle) string) (parts []string) {
	for _, o := range w.Obstacles {
		text := part(w, o)
		if text == "" {
			return nil
		}
		parts = append(parts, text)
	}
	return parts
}

func openCommand(w api.Why, o api.Obstacle) string {
	if l := limitOf(w, o); o.Missing > 0 || l.Closed == nil {
		return ""
	}
	return fmt.Sprintf("quotactl open %s %s", w.Credential, o.Limit)
}

func reserveLine(w api.Why, o api.Obstacle) string {
	l := limitOf(w, o)
	if o.Missing > 0 && l.Reserve >= o.Missing && l.Closed == nil {
		return fmt.Sprintf("credentials.%s.limits.%s.reserve = %s", w.Credential, o.Limit, configured(l.Reserve-o.Missing))
	}
	return ""
}

func unitsLine(w api.Why, o api.Obstacle) string {
	if o.RaiseTo == 0 {
		return ""
	}
	text := fmt.Sprintf("credentials.%s.limits.%s.units = %s", w.Credential, o.Limit, configured(o.RaiseTo))
	if !o.Sure {
		text += " (if the upstream grants that many)"
	}
	return text
}

// configured writes a number as a configuration has it.
func configured(n int64) string { return strings.ReplaceAll(quota.Thousands(n), ",", "_") }

func limitOf(w api.Why, o api.Obstacle) api.Limit {
	return w.Limits[slices.IndexFunc(w.Limits, func(l api.Limit) bool { return l.Name == o.Limit })]
}

// maxNamed is how many holders are named; the rest is summed up.
const maxNamed = 4

// renderHolders writes who holds the units of an obstacle.
func renderHolders(b *strings.Builder, o api.Obstacle, v term.View) {
	if len(o.Jobs) == 0 {
		return
	}
	fmt.Fprintf(b, "\n%s\n", v.Paint(term.Bold, "who holds limit "+o.Limit))
	v.Item(b, 2, "jobs        ", holdersText("job", o.Jobs, o.Held, v))
	v.Item(b, 2, "regions     ", holdersText("region", o.Regions, o.Held, v))
	v.Item(b, 2, "operations  ", holdersText("operation", o.Operations, o.Held, v))
}

// holdersText writes "trending 8,000 (85 %), charts 1,400 (15 %)".
func holdersText(by string, holders []quota.Holder, held int64, v term.View) string {
	var parts []string
	rest := held
	for _, h := range holders[:min(maxNamed, len(holders))] {
		parts = append(parts, fmt.Sprintf("%s %s (%s)", wording.ShareName(by, h.Name, v), quota.Thousands(h.Units), wording.Percent(int64(h.Units), held)))
		rest -= int64(h.Units)
	}
	if rest > 0 {
		parts = append(parts, "others "+quota.Thousands(rest))
	}
	return strings.Join(parts, ", ")
}

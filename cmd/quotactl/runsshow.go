package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	"quotad/quota"
)

const runsShowUsage = `Show a run: its passes, what they spent, and the last lines of their output.

Usage:
  quotactl runs show RUN

Example:
  $ quotactl runs show 06f3k9x2a7q4mzt
`

func newRunsShow(c *cli) *cobra.Command {
	return &cobra.Command{
		Use:               "show RUN",
		Short:             "one run: passes, units, last output",
		Long:              runsShowUsage,
		Args:              arguments("RUN"),
		ValidArgsFunction: c.completeRun,
		RunE: func(cmd *cobra.Command, args []string) error {
			run, err := c.operator().Run(cmd.Context(), args[0])
			if err != nil {
				return c.explain(err)
			}
			return c.printRun(run)
		},
	}
}

// printRun answers with one run.
func (c *cli) printRun(run jobs.Run) error {
	return c.print(answer{
		body:  run,
		value: noInteger("a run"),
		table: func(v term.View) string { return runPage(run, v) },
	})
}

func runPage(r jobs.Run, v term.View) string {
	var b strings.Builder
	v.Prose(&b, 0, term.Bold, "job "+r.Job)
	renderRun(&b, "run", r, v)
	renderPasses(&b, r.Passes, v)
	for _, p := range r.Passes {
		if len(p.Tail) == 0 {
			continue
		}
		v.Prose(&b, 2, term.Bold, "output of "+string(p.Region)+attemptText(p))
		for _, line := range p.Tail {
			b.WriteString("    " + v.Clean(line) + "\n")
		}
	}
	return b.String()
}

// notOK returns the last passes of regions that are worth a line of their own.
func notOK(r jobs.Run) []jobs.Pass {
	return slices.DeleteFunc(r.Latest(), func(p jobs.Pass) bool { return p.Outcome == jobs.OK })
}

// renderRun writes what became of a run, all in all.
func renderRun(b *strings.Builder, title string, r jobs.Run, v term.View) {
	v.Prose(b, 2, runStyle(r), fmt.Sprintf("%s %s: %s, %s", title, r.ID, stateText(r, v), tally(r)))
	v.Prose(b, 2, term.Faint, timingText(r, v))
	for _, set := range r.Set {
		v.Prose(b, 2, term.Plain, "set "+string(set))
	}
	if r.Detail != "" {
		v.Prose(b, 2, term.Plain, r.Detail)
	}
}

// timingText says when and where a run began, and how long it took.
func timingText(r jobs.Run, v term.View) string {
	timing := "began " + v.When(r.StartedAt)
	if !r.EndedAt.IsZero() {
		timing += ", took " + term.Took(r.EndedAt.Sub(r.StartedAt))
	}
	if r.Host != "" {
		timing += ", on " + v.Clean(r.Host)
	}
	return timing
}

// stateText says how a run is, and what it waits for.
func stateText(r jobs.Run, v term.View) string {
	if r.Waits != nil {
		return fmt.Sprintf("%s (waits for %s, until %s)", r.State, r.Waits.Limit, v.Clock(r.Waits.Until))
	}
	if r.Reason == "" {
		return string(r.State)
	}
	return fmt.Sprintf("%s (%s)", r.State, r.Reason)
}

func renderPasses(b *strings.Builder, passes []jobs.Pass, v term.View) {
	t := term.Table{Indent: 4, Columns: []term.Column{
		{Head: "REGION"}, {Head: "OUTCOME"}, {Head: "UNITS", Right: true}, {Head: "TOOK", Right: true}, {Head: "REASON", Sinks: true},
	}}
	for _, p := range passes {
		t.Add(term.Cell{Text: string(p.Region)}, term.Cell{Text: string(p.Outcome), Style: outcomeStyle(p.Outcome)},
			term.Cell{Text: quota.Thousands(p.Units)}, term.Cell{Text: passTook(p, v.Now)}, term.Cell{Text: reasonOf(p, v)})
	}
	if len(t.Rows) > 0 {
		t.Render(b, v)
	}
}

// outcomes are all that a pass can have, in the order in which they are told.
func outcomes() []jobs.Outcome {
	return []jobs.Outcome{
		jobs.OK, jobs.Running, jobs.Exhausted, jobs.Failed, jobs.Timeout, jobs.Killed, jobs.Interrupted, jobs.Skipped,
	}
}

func outcomeNames() []string {
	var names []string
	for _, o := range outcomes() {
		names = append(names, string(o))
	}
	return names
}

// tally counts a run's passes by outcome, and the units they spent.
func tally(r jobs.Run) string {
	counts := map[jobs.Outcome]int{}
	var spent int64
	for _, p := range r.Passes {
		counts[p.Outcome]++
		spent += int64(p.Units)
	}
	var parts []string
	for _, o := range outcomes() {
		if n := counts[o]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", n, o))
		}
	}
	rest := "not reached"
	if r.State == jobs.RunRunning {
		rest = "not yet"
	}
	if n := len(r.Ring) - len(r.Latest()); n > 0 {
		parts = append(parts, fmt.Sprintf("%d %s", n, rest))
	}
	spentText := units(spent)
	if r.UnitsPerRun > 0 {
		spentText = fmt.Sprintf("%s of %s", quota.Thousands(spent), units(int64(r.UnitsPerRun)))
	}
	return strings.Join(append(parts, spentText), ", ")
}

func passTook(p jobs.Pass, now time.Time) string {
	end := p.EndedAt
	if end.IsZero() {
		end = now
	}
	return term.Took(max(0, end.Sub(p.StartedAt)))
}

// liveText tells of a pass under way which process it is, when it has to be over, and
// what it has just written.
func liveText(p jobs.Pass, v term.View) (parts []string) {
	if p.PID > 0 {
		parts = append(parts, fmt.Sprintf("pid %d", p.PID))
	}
	if !p.Deadline.IsZero() {
		parts = append(parts, "is to end by "+v.Clock(p.Deadline))
	}
	if n := len(p.Tail); n > 0 {
		parts = append(parts, "last line: "+v.Clean(p.Tail[n-1]))
	}
	return parts
}

// attemptText tells of a pass that a failed one of its region came before.
func attemptText(p jobs.Pass) string {
	if p.Attempt == 0 {
		return ""
	}
	return fmt.Sprintf(", attempt %d", p.Attempt+1)
}

// fitText says when what was refused fits, if nothing else happens, or would have.
func fitText(at time.Time, v term.View) string {
	if at.After(v.Now) {
		return "would fit " + v.When(at)
	}
	return "would have fit " + v.When(at)
}

// reasonOf tells first what an operator waits for, as it was when the pass ended: units
// may have come back otherwise since. A reason that only repeats
// the outcome is left out.
func reasonOf(p jobs.Pass, v term.View) string {
	var parts []string
	if p.Attempt > 0 {
		parts = append(parts, strings.TrimPrefix(attemptText(p), ", "))
	}
	if !p.RetryAt.IsZero() {
		parts = append(parts, fitText(p.RetryAt, v))
	}
	if p.Outcome == jobs.Running {
		parts = append(parts, liveText(p, v)...)
	}
	if p.Reason != "" && string(p.Reason) != string(p.Outcome) {
		parts = append(parts, string(p.Reason))
	}
	detail := p.Detail
	if p.Said != "" {
		detail += ": " + p.Said
	}
	if detail != "" {
		parts = append(parts, v.Clean(detail))
	}
	return strings.Join(parts, "; ")
}

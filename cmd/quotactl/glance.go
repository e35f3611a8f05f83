package main

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// How much of a status is told at a glance.
const (
	mostTroubles = 4
	mostLines    = 40 // of limits, and of jobs
)

// renderGlance writes what needs a person, and then a line for each limit and each job.
func renderGlance(b *strings.Builder, s jobsapi.Status, v term.View) {
	renderTriage(b, s.Triage, mostTroubles, false, v)
	if len(s.Credentials) == 0 {
		v.Prose(b, 0, term.Faint, "no credential is configured; quotactl clients shows limits for clients")
	} else {
		if b.Len() > 0 {
			b.WriteByte('\n')
		}
		glanceLimits(b, s, v)
	}
	if len(s.Jobs) > 0 {
		glanceJobs(b, s.Jobs, v)
	}
}

// renderTriage writes the sentence, and a line for each trouble; below it, if there is room for
// more, what to do.
func renderTriage(b *strings.Builder, t jobsapi.Triage, most int, cures bool, v term.View) {
	if t.Says != "" {
		v.Prose(b, 0, triageStyle(t), t.Says)
	}
	shown := t.Troubles
	if len(shown) > most {
		shown = shown[:most-1]
	}
	for _, trouble := range shown {
		line := trouble.Of + ": " + troubleText(trouble, v)
		if cures {
			v.Prose(b, 2, troubleStyle(trouble), line)
			if trouble.Do != "" {
				v.Prose(b, 4, term.Plain, trouble.Do)
			}
			continue
		}
		line, do := v.Clean(line), "  "+v.Clean(trouble.Do)
		if trouble.Do == "" || !v.Whole && 2+utf8.RuneCountInString(line+do) > v.Width {
			do = ""
		}
		if !v.Whole {
			line = v.Cut(line, v.Width-2)
		}
		b.WriteString("  " + v.Paint(troubleStyle(trouble), line) + do + "\n")
	}
	if more := len(t.Troubles) - len(shown); more > 0 {
		v.Prose(b, 2, term.Plain, fmt.Sprintf("and %d more; what to do: quotactl --all", more))
	}
	for _, note := range t.Notes[:min(most, len(t.Notes))] {
		v.Prose(b, 2, term.Faint, note.Of+": "+troubleText(note, v))
		if cures && note.Do != "" {
			v.Prose(b, 4, term.Faint, note.Do)
		}
	}
}

func triageStyle(t jobsapi.Triage) term.Style {
	switch {
	case len(t.Troubles) == 0:
		return term.Green
	case t.Troubles[0].Grave:
		return term.Red
	}
	return term.Yellow
}

func troubleStyle(t jobsapi.Trouble) term.Style {
	if t.Grave {
		return term.Red
	}
	return term.Yellow
}

// troubleText says what is wrong, and when it ends, or began.
func troubleText(t jobsapi.Trouble, v term.View) string {
	if t.When.IsZero() {
		return t.Says
	}
	return t.Says + "; " + t.Then + " " + v.When(t.When)
}

// glanceLimits writes a line for each limit.
func glanceLimits(b *strings.Builder, s jobsapi.Status, v term.View) {
	t := &term.Table{Columns: []term.Column{{Head: "LIMIT"}, {Whole: true}, {Head: "LEFT", Right: true}, {Head: "OF", Right: true}, {Head: "OUTLOOK"}}}
	bar := 16
	if v.Width < term.DefaultWidth {
		bar = 0
	}
	for _, c := range s.Credentials {
		if c.Error != "" {
			t.Add(term.Cell{Text: c.Name}, term.Cell{}, term.Cell{Text: "?", Style: term.Red}, term.Cell{}, term.Cell{Text: "not known: " + v.Clean(c.Error), Style: term.Red})
		}
		for _, l := range c.Limits {
			t.Add(term.Cell{Text: c.Name + " " + l.Name}, term.Cell{Text: barOf(l, bar, v), Style: stateOf(l)},
				term.Cell{Text: quota.Thousands(l.Remaining), Style: stateOf(l)}, term.Cell{Text: quota.Thousands(l.Units - l.Reserve)},
				term.Cell{Text: outlook(c, l, plan.ForecastOf(s.Forecast, c.Name, l.Name), v), Style: term.Faint})
		}
	}
	more := t.Keep(mostLines)
	t.Render(b, v)
	sayMore(b, more, v)
}

// sayMore says how many lines were left out.
func sayMore(b *strings.Builder, more int, v term.View) {
	if more > 0 {
		v.Prose(b, 0, term.Faint, fmt.Sprintf("and %s more: quotactl --all", quota.Thousands(more)))
	}
}

// outlook says the one thing that is worth knowing of a limit.
func outlook(c api.Credential, l api.Limit, f plan.Forecast, v term.View) string {
	switch {
	case c.AsOf != nil:
		return "as of " + v.Clock(*c.AsOf)
	case l.Closed != nil:
		return "closed, opens in " + term.Brief(max(0, l.Closed.Until.Sub(v.Now)))
	case l.CatchingUpUntil != nil:
		return "counts as spent until " + v.Clock(*l.CatchingUpUntil)
	case l.Lifted:
		return "lifted until its period ends"
	case l.DryRun:
		return "not enforced"
	case l.Remaining == 0 && l.NextUnitsAt != nil:
		return fmt.Sprintf("%s back in %s", quota.Thousands(l.NextUnits), term.Brief(max(0, l.NextUnitsAt.Sub(v.Now))))
	}
	var parts []string
	if l.LentUntil != nil {
		parts = append(parts, fmt.Sprintf("%s lent for %s", quota.Thousands(l.Lent), term.Brief(max(0, l.LentUntil.Sub(v.Now)+time.Second-1))))
	}
	if !f.GoneAt.IsZero() {
		about, _, _ := strings.Cut(term.Brief(max(0, f.GoneAt.Sub(v.Now))), " ")
		parts = append(parts, "used up in about "+about)
	}
	if f.PerHour > 0 {
		parts = append(parts, quota.Thousands(f.PerHour)+" in the last hour")
	}
	return strings.Join(parts, ", ")
}

// glanceJobs writes a line for each job.
func glanceJobs(b *strings.Builder, list []jobsapi.Job, v term.View) {
	t := &term.Table{Columns: []term.Column{{Head: "JOB"}, {Head: "NEXT" + v.ZoneMark()}, {Head: "LAST"}, {Head: "TOOK", Right: true}, {Head: "OK", Right: true}, {Head: "UNITS", Right: true}}}
	for _, j := range list {
		next := nextCell(j, v)
		if j.LastRun == nil {
			t.Add(term.Cell{Text: j.Name}, next, term.Cell{Text: "none", Style: term.Faint}, term.Cell{}, term.Cell{}, term.Cell{})
			continue
		}
		took, ok, spent := sums(*j.LastRun, v.Now)
		ok, _, _ = strings.Cut(ok, " ")
		last := lastCell(j.LastRun, v)
		if isOverdue(j, v) {
			last = term.Cell{Text: last.Text + ", overdue", Style: term.Red}
		}
		t.Add(term.Cell{Text: j.Name}, next, last, term.Cell{Text: took}, term.Cell{Text: ok}, term.Cell{Text: spent})
	}
	more := t.Keep(mostLines)
	t.Render(b, v)
	sayMore(b, more, v)
}

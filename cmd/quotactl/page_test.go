package main

import (
	"strings"
	"testing"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs/plan"
)

// The terminal says what the page says: each trouble, each note on a limit, each job's lines.
func TestTerminalSaysWhatThePageSays(t *testing.T) {
	for _, input := range []string{"busy", "exhausted", "outage"} {
		t.Run(input, func(t *testing.T) {
			v := viewOf(10_000) // nothing is wrapped
			s := readStatus(t, input)
			terminal := renderStatus(s, v)
			said := func(where, text string) {
				t.Helper()
				if text != "" && !strings.Contains(terminal, v.Clean(text)) {
					t.Errorf("%s: the terminal does not say %q:\n%s", where, text, terminal)
				}
			}
			for _, trouble := range s.Triage.Troubles {
				said("triage", wording.Trouble(trouble, v))
			}
			for _, c := range s.Credentials {
				for _, l := range c.Limits {
					said(l.Name, strings.Join(wording.LimitNotes(l, plan.RateOf(s.Rates, c.Name, l.Name), v), "; "))
				}
			}
			for _, j := range s.Jobs {
				for _, line := range wording.JobLines(j, v) {
					said(j.Name, line.Text)
				}
				if j.Last != nil {
					for _, pass := range wording.NotOK(*j.Last) {
						said(j.Name, string(pass.Region))
					}
				}
			}
		})
	}
}

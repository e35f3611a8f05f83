package main

import (
	"strings"
	"testing"

	"quotad/cmd/quotactl/page"
	"quotad/cmd/quotactl/wording"
	"quotad/jobs/plan"
)

// The page says what the terminal says: each note on a limit, each job's lines, why a call
// is denied.
func TestPageSaysWhatTheTerminalSays(t *testing.T) {
	for _, input := range []string{"busy", "exhausted", "outage"} {
		t.Run(input, func(t *testing.T) {
			v := viewOf(10_000) // nothing is wrapped
			p := page.Picture{Facts: page.Facts{Status: readStatus(t, input)}, View: v}
			terminal := renderStatus(p.Status, v)
			said := func(where, text string) {
				t.Helper()
				if text != "" && !strings.Contains(terminal, v.Clean(text)) {
					t.Errorf("%s: the terminal does not say %q:\n%s", where, text, terminal)
				}
			}
			for _, trouble := range p.Status.Triage.Troubles {
				said("triage", wording.Trouble(trouble, v))
			}
			for _, c := range p.Status.Credentials {
				for _, l := range c.Limits {
					said(l.Name, strings.Join(wording.LimitNotes(l, plan.ForecastOf(p.Status.Forecast, c.Name, l.Name), v), "; "))
				}
			}
			for _, j := range p.Status.Jobs {
				for _, line := range p.JobLines(j) {
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

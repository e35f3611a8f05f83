package main

import (
	"slices"
	"strings"
	"testing"

	"quotad/cmd/quotactl/page"
	"quotad/cmd/quotactl/wording"
)

// The page says what the terminal says: each note on a limit, each job's lines, why a call
// is denied.
func TestPageSaysWhatTheTerminalSays(t *testing.T) {
	for _, input := range []string{"busy", "exhausted", "outage"} {
		t.Run(input, func(t *testing.T) {
			v := viewOf(10_000) // nothing is wrapped
			f := page.Facts{Status: readStatus(t, input)}
			p := f.Picture(v)
			terminal := renderStatus(f.Status, v)
			said := func(where, text string) {
				t.Helper()
				if text != "" && !strings.Contains(terminal, v.Clean(text)) {
					t.Errorf("%s: the terminal does not say %q:\n%s", where, text, terminal)
				}
			}
			said("head", p.About.Text)
			said("triage", p.Says.Text)
			for _, trouble := range p.Troubles {
				said("triage", trouble.Of+": "+trouble.Text)
				said("triage", trouble.Do)
			}
			for _, c := range p.Credentials {
				said(c.Name, c.Error)
				for _, l := range c.Limits {
					said(l.Name, strings.Join(l.Notes, "; "))
				}
			}
			for i, j := range p.Jobs {
				regions := strings.Fields(wording.Regions(f.Status.Jobs[i].Regions))
				for _, line := range j.Lines {
					text := strings.TrimPrefix(line.Text, "last run: ")
					if first, _, _ := strings.Cut(text, " "); slices.Contains(regions, first) { // a row of the terminal's table
						_, text, _ = strings.Cut(text, ": ")
					}
					said(j.Name, text)
				}
			}
		})
	}
}

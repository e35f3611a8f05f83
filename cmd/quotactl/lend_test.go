package main

import (
	"strings"
	"testing"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
)

// A loan is shown with the troubles, and is none of them: it needs no person.
func TestNotesAreNoTroubles(t *testing.T) {
	v := viewOf(120)
	status := jobsapi.Status{Triage: jobsapi.Triage{
		Says: "nothing needs attention", Troubles: []jobsapi.Trouble{},
		Notes: []jobsapi.Trouble{{Of: "limit youtube daily", Says: "youtube daily: 500 units more until 15:26, lent by root: for the demo", Do: "quotactl lend youtube daily 0"}},
	}}
	for _, cures := range []bool{false, true} {
		var b strings.Builder
		renderTriage(&b, status.Triage, maxTroubles, cures, v)
		want := "nothing needs attention\n  youtube daily: 500 units more until 15:26, lent by root: for the demo\n"
		if !strings.HasPrefix(b.String(), want) || strings.Contains(b.String(), "quotactl lend youtube daily 0") != cures {
			t.Errorf("got\n%s\nwant %q", b.String(), want)
		}
	}
	if got := wording.Trouble(status.Triage.Notes[0], v); wording.TriageStyle(status.Triage) != term.Green || !strings.HasSuffix(got, "lent by root: for the demo") {
		t.Errorf("the page has %q", got)
	}
	only := selection{credential: "vimeo"}
	if only.triage(&status); len(status.Triage.Notes) != 0 {
		t.Errorf("the status of another credential has %+v", status.Triage.Notes)
	}
}

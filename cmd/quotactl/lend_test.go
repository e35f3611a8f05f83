package main

import (
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/quotactl/wording"
	jobsapi "quotad/jobs/api"
)

// A loan is shown with the troubles, and is none of them: it needs no person.
func TestNotesAreNoTroubles(t *testing.T) {
	v := viewOf(120)
	status := jobsapi.Status{Triage: jobsapi.Triage{
		Says: "nothing needs attention", Troubles: []jobsapi.Trouble{},
		Notes: []jobsapi.Trouble{{Of: "limit youtube daily", Says: "500 units more, lent by root: for the demo", Then: "ends", When: v.Now.Add(6 * time.Hour), Do: "quotactl lend youtube daily 0"}},
	}}
	for _, cures := range []bool{false, true} {
		var b strings.Builder
		renderTriage(&b, status.Triage, maxTroubles, cures, v)
		want := "nothing needs attention\n  limit youtube daily: 500 units more, lent by root: for the demo; ends in 6h"
		if !strings.HasPrefix(b.String(), want) || strings.Contains(b.String(), "quotactl lend youtube daily 0") != cures {
			t.Errorf("got\n%s\nwant %q", b.String(), want)
		}
	}
	if got := wording.Trouble(status.Triage.Notes[0], v); wording.TriageStyle(status.Triage) != term.Green || !strings.Contains(got, "lent by root: for the demo; ends in 6h") {
		t.Errorf("the page has %q", got)
	}
	only := selection{credential: "vimeo"}
	if only.triage(&status); len(status.Triage.Notes) != 0 {
		t.Errorf("the status of another credential has %+v", status.Triage.Notes)
	}
}

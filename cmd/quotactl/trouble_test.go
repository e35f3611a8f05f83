package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"quotad/cmd/quotactl/term"
	jobsapi "quotad/jobs/api"
)

// The command stays on the line of its trouble, after what is wrong and since when; the end of what is said, which is the
// upstream's words, is cut first.
func TestTheCommandStays(t *testing.T) {
	closed := jobsapi.Trouble{
		Says: "youtube daily is closed until Fri 08:00: exhausted at 7,004 of our 10,000: another program has spent some 3,000: The request cannot be completed because you have exceeded your quota",
		Do:   "quotactl book youtube daily 2996", Since: at.Add(-time.Hour), Grave: true,
	}
	short := jobsapi.Trouble{Says: "the disk of /srv/quotad has 60 MB left", Do: "df /srv/quotad", Since: at.Add(-time.Hour)}
	bare := jobsapi.Trouble{Says: strings.Repeat("word ", 60), Since: at.Add(-time.Hour)}
	whole := viewOf(80)
	whole.Whole = true
	for _, row := range []struct {
		of   jobsapi.Trouble
		v    term.View
		want string
	}{
		{closed, viewOf(60), "youtube daily is closed…  → quotactl book youtube daily 2996"},
		{closed, viewOf(80), "youtube daily is closed un… (since 08:26:53)  → quotactl book youtube daily 2996"},
		{closed, viewOf(120), "youtube daily is closed until Fri 08:00: exhausted at 7,004 of our… (since 08:26:53)  → quotactl book youtube daily 2996"},
		{closed, whole, closed.Says + " (since 08:26:53)  → quotactl book youtube daily 2996"},
		{short, viewOf(80), "the disk of /srv/quotad has 60 MB left (since 08:26:53)  → df /srv/quotad"},
		{short, viewOf(120), "the disk of /srv/quotad has 60 MB left (since 08:26:53)  → df /srv/quotad"},
		{bare, viewOf(60), "word word word word word word word word wo… (since 08:26:53)"},
	} {
		got := strings.TrimSuffix(troubleLine(row.of, row.v), "\n")
		if got != row.want || !row.v.Whole && utf8.RuneCountInString(got) > row.v.Width {
			t.Errorf("at %d columns, %d are written:\n%s\nwant\n%s", row.v.Width, utf8.RuneCountInString(got), got, row.want)
		}
	}
}

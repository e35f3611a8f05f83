package main

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// A bar is exactly as wide as it should be, and free cells show exactly while
// ordinary callers may spend.
func TestBar(t *testing.T) {
	drawn := strings.NewReplacer("#", "█", ".", "░", "=", "▒")
	for _, row := range []struct {
		name           string
		units, reserve int64
		used           int64
		want           string
	}{
		{"empty", 100, 0, 0, ".........."},
		{"empty with a reserve", 100, 20, 0, "........=="},
		{"a little used", 10000, 0, 1, "#........."},
		{"half", 100, 20, 40, "####....=="},
		{"one unit left", 10000, 2000, 7999, "#######.=="},
		{"exhausted", 100, 20, 80, "########=="},
		{"the reserve begun", 100, 20, 90, "#########="},
		{"all gone", 100, 20, 100, "##########"},
		{"past the limit", 100, 20, 170, "##########"},
		{"a reserve of nearly all", 100, 99, 0, ".========="},
		{"the greatest amounts", 1<<53 - 1, 0, 1<<53 - 2, "#########."},
	} {
		t.Run(row.name, func(t *testing.T) {
			l := api.Limit{Units: row.units, Reserve: row.reserve, Used: row.used, Remaining: max(0, row.units-row.reserve-row.used)}
			if got := bar(l, 10); got != drawn.Replace(row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

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
		v    wording.View
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
		got := strings.TrimSuffix(troubleLine(row.of, wording.Plain, row.v), "\n")
		if got != row.want || !row.v.Whole && utf8.RuneCountInString(got) > row.v.Width {
			t.Errorf("at %d columns, %d are written:\n%s\nwant\n%s", row.v.Width, utf8.RuneCountInString(got), got, row.want)
		}
	}
}

// What an operator closed is shown with the troubles, and is none of them: it needs no person.
func TestNotesAreNoTroubles(t *testing.T) {
	v := viewOf(120)
	status := jobsapi.Status{Triage: jobsapi.Triage{
		Says: "nothing needs attention", Troubles: []jobsapi.Trouble{},
		Notes: []jobsapi.Trouble{{
			Of: "limit youtube daily", Do: "quotactl open youtube daily",
			Says: "youtube daily is closed until 15:26 by root: for the demo",
		}},
	}}
	want := "nothing needs attention\n  youtube daily is closed until 15:26 by root: for the demo\n"
	if got := renderStatus(status, v); !strings.HasPrefix(got, want) {
		t.Errorf("got\n%s\nwant %q", got, want)
	}
}

// The one thing that is worth knowing of a limit.
func TestOutlook(t *testing.T) {
	v := viewOf(80)
	l := api.Limit{Name: "daily", Units: 10_000, Reserve: 500, Used: 9_400, Remaining: 100}
	var closed, observes, over, gone = l, l, l, l
	closed.Closed = &quota.Closed{Until: at.Add(time.Hour)}
	observes.Observes, over.Observes, over.Remaining = true, true, 0
	back := at.Add(200 * time.Second)
	gone.Remaining, gone.NextUnits, gone.NextUnitsAt = 0, 1, &back
	short := jobsapi.Job{Name: "charts", Credential: "youtube", Short: &jobs.Shortage{Limit: "daily", Needs: 300}}
	rate := plan.Rate{Credential: "youtube", Limit: "daily", PerHour: 850, GoneAt: at.Add(4 * time.Hour)}
	for _, row := range []struct {
		l     api.Limit
		jobs  []jobsapi.Job
		rates []plan.Rate
		want  string
	}{
		{closed, nil, nil, "closed until 10:26:53 UTC"},
		{l, []jobsapi.Job{short}, []plan.Rate{rate}, "too little for charts"},
		{over, nil, nil, "would be refused"},
		{observes, nil, nil, "not enforced"},
		{l, nil, []plan.Rate{rate}, "used up at about 13:26 UTC"},
		{gone, nil, []plan.Rate{rate}, "1 back in 3m 20s"},
		{l, nil, nil, ""},
	} {
		c := api.Credential{Name: "youtube", Limits: []api.Limit{row.l}}
		if got := wording.Outlook(jobsapi.Status{Jobs: row.jobs, Rates: row.rates}, c, row.l, v); got != row.want {
			t.Errorf("got %q, want %q", got, row.want)
		}
	}
}

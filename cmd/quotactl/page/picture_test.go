package page

import (
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota/api"
	"quotad/regions"
)

// noon is the instant of every picture of these tests.
var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

func ago(hours float64) time.Time { return noon.Add(-time.Duration(hours * float64(time.Hour))) }

func pictureOf(f Facts) Picture {
	return Picture{Facts: f, View: wording.View{Now: noon, Zone: time.UTC, Width: 80}}
}

// paint returns a picture that has a text wherever one can be.
func paint(text string) Picture {
	region := regions.Region(text)
	run := jobs.Run{
		ID: text, Job: text, State: jobs.RunFailed, Host: text, Stop: jobs.Stop{Detail: text}, StartedAt: ago(3), EndedAt: ago(2), Ring: regions.Ring{region},
		Passes: []jobs.Pass{{Region: region, Outcome: jobs.Failed, Stop: jobs.Stop{Detail: text}, Spent: jobs.Spent{Units: 4}, Said: text, StartedAt: ago(3), EndedAt: ago(2), Tail: []string{text}}},
	}
	skipped := jobs.Run{Job: text, State: jobs.RunSkipped, Stop: jobs.Stop{Reason: jobs.Paused, Detail: text}, Slot: ago(6), LastSlot: ago(5), Ticks: 3}
	limit := api.Limit{Name: text, Units: 10_000, Reserve: 500, Used: 9_000, Remaining: 500, Describe: text, WindowMs: 86_400_000}
	trouble := jobsapi.Trouble{Of: text, Says: text, Do: text, Grave: true}
	job := jobsapi.Job{Name: text, Schedule: text, Regions: []regions.Region{region}, Cursor: regions.Cursor(region), Last: &run, Skips: &skipped}
	return pictureOf(Facts{
		Host: text,
		Status: jobsapi.Status{
			Status: api.Status{
				Version: text, Ledger: api.LedgerState{Backend: text, State: text},
				Credentials: []api.Credential{{Name: text, Limits: []api.Limit{limit, {Name: "short", Describe: text, WindowMs: 60_000}}}, {Name: "lost", Error: text}},
			},
			Rates: []plan.Rate{{Credential: text, Limit: text, PerHour: 200, GoneAt: ago(-3), Spender: text}},
			Jobs:  []jobsapi.Job{job}, Triage: jobsapi.Triage{Says: text, Troubles: []jobsapi.Trouble{trouble}, Notes: []jobsapi.Trouble{trouble}},
		},
		Runs: []jobs.Run{run, skipped},
	})
}

// The page shows the output of failed passes alone.
func TestPageShowsWhatFailedPassesPrinted(t *testing.T) {
	p := paint("some")
	p.Status.Jobs[0].Last.Passes = []jobs.Pass{
		{Region: "US", Outcome: jobs.Running, PID: 42, Tail: []string{"what is under way"}}, {Region: "GB", Outcome: jobs.Failed, Tail: []string{"what went wrong"}},
	}
	html := render(p)
	for text, want := range map[string]bool{"what is under way": false, "what went wrong": true, "pid 42": true} {
		if strings.Contains(html, text) != want {
			t.Errorf("%q is shown: %v\n%s", text, !want, html)
		}
	}
}

// The chart goes back from what is used now, less what was spent since, to where the log that was read begins, and ahead
// in a straight line until the limit is used up.
func TestChart(t *testing.T) {
	spent := Spent{Since: ago(22), Limits: map[string]map[time.Time]int64{}}
	for _, e := range []struct {
		hours float64
		units int64
	}{{20, 500}, {6, 300}, {1, 60}, {0.9, 40}} {
		spent.add(api.Entry{At: ago(e.hours), Charges: []api.Charge{{Limit: "daily", Units: e.units, Debited: 9 * e.units}, {Limit: "other", Units: 1}}})
	}
	l := api.Limit{Name: "daily", Units: 3_000, Reserve: 500, Used: 900, Remaining: 1_600}
	gone := ago(-3)
	c := chartOf(l, spent, plan.Rate{GoneAt: gone}, noon, time.UTC)
	for hours, want := range map[float64]int64{0: 900, 2: 800, 10: 500, 21: 0} {
		i := slices.IndexFunc(c.Held, func(p point) bool { return !p.at.After(ago(hours)) }) // the latest first
		if i < 0 || c.Held[i].units != want {
			t.Errorf("%v hours ago it held not %d: %v", hours, want, c.Held)
		}
	}
	if oldest := c.Held[len(c.Held)-1].at; oldest.Before(ago(22)) {
		t.Errorf("it begins at %v", oldest)
	}
	l.WindowMs = minChart.Milliseconds()
	if why := chartOf(l, spent, plan.Rate{}, noon, time.UTC).Why; why != "" || c.Budget() != "16.7" {
		t.Errorf("%q; the budget is at %s", why, c.Budget())
	}
	if row := pictureOf(Facts{}).limitRow(api.Credential{}, l); row.Fill != "30.00%" || row.Kept != "16.67%" {
		t.Errorf("%s are used, %s are the reserve's", row.Fill, row.Kept)
	}
	if want := []point{{noon, 900}, {gone, 2_500}}; !slices.Equal(c.Ahead, want) || c.Path(c.Ahead) != "M888.9 70.0L1000.0 16.7" {
		t.Errorf("it continues as %v, %s", c.Ahead, c.Path(c.Ahead))
	}
	var ticks []string
	for _, tick := range c.Ticks() {
		ticks = append(ticks, tick.Text)
	}
	if got := strings.Join(ticks, " "); got != "18:00 Sat 14 06:00 now" {
		t.Errorf("the ticks are %s", got)
	}
}

// Rows in trouble come first, marked by the worst of it, and each trouble leads to its row.
func TestTroubledRows(t *testing.T) {
	f := Facts{}
	f.Status.Credentials = []api.Credential{
		{Name: "maps", Limits: []api.Limit{{Name: "daily", Units: 10, Remaining: 10}}},
		{Name: "youtube", Limits: []api.Limit{{Name: "daily", Units: 10, Remaining: 10}, {Name: "search", Units: 10}}},
	}
	f.Status.Jobs = []jobsapi.Job{{Name: "a"}, {Name: "b"}, {Name: "c"}}
	f.Status.Triage.Troubles = []jobsapi.Trouble{
		{Of: "limit youtube daily", Grave: true}, {Of: "credential youtube"}, {Of: "job c", Grave: true}, {Of: "job c"}, {Of: "job b"}, {Of: "ledger", Grave: true},
	}
	p := pictureOf(f)
	var got []string
	for _, row := range p.LimitRows() {
		got = append(got, row.ID+" "+row.Tone)
	}
	for _, row := range p.JobRows() {
		got = append(got, row.Name+" "+row.Tone)
	}
	want := []string{"limit-youtube-daily bad", "limit-maps-daily ", "limit-youtube-search ", "c bad", "b warn", "a "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	html := render(p)
	links := regexp.MustCompile(`<a href="#(.*?)">`).FindAllStringSubmatch(html, -1)
	if len(links) != 5 || !strings.Contains(html, "<title>(6) ") {
		t.Errorf("%d links, want 5: %v", len(links), links)
	}
	for _, link := range links {
		if !strings.Contains(html, `id="`+link[1]+`"`) {
			t.Errorf("nothing has the id %s", link[1])
		}
	}
}

// A job shows its last twelve runs, the oldest first, without skipped slots, and which other host runs it.
func TestLastRunsOfAJob(t *testing.T) {
	f := Facts{}
	for i, state := range []jobs.RunState{jobs.RunDone, jobs.RunStopped, jobs.RunSkipped, jobs.RunFailed, "", "", "", "", "", "", "", "", "", ""} {
		f.Runs = append(f.Runs, jobs.Run{Job: "some", State: state, StartedAt: ago(float64(i))}, jobs.Run{Job: "other"})
	}
	f.Status.Jobs = []jobsapi.Job{{Name: "some", Host: "b"}}
	row := pictureOf(f).JobRows()[0]
	last := row.Runs[len(row.Runs)-3:]
	if len(row.Runs) != 12 || last[0].Class != "bad" || last[1].Class != "warn" || last[2].Class != "good" || last[2].Title == "" {
		t.Errorf("got %v", row.Runs)
	}
	if row.Label() != "the last 12 runs, 1 failed" || row.Next.Text != "on b" {
		t.Errorf("%s, %s", row.Label(), row.Next)
	}
}

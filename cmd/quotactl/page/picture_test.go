package page

import (
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// at is the instant of every picture in this file.
var at = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func ago(hours float64) time.Time { return at.Add(-time.Duration(hours * float64(time.Hour))) }

func pictureOf(f Facts) Picture {
	return Picture{Facts: f, View: wording.View{Now: at, Zone: time.UTC, Width: 80}}
}

// readStatus reads a status that quotactl's own tests show, too.
func readStatus(t *testing.T, name string) (s jobsapi.Status) {
	t.Helper()
	body, err := os.ReadFile("../testdata/" + name + ".json")
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// The page shows the output of failed passes alone, and its last lines alone.
func TestPageShowsWhatFailedPassesPrinted(t *testing.T) {
	f := Facts{Status: readStatus(t, "busy")}
	run := jobs.Run{State: jobs.RunRunning, Ring: f.Status.Jobs[0].Regions, Passes: []jobs.Pass{
		{Region: f.Status.Jobs[0].Regions[0], Outcome: jobs.Running, PID: 42, Tail: []string{"what goes on"}},
		{Region: f.Status.Jobs[0].Regions[1], Outcome: jobs.Failed, Detail: "exit status 3", Tail: []string{"what went wrong"}},
	}}
	f.Status.Jobs[0].Last, f.Runs = &run, []jobs.Run{run}
	html := render(pictureOf(f))
	for text, want := range map[string]bool{"what goes on": false, "what went wrong": true, "exit status 3": true, "pid 42": true} {
		if strings.Contains(html, text) != want {
			t.Errorf("%q is shown: %v\n%s", text, !want, html)
		}
	}
}

// The page says what is not known, and shows the rest.
func TestPageSaysWhatItDoesNotKnow(t *testing.T) {
	f := Facts{Status: readStatus(t, "busy"), RunsErr: errors.New("no runs"), Spent: map[string]Spent{}}
	for _, c := range f.Status.Credentials {
		f.Spent[c.Name] = Spent{Err: errors.New("no log")}
	}
	f.Status.Credentials = append(f.Status.Credentials, api.Credential{Name: "lost", Error: "no answer"})
	html := render(pictureOf(f))
	for _, want := range []string{
		"the last runs are not known: no runs", "no chart: the log cannot be read: no log", "credential lost is not known: no answer",
		`id="limit-youtube-daily"`, `id="job-` + f.Status.Jobs[0].Name,
	} {
		if !strings.Contains(html, want) {
			t.Errorf("the page does not say %q: %s", want, html)
		}
	}
}

// The chart goes back from what is used now, less what was spent since, and ahead in a straight line until it is used up.
func TestChart(t *testing.T) {
	spent := Spent{Since: ago(24), Limits: map[string]map[time.Time]int64{}}
	charge := func(hours float64, units int64) {
		spent.add(api.Entry{At: ago(hours), Charges: []api.Charge{{Limit: "daily", Units: units, Debited: 9 * units}, {Limit: "other", Units: 1}}})
	}
	charge(20, 500)
	charge(6, 300)
	charge(1, 60)
	charge(0.9, 40)
	l := api.Limit{Name: "daily", Units: 3_000, Reserve: 500, Used: 900, WindowMs: (24 * time.Hour).Milliseconds()}
	calendar := api.Limit{Name: "daily", Units: 3_000, Used: 400, Window: "day UTC"} // it began after the first of them
	cut := spent
	cut.Since = ago(5)
	for _, row := range []struct {
		name  string
		l     api.Limit
		spent Spent
		held  map[float64]int64
	}{
		{"sliding", l, spent, map[float64]int64{0: 900, 2: 800, 10: 500, 22: 0}},
		{"calendar", calendar, spent, map[float64]int64{0: 400, 2: 300, 10: 0, 22: 0}},
		{"a long log", l, cut, map[float64]int64{0: 900, 2: 800, 10: -1}},
	} {
		c := chartOf(row.l, row.spent, plan.Rate{}, at, time.UTC)
		for hours, want := range row.held {
			got := int64(-1)
			for _, p := range c.Held { // the latest first
				if !p.at.Before(ago(hours)) {
					got = p.units
				}
			}
			if oldest := c.Held[len(c.Held)-1].at; oldest.After(ago(hours)) {
				got = -1
			}
			if got != want {
				t.Errorf("%s: %v hours ago it held %d, want %d", row.name, hours, got, want)
			}
		}
		if len(c.Ahead) > 0 || !c.Until.Equal(at) {
			t.Errorf("%s: it goes on until %v", row.name, c.Until)
		}
	}
	gone := at.Add(3 * time.Hour)
	c := chartOf(l, spent, plan.Rate{GoneAt: gone}, at, time.UTC)
	if want := []point{{at, 900}, {gone, 2_500}}; !slices.Equal(c.Ahead, want) || c.Path(c.Ahead) != "M888.9 70.0L1000.0 16.7" {
		t.Errorf("it goes on as %v, %s", c.Ahead, c.Path(c.Ahead))
	}
	var ticks []string
	for _, tick := range c.Ticks() {
		ticks = append(ticks, tick.Text)
	}
	if got := strings.Join(ticks, " "); got != "12:00 18:00 Sat 14 06:00 12:00 now" {
		t.Errorf("the ticks are %s", got)
	}
	if c := chartOf(api.Limit{WindowMs: 60_000}, spent, plan.Rate{}, at, time.UTC); !strings.Contains(c.Why, "shorter") {
		t.Errorf("a minute: %+v", c)
	}
}

// Rows in trouble come first, marked by the worst of it, and each trouble leads to its row.
func TestTroubledRows(t *testing.T) {
	f := Facts{}
	f.Status.Credentials = []api.Credential{
		{Name: "maps", Limits: []api.Limit{{Name: "daily", Units: 10, Remaining: 10}}},
		{Name: "youtube", Limits: []api.Limit{{Name: "daily", Units: 10, Remaining: 10}, {Name: "search", Units: 10, Remaining: 0}}},
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

// The bar of a limit shows what the terminal's shows: of a closed one all is gone.
func TestBarOfALimit(t *testing.T) {
	for _, row := range []struct {
		name         string
		l            api.Limit
		filled, kept string
	}{
		{"with a reserve", api.Limit{Units: 100, Reserve: 10, Used: 30, Remaining: 60}, "30.00%", "10.00%"},
		{"in the reserve", api.Limit{Units: 100, Reserve: 10, Used: 95}, "95.00%", "5.00%"},
		{"closed", api.Limit{Units: 100, Reserve: 10, Used: 30, Closed: &quota.Closed{}}, "100.00%", "0.00%"},
		{"open", api.Limit{Units: 100, Used: 30, Remaining: 70}, "30.00%", "0.00%"},
	} {
		f := Facts{}
		f.Status.Credentials = []api.Credential{{Limits: []api.Limit{row.l}}}
		if l := pictureOf(f).LimitRows()[0]; l.Fill != row.filled || l.Kept != row.kept {
			t.Errorf("%s: %s filled and %s kept, want %s and %s", row.name, l.Fill, l.Kept, row.filled, row.kept)
		}
	}
}

// A job shows its last twelve runs, and which other host runs it.
func TestLastRunsOfAJob(t *testing.T) {
	run := func(job string, hours float64, state jobs.RunState) jobs.Run {
		return jobs.Run{Job: job, State: state, Trigger: jobs.Scheduled, Slot: ago(hours), StartedAt: ago(hours), EndedAt: ago(hours - 0.1)}
	}
	f := Facts{Runs: []jobs.Run{
		run("some", 2, jobs.RunDone), run("some", 3, jobs.RunStopped), run("some", 7, jobs.RunSkipped), run("some", 8, jobs.RunFailed),
	}}
	for i := range 20 {
		f.Runs = append(f.Runs, run("often", float64(i), jobs.RunDone))
	}
	f.Status.Jobs = []jobsapi.Job{{Name: "some", Host: "b"}, {Name: "often"}}
	rows := pictureOf(f).JobRows()
	for i, want := range []string{"bad warn good", strings.TrimSpace(strings.Repeat("good ", 12))} {
		var got []string
		for _, mark := range rows[i].Runs {
			got = append(got, mark.Class)
			if mark.Title == "" {
				t.Errorf("%s: a mark says nothing", rows[i].Name)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: got %q, want %q", rows[i].Name, got, want)
		}
	}
	if rows[0].Label() != "the last 3 runs, 1 failed" || rows[0].Next != "runs on b" {
		t.Errorf("%s, %s", rows[0].Label(), rows[0].Next)
	}
}

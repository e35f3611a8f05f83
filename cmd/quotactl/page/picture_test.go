package page

import (
	"encoding/json"
	"html"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// at is the instant of every picture in this file.
var at = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func viewOf(width int) term.View {
	return term.View{Now: at, Zone: time.UTC, Width: width}
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
	all := sections(Picture{Facts: f, View: viewOf(80)})
	shown := strings.Join(all[:], "")
	for text, want := range map[string]bool{"what goes on": false, "what went wrong": true, "exit status 3": true, "pid 42": true} {
		if strings.Contains(shown, text) != want {
			t.Errorf("%q is shown: %v\n%s", text, !want, shown)
		}
	}
}

// The page lists what was refused in the daemon's order, each cause by its one word.
func TestPageRefusals(t *testing.T) {
	ago := func(minutes int) time.Time { return at.Add(-time.Duration(minutes) * time.Minute) }
	f := Facts{Refusals: api.Refusals{Since: ago(500), Refusals: []api.Refusal{
		{At: ago(1), Since: ago(5), Times: 37, Operation: "search.list", Count: 2, Units: 200, By: "trending", Region: "US", Reason: "limit_exceeded", Limit: "daily",
			Detail: "no room for 200 units in limit daily, which has 140 left", RetryAt: new(at.Add(time.Minute))},
		{At: ago(10), Since: ago(130), Times: 3, By: "charts", Region: "KR", Reason: "not_launched", Detail: "no room for 104 units in limit daily, which has 3 left", RetryAt: new(at.Add(time.Hour))},
		{At: ago(15), Since: ago(15), Times: 1, By: "charts", Region: "KR", Reason: "closed", Detail: "limit daily is closed"},
		{At: ago(18), Since: ago(18), Times: 1, Count: 1, By: "odd", Region: "US", Reason: "unknown_operation", Detail: "no route"},
		{At: ago(20), Since: ago(20), Times: 1, Operation: "gone", Count: 1, By: "@1000", Reason: "unknown_operation", Detail: "operation gone is not configured"},
	}}}
	want := []string{
		"09:25:53 UTC 37 times since 09:21:53|trending, US|2 search.list|exhausted: no room for 200 units in limit daily, which has 140 left; would fit in 1m, at 09:27:53 UTC",
		"09:16:53 UTC 3 times since 07:16:53|charts, KR|a pass|not launched: no room for 104 units in limit daily, which has 3 left; would fit in 1h, at 10:26:53 UTC",
		"09:11:53 UTC|charts, KR|a pass|closed: limit daily is closed",
		"09:08:53 UTC|odd, US|a call|no route",
		"09:06:53 UTC|@1000|gone|operation gone is not configured",
	}
	section := execute("refusals", Picture{Facts: f, View: viewOf(80)})
	if got := rowsOf(section); !slices.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if since := "the list began 8h 20m ago, at 01:06:53"; !strings.Contains(section, since) { // also before quotad was started
		t.Errorf("got %s, want %q in it", section, since)
	}
}

var (
	row     = regexp.MustCompile(`(?s)<tr>(.*?)</tr>`)
	cell    = regexp.MustCompile(`(?s)<td.*?>(.*?)</td>`)
	element = regexp.MustCompile(`<.*?>`)
)

// rowsOf returns the text of the rows of a table, with a bar between cells.
func rowsOf(section string) (rows []string) {
	for _, row := range row.FindAllStringSubmatch(section, -1) {
		var cells []string
		for _, cell := range cell.FindAllStringSubmatch(row[1], -1) {
			cells = append(cells, html.UnescapeString(element.ReplaceAllString(cell[1], "")))
		}
		if len(cells) > 0 {
			rows = append(rows, strings.Join(cells, "|"))
		}
	}
	return rows
}

// The page says what is not known, and shows the rest.
func TestPageSaysWhatItDoesNotKnow(t *testing.T) {
	lost := api.NewProblem(api.NotFound, "no such route")
	f := Facts{Status: readStatus(t, "busy"), PlanErr: lost, RunsErr: lost, RefusalsErr: lost, Usage: map[string]Usages{}}
	for _, c := range f.Status.Credentials {
		f.Usage[c.Name] = Usages{quota.ByHour: {Err: lost}, quota.ByJob: {Err: lost}, quota.ByOperation: {Err: lost}}
	}
	p := Picture{Facts: f, View: viewOf(80)}
	for name, want := range map[string]string{
		"triage": "limit-youtube-daily", "jobs": f.Status.Jobs[0].Name, "limits": "the schedule is not known: " + lost.Error(),
		"day": "not known: " + lost.Error(), "refusals": "not known: " + lost.Error(), "spent": "not known: " + lost.Error(),
	} {
		if got := execute(name, p); !strings.Contains(got, want) || name == "day" && strings.Contains(got, "<table") {
			t.Errorf("section %s does not say %q: %s", name, want, got)
		}
	}
	for _, c := range f.Status.Credentials {
		for _, l := range c.Limits {
			if p.Curve(c, l).Why == "" {
				t.Errorf("limit %s has a curve", l.Name)
			}
		}
	}
}

// A day in which 100 units an hour were spent, at half past nine: in three hours it is used up.
func TestCurveOfASlidingLimit(t *testing.T) {
	now, length := at.Truncate(time.Hour).Add(30*time.Minute), 24*time.Hour
	l := api.Limit{Name: "daily", Units: 3_000, Used: 2_400, WindowMs: length.Milliseconds()}
	spent := Usage{Usage: api.Usage{Until: now, Windows: map[string]time.Time{"daily": now.Add(-length)}}}
	for began := now.Add(-length).Truncate(time.Hour); began.Before(now); began = began.Add(time.Hour) {
		units := int64(100)
		if began.Before(now.Add(-length)) || began.Add(time.Hour).After(now) {
			units = 50 // half of it is in the window
		}
		spent.Shares = append(spent.Shares, api.SpentBy{Name: began.Format(time.RFC3339), Limits: map[string]int64{"daily": units}})
	}
	rate := plan.Rate{GoneAt: now.Add(3 * time.Hour)}
	c := curveOf(l, spent, rate, now)
	if c.Why != "" {
		t.Fatal(c.Why)
	}
	if !c.From.Equal(now.Add(-length)) || !c.Until.Equal(now.Add(length)) || !c.full.Equal(now) || !c.resetsAt.IsZero() || !c.dryAt.Equal(rate.GoneAt) {
		t.Errorf("it goes from %v to %v, and is full at %v", c.From, c.Until, c.full)
	}
	checkHeld(t, c, l.Used)
	if got := unitsAt(c.Held, now.Add(-12*time.Hour)); got != 1_200 {
		t.Errorf("at half of the window it holds %d", got)
	}
	if want := []Point{{now, 2_400}, {rate.GoneAt, 3_000}}; !slices.Equal(c.Ahead, want) {
		t.Errorf("it goes on as %v, want %v", c.Ahead, want)
	}
}

// A calendar window keeps all that it holds until it resets.
func TestCurveOfACalendarLimit(t *testing.T) {
	midnight := at.Truncate(24 * time.Hour)
	resets := midnight.Add(24 * time.Hour)
	l := api.Limit{Name: "daily", Units: 3_000, Used: 700, Window: "day UTC", NextUnitsAt: &resets}
	spent := Usage{Usage: api.Usage{Until: at, Windows: map[string]time.Time{"daily": midnight}, Shares: []api.SpentBy{
		{Name: midnight.Add(6 * time.Hour).Format(time.RFC3339), Limits: map[string]int64{"daily": 400}},
		{Name: midnight.Add(2 * time.Hour).Format(time.RFC3339), Limits: map[string]int64{"daily": 300}},
	}}}
	c := curveOf(l, spent, plan.Rate{}, at)
	if c.Why != "" {
		t.Fatal(c.Why)
	}
	checkHeld(t, c, 700)
	if got := unitsAt(c.Held, midnight.Add(4*time.Hour)); got != 300 {
		t.Errorf("at four it held %d", got)
	}
	if len(c.Ahead) > 0 || !c.full.Equal(resets) || !c.Until.Equal(resets) {
		t.Errorf("it goes on as %v until %v", c.Ahead, c.Until)
	}
}

// A limit without a curve says why.
func TestNoCurve(t *testing.T) {
	for _, row := range []struct {
		name string
		l    api.Limit
		t    Usage
		want string
	}{
		{"a minute", api.Limit{WindowMs: 60_000}, Usage{}, "shorter"},
		{"nobody tells", api.Limit{WindowMs: 86_400_000}, Usage{Err: api.ErrUnreachable}, "cannot be reached"},
		{"an old daemon", api.Limit{WindowMs: 86_400_000}, Usage{}, "when its window began is not known"},
	} {
		if c := curveOf(row.l, row.t, plan.Rate{}, at); !strings.Contains(c.Why, row.want) {
			t.Errorf("%s: %q", row.name, c.Why)
		}
	}
}

// checkHeld: from nothing at the beginning to what is used now, never back in time.
func checkHeld(t *testing.T, c Curve, used int64) {
	t.Helper()
	first, last := c.Held[0], c.Held[len(c.Held)-1]
	if !first.At.Equal(c.From) || first.Units != 0 || !last.At.Equal(c.Now) || last.Units != used {
		t.Errorf("it goes from %+v to %+v", first, last)
	}
	for _, list := range [][]Point{c.Held, c.Ahead} {
		if !slices.IsSortedFunc(list, func(x, y Point) int { return x.At.Compare(y.At) }) {
			t.Errorf("it goes back in time: %v", list)
		}
	}
}

// unitsAt reads a curve.
func unitsAt(points []Point, at time.Time) int64 {
	for i, p := range points {
		if p.At.Before(at) {
			continue
		}
		if i == 0 || p.At.Equal(at) {
			return p.Units
		}
		before := points[i-1]
		part := float64(at.Sub(before.At)) / float64(p.At.Sub(before.At))
		return before.Units + int64(part*float64(p.Units-before.Units))
	}
	return points[len(points)-1].Units
}

// The day has a lane for each job: its runs, and its ticks that were skipped.
func TestLanes(t *testing.T) {
	ago := func(hours float64) time.Time { return at.Add(-time.Duration(hours * float64(time.Hour))) }
	f := Facts{Runs: []jobs.Run{
		{Job: "charts", State: jobs.RunDone, StartedAt: ago(1), EndedAt: ago(0.5)},
		{Job: "trending", State: jobs.RunRunning, StartedAt: ago(0.1)},
		{Job: "trending", State: jobs.RunSkipped, Slot: ago(5), LastSlot: ago(4), Ticks: 3, Reason: jobs.Paused},
		{Job: "trending", State: jobs.RunFailed, StartedAt: ago(6), EndedAt: ago(5.5), Passes: []jobs.Pass{{Region: "US", Outcome: jobs.Failed}}},
		{Job: "trending", State: jobs.RunStopped, Reason: jobs.BudgetGone, StartedAt: ago(25), EndedAt: ago(23)},
		{Job: "trending", State: jobs.RunDone, StartedAt: ago(26), EndedAt: ago(25)},
	}}
	x := axis{ago(24), at, time.UTC}
	lane := Picture{Facts: f, View: viewOf(80)}.lane("trending", x)
	var tones []string
	for _, bar := range lane.Runs {
		tones = append(tones, bar.Class)
	}
	if want := []string{"", "bad", "warn"}; !slices.Equal(tones, want) || lane.Text != "3 runs, 3 slots skipped" {
		t.Errorf("%s: %q, want %q", lane.Text, tones, want)
	}
	if len(lane.Skips) != 1 || lane.Skips[0].X != x.Percent(ago(5)) || lane.Skips[0].Width != "4.17%" || !strings.Contains(lane.Skips[0].Title, "paused") {
		t.Errorf("skipped: %+v", lane.Skips)
	}
	if lane.Runs[0].Width != "0.42%" { // until now
		t.Errorf("what goes on is %s wide", lane.Runs[0].Width)
	}
}

// Rows in trouble come first, tinted by the worst of it, and each trouble leads to its row.
func TestTroubledRows(t *testing.T) {
	f := Facts{}
	f.Status.Credentials = []api.Credential{
		{Name: "maps", Limits: []api.Limit{{Name: "daily", Units: 10, Remaining: 10}}},
		{Name: "youtube", Limits: []api.Limit{{Name: "daily", Units: 10, Remaining: 10}, {Name: "search", Units: 10, Remaining: 0}}},
	}
	f.Status.Jobs = []jobsapi.Job{{}, {}, {}}
	for i, name := range []string{"a", "b", "c"} {
		f.Status.Jobs[i].Name = name
	}
	f.Status.Triage.Troubles = []jobsapi.Trouble{
		{Of: "limit youtube daily", Grave: true}, {Of: "credential youtube"}, {Of: "job c", Grave: true}, {Of: "job c"}, {Of: "job b"}, {Of: "ledger", Grave: true},
	}
	p := Picture{Facts: f, View: viewOf(80)}
	var got []string
	for _, row := range p.LimitRows() {
		got = append(got, row.ID+" "+row.Tone)
	}
	for _, job := range p.JobRows() {
		got = append(got, job.Name+" "+p.Tone("job-"+job.Name))
	}
	want := []string{"limit-youtube-daily bad", "limit-maps-daily ", "limit-youtube-search ", "c bad", "b warn", "a "}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	page := execute("triage", p) + execute("limits", p) + execute("jobs", p) + execute("spent", p)
	links := regexp.MustCompile(`<a href="#(.*?)">`).FindAllStringSubmatch(page, -1)
	if len(links) != 5 {
		t.Errorf("%d links, want 5: %v", len(links), links)
	}
	for _, link := range links {
		if !strings.Contains(page, `id="`+link[1]+`"`) {
			t.Errorf("nothing has the id %s", link[1])
		}
	}
}

// The bar of a limit shows what the terminal's shows: of a closed one all is gone.
func TestBarOfALimit(t *testing.T) {
	closed := &quota.Closed{}
	for _, row := range []struct {
		name         string
		l            api.Limit
		filled, kept int64
	}{
		{"with a reserve", api.Limit{Units: 100, Reserve: 10, Used: 30, Remaining: 60}, 30, 10},
		{"in the reserve", api.Limit{Units: 100, Reserve: 10, Used: 95}, 95, 5},
		{"closed", api.Limit{Units: 100, Reserve: 10, Used: 30, Closed: closed}, 100, 0},
		{"open", api.Limit{Units: 100, Used: 30, Remaining: 70}, 30, 0},
	} {
		f := Facts{}
		f.Status.Credentials = []api.Credential{{Limits: []api.Limit{row.l}}}
		if l := (Picture{Facts: f}).LimitRows()[0]; l.Fill != row.filled || l.Kept != row.kept {
			t.Errorf("%s: %d filled and %d kept, want %d and %d", row.name, l.Fill, l.Kept, row.filled, row.kept)
		}
	}
}

// A job shows its last twelve runs here, and that a later one was on another host.
func TestLastRunsOfAJob(t *testing.T) {
	run := func(job, host string, hours float64, state jobs.RunState) jobs.Run {
		began := at.Add(-time.Duration(hours * float64(time.Hour)))
		return jobs.Run{Job: job, Host: host, State: state, Trigger: jobs.Scheduled, Slot: began, StartedAt: began, EndedAt: began.Add(time.Minute)}
	}
	runs := []jobs.Run{
		run("both", "a", 2, jobs.RunDone), run("both", "a", 3, jobs.RunStopped), run("both", "a", 6, jobs.RunDone), run("both", "a", 7, jobs.RunSkipped), run("both", "a", 8, jobs.RunFailed),
		run("alone", "", 2, jobs.RunDone), run("alone", "", 3, jobs.RunDone), run("alone", "", 9, jobs.RunDone),
	}
	for i := range 20 {
		runs = append(runs, run("often", "a", float64(i), jobs.RunDone))
	}
	var both, alone, often jobsapi.Job
	both.Name, both.Host, alone.Name, often.Name = "both", "b", "alone", "often"
	f := Facts{Runs: runs}
	f.Status.Jobs = []jobsapi.Job{both, alone, often}
	p := Picture{Facts: f, View: viewOf(80)}
	for _, row := range []struct {
		job  jobsapi.Job
		want string
	}{
		{both, "bad good warn good gap"}, // a skipped slot is none
		{alone, "good good good"},
		{often, strings.TrimSpace(strings.Repeat("good ", 12))},
	} {
		var got []string
		for _, tick := range p.Ticks(row.job) {
			got = append(got, tick.Class)
			if tick.Title == "" {
				t.Errorf("%s: a tick says nothing", row.job.Name)
			}
		}
		if strings.Join(got, " ") != row.want {
			t.Errorf("%s: got %q, want %q", row.job.Name, got, row.want)
		}
	}
}

// The pointer reads each point of a curve.
func TestValuesOfACurve(t *testing.T) {
	c := Curve{axis: axis{at.Add(-2 * time.Hour), at.Add(2 * time.Hour), time.UTC}, Now: at, Limit: api.Limit{Units: 1_000},
		Held: []Point{{at.Add(-2 * time.Hour), 0}, {at, 400}}, Ahead: []Point{{at, 400}, {at.Add(time.Hour), 900}}}
	want := []Value{{"0.00%", "50.00%", "Sat 09:26: 400 of 1,000 used"}, {"50.00%", "0.00%", "Sat 09:26: 400 of 1,000 used"}, {"50.00%", "25.00%", "Sat 10:26: 900 of 1,000 used by then"}}
	if got := c.Values(); !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

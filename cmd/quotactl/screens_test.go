package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/regions"
)

// at is the instant from which every screen is seen.
var at = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func viewOf(width int) wording.View {
	return wording.View{Now: at, Zone: time.UTC, Width: width}
}

// What commands show of more than a daemon of a script can have, on a screen of a width or in colour, is what
// testdata/screens.txtar says, which -update writes. Nothing that others wrote commands the terminal, and from 80
// columns on all fits.
func TestScreens(t *testing.T) {
	var s jobsapi.Status
	body, err := os.ReadFile("testdata/status.json")
	if err == nil {
		err = json.Unmarshal(body, &s)
	}
	if err != nil {
		t.Fatal(err)
	}
	runs := []jobs.Run{*s.Jobs[0].Last, *s.Jobs[0].Skips, *s.Jobs[1].Last}
	stopped, run := s.Jobs[0], *s.Jobs[0].Last
	run.State, stopped.Last = jobs.RunStopped, &run
	calm := jobsapi.Status{Triage: jobsapi.Triage{Says: "nothing needs attention"}, Jobs: []jobsapi.Job{stopped}}
	v, colored := viewOf(80), viewOf(110)
	colored.Color = true
	screens := []txtar.File{
		{Name: "status", Data: []byte(renderStatus(s, v))},
		{Name: "status in colour", Data: []byte(renderStatus(s, colored))},
		{Name: "status that is calm", Data: []byte(renderStatus(calm, v))},
		{Name: "jobs", Data: []byte(jobTable(s.Jobs, v))},
		{Name: "runs", Data: []byte(runTable(runs, v))},
		{Name: "runs in colour", Data: []byte(runTable(runs, colored))},
		{Name: "run", Data: []byte(runPage(runs[0], false, v))},
		{Name: "plan in colour", Data: []byte(planPage(somePlan(), colored))},
		{Name: "log", Data: []byte(logTable(api.LogPage{Entries: someEntries()}, v))},
		{Name: "usage", Data: []byte(usageTable(someUsage(), v))},
		{Name: "why", Data: []byte(whyPage(someWhy(), v))},
		{Name: "acquire in an outage", Data: []byte(pairs(v, particulars(api.Decision{Limits: s.Credentials[0].Limits[4:5], Mode: "outage",
			WouldDeny: []quota.Shortage{{Limit: "trial", Missing: 3}}}, v)...))},
	}
	for _, j := range s.Jobs {
		screens = append(screens, txtar.File{Name: "job " + j.Name, Data: []byte(jobPage(j, v))})
	}
	for _, one := range screens {
		for line := range strings.Lines(string(one.Data)) {
			plain := strings.ReplaceAll(strings.TrimSuffix(line, "\n"), "\x1b[", "")
			if strings.TrimRight(plain, " ") != plain || strings.ContainsFunc(plain, func(r rune) bool { return r < ' ' }) {
				t.Errorf("%s: a line with control characters, or with spaces at its end: %q", one.Name, line)
			}
			if utf8.RuneCountInString(plain) > v.Width && !strings.HasPrefix(one.Name, "status") && !strings.Contains(one.Name, "colour") {
				t.Errorf("%s: a line of %d columns: %q", one.Name, utf8.RuneCountInString(plain), plain)
			}
		}
	}
	got := txtar.Format(&txtar.Archive{Comment: []byte("What quotactl shows; go test ./cmd/quotactl -update writes it.\n"), Files: screens})
	const file = "testdata/screens.txtar"
	if *update {
		err = os.WriteFile(file, got, 0o644)
	}
	want, wrong := os.ReadFile(file)
	if err != nil || wrong != nil || string(got) != string(want) {
		t.Errorf("%v, %v: got\n%s\nwant\n%s", err, wrong, got, want)
	}
}

func somePlan() plan.Plan {
	limit := func(name string, units quota.Units) quota.Limit {
		return quota.Limit{Name: name, Units: units, Window: quota.Sliding(24 * time.Hour), Only: []string{name}}
	}
	c := &quota.Credential{Name: "youtube", Limits: []quota.Limit{limit("daily", 9_500), limit("search", 100), limit("spare", 5)},
		Operations: map[string]quota.Cost{"daily": {Every: 4}, "search": {Every: 1}}}
	var list []*jobs.Job
	for name, n := range map[string]quota.Units{"trending": 30, "one": 0, "searches": 3} {
		list = append(list, &jobs.Job{Name: name, Credential: "youtube", Schedule: jobs.Every{Period: time.Hour}, Regions: []regions.Region{"US"},
			Expects: map[string]quota.Units{"daily": max(1, n), "search": 5 * (n % 30)}})
	}
	slices.SortFunc(list, func(a, b *jobs.Job) int { return strings.Compare(a.Name, b.Name) })
	return plan.Plan{Limits: plan.Sum(list, []*quota.Credential{c}), Measured: []string{"charts"}, Unknown: []string{"backfill", "routes"}}
}

func someEntries() []api.Entry {
	entry := func(ago time.Duration, kind string, units, debited int64, e api.Entry) api.Entry {
		e.At, e.Kind, e.ID, e.Units = at.Add(-ago), kind, fmt.Sprintf("youtube:R5XNI6CC%012d", ago/time.Second), units
		if e.By = "charts"; debited > 0 {
			e.Charges = []api.Charge{{Limit: "daily", Units: units, Debited: debited}}
		}
		return e
	}
	to := int64(40)
	return []api.Entry{
		entry(20*time.Hour, "grant", 4, 4, api.Entry{Operation: "videos.list", Count: 4, Region: "US"}),
		entry(2*time.Hour, "grant", 40, 100, api.Entry{Operation: "channels.list.of.a\x1b[31mfriend", Count: 1_200, SettledTo: &to}),
		entry(time.Hour, "settlement", 0, 0, api.Entry{GrantID: "youtube:R5XNI6CC000000000000", SettledTo: &to}),
		entry(time.Minute, "booking", 40, 6_000, api.Entry{SettledTo: &to, Note: "the old script runs until the end of the month, and counts on its own"}),
		entry(time.Second, api.Denied, 300, 0, api.Entry{Operation: "search.list", Count: 3, Reason: "limit_exceeded", Note: "no room", Until: &at}),
	}
}

func someUsage() api.Usage {
	u := api.Usage{Credential: "youtube", By: "job", Since: at.Add(-24 * time.Hour), Total: api.SpentBy{Calls: 5_258, Units: 9_117, WouldDeny: map[string]int64{"daily": 3, "hourly": 1}}}
	for name, units := range map[string]int64{"trending": 5_204, "charts": 3_900, "": 12, "backfill-of-a-very-long-name": 1} {
		u.Shares = append(u.Shares, api.SpentBy{Name: name, Calls: units, Units: units})
	}
	slices.SortFunc(u.Shares, func(a, b api.SpentBy) int { return int(b.Units - a.Units) })
	u.Shares[0].WouldDeny = u.Total.WouldDeny
	return u
}

func someWhy() whyBody {
	retry := at.Add(3*time.Hour + 11*time.Minute + 17250*time.Millisecond)
	return whyBody{Request: api.AcquireRequest{Credential: "youtube", Operation: "search.list", Count: 2}, ReserveGrants: true, Decision: api.Decision{
		Reason: "limit_exceeded", Detail: "no room for 200 units in limit daily, which has 40 left",
		RetryAt: &retry, Fits: 1, KeyRefused: "The project \x1b[31mis suspended.",
		Missing: []quota.Shortage{{Limit: "daily", Missing: 160}, {Limit: "search", Closed: quota.Closed{Until: at.Add(time.Hour), Says: "gone"}}},
	}}
}

// A bar is exactly as wide as it should be, and free cells show exactly while ordinary callers may spend.
func TestBar(t *testing.T) {
	for _, row := range []struct {
		units, reserve, used int64
		want                 string
	}{
		{100, 0, 0, "░░░░░░░░░░"}, {10_000, 0, 1, "█░░░░░░░░░"}, {100, 20, 40, "████░░░░▒▒"}, {10_000, 2_000, 7_999, "███████░▒▒"}, {100, 20, 80, "████████▒▒"},
		{100, 20, 90, "█████████▒"}, {100, 20, 170, "██████████"}, {100, 99, 0, "░▒▒▒▒▒▒▒▒▒"}, {1<<53 - 1, 0, 1<<53 - 2, "█████████░"},
	} {
		l := api.Limit{Units: row.units, Reserve: row.reserve, Used: row.used, Remaining: max(0, row.units-row.reserve-row.used)}
		if got := bar(l, 10); got != row.want {
			t.Errorf("%+v: got %s", row, got)
		}
	}
}

// A time is as brief as it is clear where its reader is, and units that come back at .4 are not there at .0.
func TestTimes(t *testing.T) {
	v := viewOf(80)
	v.Zone = time.FixedZone("", -10*3600) // where it is 23:26:53 on Friday
	for _, row := range []struct {
		after       time.Duration
		clock, says string
	}{
		{0, "23:26:53", "just now, at 23:26:53"},
		{400 * time.Millisecond, "23:26:53", "in 1s, at 23:26:54"},
		{61*time.Second + time.Millisecond, "23:27:54", "in 1m 2s, at 23:27:55"},
		{-61 * time.Second, "23:25:52", "1m 1s ago, at 23:25:52"},
		{33 * time.Minute, "23:59:53", "in 33m, at 23:59:53"},
		{34 * time.Minute, "Sat 00:00:53", "in 34m, at Sat 00:00:53"},
		{-24 * time.Hour, "Thu 23:26:53", "24h ago, at Thu 23:26:53"},
		{6*24*time.Hour - time.Second, "Thu 23:26:52", "in 5d 23h, at Thu 23:26:52"},
		{6 * 24 * time.Hour, "2026-03-19 23:26:53", "in 6d, at 2026-03-19 23:26:53"},
		{365 * 24 * time.Hour, "2027-03-13 23:26:53", "in 365d, at 2027-03-13 23:26:53"},
	} {
		if clock, says := v.Clock(at.Add(row.after)), v.When(at.Add(row.after)); clock != row.clock || says != row.says {
			t.Errorf("%v: got %q, %q, want %q, %q", row.after, clock, says, row.clock, row.says)
		}
	}
	for part, want := range map[int64]string{0: "0%", 1: "<1%", 10: "1%", 994: "99%", 999: "99%", 1000: "100%"} {
		if got := percent(part, 1000); got != want {
			t.Errorf("%d of 1000 are %s, want %s", part, got, want)
		}
	}
	for left, want := range map[int64]wording.Style{0: "31", 1: "33", 180: "33", 181: "32"} { // red, yellow, green
		if got := wording.LimitStyle(api.Limit{Units: 1000, Reserve: 100, Remaining: left}); got != want {
			t.Errorf("%d left of 900 are %s, want %s", left, got, want)
		}
	}
}

// A drawing is on every row from the top, and says what there is no room for.
func TestDrawing(t *testing.T) {
	for text, want := range map[string]string{
		"a\nb\nc\n":    "\x1b[Ha\x1b[K\nb\x1b[K\nc\x1b[K\n\x1b[J",
		"a\nb\nc\nd\n": "\x1b[Ha\x1b[K\nb\x1b[K\n(2 lines more)\x1b[K\n\x1b[J",
	} {
		if got := draw(text, 4); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

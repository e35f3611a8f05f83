package notify

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
)

// The command of an event reads in its environment what happened, to what, and what to do.
func TestVariablesOfAnEvent(t *testing.T) {
	at := time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)
	closed := trouble.Change{Trouble: trouble.Trouble{
		Kind: trouble.Closed, Of: "limit youtube daily", Says: "it is closed", Do: "quotactl open youtube daily",
	}}
	daily := quota.Limit{Name: "daily", Units: 100, Reserve: 10, Window: quota.Sliding(24 * time.Hour)}
	denied := Alert{Event: config.Exhausted, At: at, Credential: "youtube",
		Limit: quota.LimitState{Limit: daily, Used: 85}, RetryAt: at.Add(time.Hour)}
	run := jobs.Run{ID: "r1", Job: "fetch", Trigger: "schedule", StartedAt: at, EndedAt: at.Add(1500 * time.Millisecond),
		State: jobs.RunFailed, Passes: []jobs.Pass{
			{Region: "US", Outcome: jobs.OK, Units: 101, Made: map[string]quota.Units{"search": 1, "list": 1}},
			{Region: "GB", Outcome: jobs.Failed, Units: 1, Made: map[string]quota.Units{"list": 1}},
		}}
	for _, row := range []struct {
		name  string
		alert Alert
		want  string // without the time
	}{
		{"of a limit", Changed(closed, at, nil),
			"EVENT=limit_closed CREDENTIAL=youtube LIMIT=daily DETAIL=it is closed DO=quotactl open youtube daily"},
		{"of a denial", denied,
			"EVENT=exhausted CREDENTIAL=youtube LIMIT=daily UNITS=90 USED=85 REMAINING=5 RETRY_AT=2026-11-26T13:00:00Z"},
		{"of a run", Alert{Event: config.RunEnded, At: at, Run: run},
			"EVENT=run_ended JOB=fetch RUN_ID=r1 TRIGGER=schedule STARTED_AT=2026-11-26T12:00:00Z STATE=failed UNITS=102 " +
				"CALLS=list=2 search=1 PASSES=failed=1 ok=1 TOOK_MS=1500"},
		{"a zero byte", Alert{Event: config.NearLimit, At: at, Detail: "a\x00b"}, "EVENT=near_limit DETAIL=ab"},
	} {
		t.Run(row.name, func(t *testing.T) {
			text := strings.ReplaceAll(strings.Join(row.alert.environ(), " "), "QUOTAD_", "")
			before, after, timed := strings.Cut(text, " AT=2026-11-26T12:00:00Z")
			if got := before + after; got != row.want || !timed {
				t.Errorf("got  %s\nwant %s", got, row.want)
			}
		})
	}
}

// A command of an event has nothing of the daemon's environment that a pass would not have.
func TestEnvironmentOfACommand(t *testing.T) {
	t.Setenv("AWS_SECRET_ACCESS_KEY", "Sesame")
	dir := t.TempDir()
	var r results
	n := NewNotifier(dir, r.add)
	command := map[config.EventName][]string{config.Exhausted: {"/bin/sh", "-c", "env >told"}}
	n.Configure(config.OnEvent{Timeout: time.Minute, Commands: command})
	n.Start(process.Launcher{})
	n.Record(Alert{Event: config.Exhausted, At: time.Now()})
	n.Stop()
	told, err := os.ReadFile(filepath.Join(dir, "told"))
	must(t, err)
	for text, want := range map[string]bool{"Sesame": false, "QUOTAD_EVENT=exhausted\n": true, "PATH=": true} {
		if strings.Contains(string(told), text) != want {
			t.Errorf("it has %q: %v, want %v:\n%s", text, !want, want, told)
		}
	}
}

// A command reads the end of what failed passes wrote: there it says why.
func TestInputIsBounded(t *testing.T) {
	tail := append(slices.Repeat([]string{strings.Repeat("x", 99)}, 1000), "no route to host")
	run := jobs.Run{Passes: []jobs.Pass{{Region: "US", Outcome: jobs.Failed, Tail: tail}}}
	got := string(Alert{Event: config.RunEnded, Run: run}.input())
	if len(got) != maxInput || !strings.HasSuffix(got, "no route to host\n") {
		t.Errorf("%d bytes, which end with %q", len(got), got[max(0, len(got)-30):])
	}
}

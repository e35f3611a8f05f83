package main

import (
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/upstream"
	"quotad/regions"
)

// A run under way is trouble when nothing but failures came of three passes; one that is over when
// any region failed.
func TestTriageOfRuns(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		name     string
		state    jobs.RunState
		outcomes []jobs.Outcome
		want     string // empty: nothing
	}{
		{"two failed", jobs.RunRunning, []jobs.Outcome{jobs.Failed, jobs.Timeout, jobs.Running}, ""},
		{"three failed", jobs.RunRunning, []jobs.Outcome{jobs.Failed, jobs.Timeout, jobs.Killed, jobs.Running}, "3 of 5 regions failed so far, none was ok: US, no such key"},
		{"one of four was served", jobs.RunRunning, []jobs.Outcome{jobs.Failed, jobs.Failed, jobs.OK, jobs.Failed}, ""},
		{"one of four was skipped", jobs.RunRunning, []jobs.Outcome{jobs.NotLaunched, jobs.Failed, jobs.Failed, jobs.Failed}, ""},
		{"it runs", jobs.RunRunning, []jobs.Outcome{jobs.Running, jobs.Running, jobs.Running}, ""},
		{"one failed, and it is over", jobs.RunFailed, []jobs.Outcome{jobs.Failed, jobs.OK}, "1 of 5 regions failed: US, no such key"},
		{"three failed, and it was stopped", jobs.RunFailed, []jobs.Outcome{jobs.Failed, jobs.Failed, jobs.Failed}, "3 of 5 regions failed: US, no such key"},
		{"it is done", jobs.RunDone, []jobs.Outcome{jobs.OK}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			run := &jobs.Run{ID: "06f3k9x2a7q4mzt", State: row.state, Ring: regions.Ring{"US", "GB", "DE", "FR", "IN"}, StartedAt: now.Add(-time.Hour)}
			for i, outcome := range row.outcomes {
				run.Passes = append(run.Passes, jobs.Pass{Region: run.Ring[i], Outcome: outcome, Said: "no such key"})
			}
			then, when := "began", run.StartedAt
			if row.state != jobs.RunRunning {
				run.EndedAt = now
				then, when = "ended", run.EndedAt
			}
			got := &triage{}
			jobTroubles(got, []jobs.Status{{Name: "fetch", Last: run}}, now)
			if row.want == "" {
				if len(got.Troubles) != 0 {
					t.Errorf("got %+v, want nothing", got.Troubles)
				}
				return
			}
			if len(got.Troubles) != 1 {
				t.Fatalf("got %+v, want that the job is failing", got.Troubles)
			}
			if one := got.Troubles[0]; got.parts[0] != "1 job is failing" || one.Of != "job fetch" || one.Says != row.want ||
				one.Then != then || !one.When.Equal(when) || one.Do != "quotactl runs 06f3k9x2a7q4mzt" || !one.Grave {
				t.Errorf("got %q, %+v, want %q, and that it %s at %v", got.parts, one, row.want, then, when)
			}
		})
	}
}

// A limit that the upstream closed before our count was full says how much others have spent, and
// offers to book that, until it is booked.
func TestTriageOfAClosedLimit(t *testing.T) {
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	drift := upstream.Drift{Ours: upstream.Known(7004), Theirs: upstream.Known(10_000), Until: now.Add(time.Hour), Cause: "exhausted at 7,004 of our 10,000"}
	for _, row := range []struct {
		name     string
		used     quota.Units
		drift    upstream.Drift
		at       time.Time
		says, do string
	}{
		{"not known", 7004, upstream.Drift{}, now, "closed: gone", "quotactl open youtube daily"},
		{"known", 7004, drift, now, "closed: exhausted at 7,004 of our 10,000: gone", "quotactl book youtube daily 2996"},
		{"booked in part", 9000, drift, now, "closed: exhausted at 7,004 of our 10,000: gone", "quotactl book youtube daily 1000"},
		{"booked", 10_000, drift, now, "closed: exhausted at 7,004 of our 10,000: gone", "quotactl open youtube daily"},
		{"over", 7004, drift, now.Add(time.Hour), "closed: gone", "quotactl open youtube daily"},
	} {
		l := quota.LimitState{Limit: quota.Limit{Name: "daily", Units: 10_000, Reserve: 500}, Used: row.used, Closed: quota.Closed{Says: "gone"}}
		if says, do := closedText("youtube", l, row.drift, row.at); says != row.says || do != row.do {
			t.Errorf("%s: got %q, %q, want %q, %q", row.name, says, do, row.says, row.do)
		}
	}
}

// A preset whose facts are older than 90 days is a note, with the page to compare them with.
func TestTriageOfOldPresets(t *testing.T) {
	checked := time.Date(2026, 9, 30, 0, 0, 0, 0, time.UTC)
	presets := map[string]config.Preset{"youtube": {Name: "youtube-2026-06", Checked: checked, Page: "https://example.com/costs"}}
	if notes := oldPresets(presets, checked.Add(90*24*time.Hour)); len(notes) != 0 {
		t.Errorf("got %+v after 90 days", notes)
	}
	notes := oldPresets(presets, checked.Add(91*24*time.Hour))
	if len(notes) != 1 || notes[0].Of != "credential youtube" || !strings.HasSuffix(notes[0].Says, "checked on 2026-09-30, more than 90 days ago: providers change their quotas, compare them with https://example.com/costs") {
		t.Errorf("got %+v after 91 days", notes)
	}
}

func TestTriageOfARefusalWithoutAReason(t *testing.T) {
	got := strangeText(upstream.Strange{Operation: "videos.list", Says: "429 Too Many Requests"})
	if want := "the upstream refused videos.list without a reason: 429 Too Many Requests"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

package notify

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/server"
)

// With few units of a limit left an event comes once in a window, or in an hour if that is longer.
func TestLow(t *testing.T) {
	const hour = time.Hour
	day := quota.Limit{Name: "daily", Units: 110, Reserve: 10, Window: quota.Sliding(24 * hour)}
	second := quota.Limit{Name: "daily", Units: 30, Window: quota.Sliding(time.Second)}
	calendar := quota.Limit{Name: "daily", Units: 100, Window: quota.Calendar(quota.Day, time.UTC)}
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	type step struct {
		after time.Duration
		used  quota.Units // after a call of one unit
	}
	for _, row := range []struct {
		name  string
		limit quota.Limit
		steps []step
		want  []string
	}{
		{"less than 20 are left", day, []step{{0, 79}, {0, 80}, {0, 81}, {0, 82}, {0, 100}}, []string{"19"}},
		{"units come and go", day, []step{{0, 70}, {hour, 81}, {hour, 60}, {hour, 81}}, []string{"19"}},
		{"each day", day, []step{{0, 70}, {0, 85}, {12 * hour, 50}, {12 * hour, 90}, {24 * hour, 95}}, []string{"15", "10", "5"}},
		{"so it was when quotad started", day, []step{{0, 90}, {0, 91}}, []string{"10 again"}},
		{"it begins with the first call", day, []step{{0, 81}}, []string{"19"}},
		{"a calendar day", calendar, []step{{0, 70}, {0, 90}, {13 * hour, 95}, {2 * hour, 10}, {0, 81}}, []string{"10", "19"}},
		{"a small limit", second, slices.Repeat([]step{{333 * time.Millisecond, 1}, {333 * time.Millisecond, 15}}, 20), []string{"15"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			clock := now
			var got []string
			w := NewWatch(func(event any) {
				e := event.(Event)
				text := fmt.Sprint(*e.Left)
				if e.Again {
					text += " again"
				}
				got = append(got, text)
			}, func() map[string]quota.Units { return map[string]quota.Units{"api daily": 20} }, func() time.Time { return clock })
			for _, s := range row.steps {
				clock = clock.Add(s.after)
				d := quota.Decision{Limits: []quota.LimitState{{Limit: row.limit, Used: s.used, Cost: 1}}}
				w.Record(server.Decided{Verb: "acquire", Request: quota.Request{Credential: "api"}, Decision: d})
				w.Record(server.Decided{Verb: "acquire", Request: quota.Request{Credential: "other"}, Decision: d})
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("told %v, want %v", got, row.want)
			}
		})
	}
}

// A pass that is not launched tells of the limit too, and each run is an event when it starts and when it ends.
func TestRunsAndTheGate(t *testing.T) {
	var got []string
	w := NewWatch(func(event any) { got = append(got, event.(Event).Event) }, func() map[string]quota.Units { return map[string]quota.Units{"api daily": 1} }, time.Now)
	limit := quota.LimitState{Limit: quota.Limit{Name: "daily", Units: 1, Window: quota.Sliding(time.Hour)}, Used: 1}
	denied := quota.Decision{Reason: quota.LimitExceeded, Limit: "daily", Limits: []quota.LimitState{limit}}
	w.Record(server.Decided{Request: quota.Request{Credential: "api"}, Decision: denied,
		Err: quota.ErrUnavailable}) // it is not known
	if len(got) > 0 {
		t.Errorf("told %v", got)
	}
	for range 2 {
		w.Record(jobs.GateRefused{Credential: "api", Decision: denied})
	}
	w.Record(jobs.RunChanged{Run: jobs.Run{Job: "fetch", State: jobs.RunRunning}})
	w.Record(jobs.RunChanged{Run: jobs.Run{Job: "fetch", State: jobs.RunSkipped}})
	if want := []string{config.EventLow, config.EventRunStarted, config.EventRunEnded}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

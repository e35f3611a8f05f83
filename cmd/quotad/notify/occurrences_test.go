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

// Of each limit one edge is an alert, and another one only in another window, after the use was lower.
func TestOccurrences(t *testing.T) {
	const hour = time.Hour
	day := quota.Limit{Name: "daily", Units: 110, Reserve: 10, Window: quota.Sliding(24 * hour)}
	second := quota.Limit{Name: "second", Units: 3, Window: quota.Sliding(time.Second)}
	calendar := quota.Limit{Name: "calendar", Units: 100, Window: quota.Calendar(quota.Day, time.UTC)}
	now := time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)
	type step struct {
		after  time.Duration
		used   quota.Units // after a call of one unit
		denied bool
	}
	for _, row := range []struct {
		name  string
		limit quota.Limit
		steps []step
		want  []string
	}{
		{"one threshold after the other", day, []step{{0, 79, false}, {0, 80, false}, {0, 94, false}, {0, 95, false}, {0, 100, false}}, []string{"80", "95"}},
		{"units come and go around a threshold", day, []step{{0, 80, false}, {hour, 70, false}, {hour, 80, false}, {hour, 70, false}, {hour, 80, false}}, []string{"80"}},
		{"each day", day, []step{{0, 80, false}, {12 * hour, 50, false}, {12 * hour, 80, false}, {24 * hour, 81, false}, {24 * hour, 82, false}}, []string{"80", "80"}},
		{"it came back too early, and stays", day, []step{{0, 80, false}, {hour, 50, false}, {hour, 80, false}, {22 * hour, 81, false}}, []string{"80", "80"}},
		{"it was near when quotad started", day, []step{{0, 90, false}, {0, 91, false}}, nil},
		{"it denies again and again", day, []step{{0, 100, true}, {hour, 100, true}, {72 * hour, 100, true}}, []string{"denied"}},
		{"denied twice in a window", day, []step{{0, 99, true}, {hour, 60, false}, {hour, 99, true}}, []string{"denied"}},
		{"denied, granted, denied", day, []step{{0, 99, true}, {hour, 60, false}, {hour, 99, true}, {22 * hour, 99, true}}, []string{"denied", "denied"}},
		{"denials of a calendar day", calendar, []step{
			{0, 100, true}, {2 * hour, 10, false}, {hour, 100, true}, {11 * hour, 10, false}, {hour, 100, true}},
			[]string{"denied", "denied"}},
		{"a calendar day", calendar, []step{{0, 80, false}, {13 * hour, 10, false}, {2 * hour, 80, false}}, []string{"80", "80"}},
		{"30 calls of a small limit", second, slices.Repeat([]step{{333 * time.Millisecond, 1, false}, {333 * time.Millisecond, 2, false}, {333 * time.Millisecond, 3, false}}, 10),
			[]string{"80", "95"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			clock := now
			var got []string
			o := NewOccurrences(func(event any) {
				a := event.(Alert)
				if text := fmt.Sprint(a.Percent); a.Event == config.Exhausted {
					got = append(got, "denied")
				} else {
					got = append(got, text)
				}
			}, func() time.Time { return clock })
			for _, s := range row.steps {
				clock = clock.Add(s.after)
				d := quota.Decision{Limits: []quota.LimitState{{Limit: row.limit, Used: s.used, Cost: 1}}}
				if s.denied {
					d.Reason, d.Limit = quota.LimitExceeded, row.limit.Name
				}
				o.Record(server.Decided{Verb: "acquire", Request: quota.Request{Credential: "api"}, Decision: d})
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("told %v, want %v", got, row.want)
			}
		})
	}
}

// Who is refused at the gate is denied no call; a run is an alert once it is over.
func TestOtherOccurrences(t *testing.T) {
	var got []config.EventName
	o := NewOccurrences(func(event any) { got = append(got, event.(Alert).Event) }, time.Now)
	limit := quota.LimitState{Limit: quota.Limit{Name: "daily", Units: 100, Window: quota.Sliding(time.Hour)}, Used: 1}
	denied := quota.Decision{Reason: quota.LimitExceeded, Limit: "daily", Limits: []quota.LimitState{limit}}
	for range 2 {
		o.Record(jobs.GateRefused{Credential: "api", Decision: denied})
	}
	o.Record(jobs.RunChanged{Run: jobs.Run{Job: "fetch", State: jobs.RunRunning}})
	o.Record(jobs.RunChanged{Run: jobs.Run{Job: "fetch", State: jobs.RunSkipped}})
	if want := []config.EventName{config.Exhausted, config.RunStarted, config.RunEnded}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
}

func TestGreatUnitsAreNear(t *testing.T) {
	crossed := 0
	o := NewOccurrences(func(any) { crossed++ }, time.Now)
	limit := quota.LimitState{Limit: quota.Limit{Name: "daily", Units: quota.MaxUnits, Window: quota.Sliding(time.Hour)}, Used: quota.MaxUnits, Cost: quota.MaxUnits}
	o.Record(server.Decided{Verb: "acquire", Decision: quota.Decision{Limits: []quota.LimitState{limit}}})
	if crossed != len(Thresholds) {
		t.Errorf("%d are alerts", crossed)
	}
}

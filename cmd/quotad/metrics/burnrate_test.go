package metrics

import (
	"math"
	"testing"
	"time"

	"quotad/quota"
)

// A history of a limit of 1,000 units, 100 of them a reserve.
func TestExhaustion(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	sliding, day := quota.Sliding(24*time.Hour), quota.Calendar(quota.Day, time.UTC)
	type look struct {
		after time.Duration // noon
		used  quota.Units
		want  float64 // seconds; -1: not known
	}
	never := math.Inf(1)
	for _, row := range []struct {
		name   string
		window quota.Window
		looks  []look
	}{
		{"not known at first", sliding, []look{{0, 100, -1}, {59 * time.Second, 150, -1}, {time.Minute, 100, never}}},
		{"it goes on", sliding, []look{{0, 100, -1}, {10 * time.Minute, 200, 4200}, {20 * time.Minute, 300, 3600}}},
		{"units come back faster than they are spent", sliding, []look{{0, 300, -1}, {10 * time.Minute, 200, never}}},
		{"a reset", sliding, []look{{0, 800, -1}, {10 * time.Minute, 850, 600}, {20 * time.Minute, 2, -1}, {21 * time.Minute, 8, 8920}, {25 * time.Minute, 50, 5312.5}}},
		{"spent", sliding, []look{{0, 900, 0}, {time.Minute, 950, 0}}},
		{"only the last hour counts", sliding, []look{{0, 0, -1}, {30 * time.Minute, 600, 900}, {61 * time.Minute, 600, never}}},
		{"the day is over before", day, []look{{0, 100, -1}, {10 * time.Minute, 101, never}}},
		{"the day is not over before", day, []look{{0, 100, -1}, {10 * time.Minute, 200, 4200}}},
		{"a new day", day, []look{{11*time.Hour + 50*time.Minute, 800, -1}, {12 * time.Hour, 0, -1}, {12*time.Hour + 10*time.Minute, 90, 5400}}},
		{"a window shorter than an hour", quota.Sliding(10 * time.Minute), []look{{0, 0, -1}, {5 * time.Minute, 300, 600}, {10 * time.Minute, 300, never}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var p burnRate
			for _, l := range row.looks {
				limit := quota.LimitState{Limit: quota.Limit{Name: "daily", Units: 1000, Reserve: 100, Window: row.window}, Used: l.used}
				got, known := p.exhaustion(limit, noon.Add(l.after))
				if !known {
					got = -1
				}
				if got != l.want {
					t.Errorf("%v after noon, %d used: %v s, want %v", l.after, l.used, got, l.want)
				}
			}
		})
	}
}

// However often somebody looks, what is remembered is bounded.
func TestBurnRateIsBounded(t *testing.T) {
	var p burnRate
	limit := quota.LimitState{Limit: quota.Limit{Units: 1000, Window: quota.Sliding(24 * time.Hour)}}
	for i := range 10_000 {
		p.exhaustion(limit, time.Unix(int64(i), 0))
	}
	if most := int(rateSpan/rateStep) + 1; len(p.seen) > most {
		t.Errorf("%d samples are kept, want at most %d", len(p.seen), most)
	}
}

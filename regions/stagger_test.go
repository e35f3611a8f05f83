package regions

import (
	"testing"
	"time"
)

func TestEvenStagger(t *testing.T) {
	slot := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	stagger := Even(time.Hour, 8)
	want := []string{"11:00:00", "11:07:30", "11:15:00", "11:22:30", "11:30:00", "11:37:30", "11:45:00", "11:52:30"}
	for i, want := range want {
		if got := Start(slot, stagger, i).Format(time.TimeOnly); got != want {
			t.Errorf("pass %d starts at %s, want %s", i, got, want)
		}
	}
}

func TestFits(t *testing.T) {
	for _, test := range []struct {
		name            string
		period, stagger time.Duration
		n               int
		want            bool
	}{
		{"one region, any stagger", time.Minute, time.Hour, 1, true},
		{"even", 30 * time.Minute, Even(30*time.Minute, 8), 8, true},
		{"even, by no whole seconds", time.Minute, Even(time.Minute, 40), 40, true},
		{"the last starts a nanosecond before the period ends", 10, 3, 4, true},
		{"the last starts as the period ends", 9, 3, 4, false},
		{"longer than the period", time.Minute, time.Hour, 2, false},
		{"no wrap-around of huge staggers", time.Minute, 1 << 62, 8, false},
		{"none", time.Second, 0, 1000, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := Fits(test.period, test.stagger, test.n); got != test.want {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

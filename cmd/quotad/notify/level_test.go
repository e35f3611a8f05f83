package notify

import (
	"slices"
	"testing"

	"quotad/quota"
)

// A limit of 100 units for jobs, told of at 80 and 95; each step is what was used
// before and after a decision.
func TestLevelRises(t *testing.T) {
	type step struct {
		before, used quota.Units
		want         []quota.Units
	}
	for _, row := range []struct {
		name  string
		steps []step
	}{
		{"one threshold after the other", []step{{0, 79, nil}, {79, 80, []quota.Units{80}}, {80, 94, nil}, {94, 95, []quota.Units{95}}, {95, 100, nil}}},
		{"both at once", []step{{0, 100, []quota.Units{80, 95}}}},
		{"units come and go around a threshold", []step{{79, 80, []quota.Units{80}}, {78, 80, nil}, {70, 80, nil}, {69, 79, nil}, {79, 80, []quota.Units{80}}}},
		{"all came back while nobody asked", []step{{79, 96, []quota.Units{80, 95}}, {0, 96, []quota.Units{80, 95}}}},
		{"the higher one recovers alone", []step{{0, 96, []quota.Units{80, 95}}, {84, 96, []quota.Units{95}}}},
		{"an operator spends the reserve", []step{{0, 120, []quota.Units{80, 95}}, {120, 130, nil}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var l level
			for i, s := range row.steps {
				if got := l.rise(s.before, s.used, 100); !slices.Equal(got, s.want) {
					t.Errorf("step %d, from %d to %d: %v, want %v", i, s.before, s.used, got, s.want)
				}
			}
		})
	}
}

func TestLevelOfGreatUnits(t *testing.T) {
	var l level
	if got := l.rise(quota.MaxUnits/2, quota.MaxUnits, quota.MaxUnits); len(got) != 2 {
		t.Errorf("all units there can be: %v, want both Thresholds", got)
	}
}

func TestLevelDenies(t *testing.T) {
	type step struct {
		used quota.Units
		want bool
	}
	for _, row := range []struct {
		name  string
		steps []step
	}{
		{"once, however often", []step{{100, true}, {100, false}, {100, false}}},
		{"units come and go at the limit", []step{{100, true}, {95, false}, {100, false}, {91, false}}},
		{"it recovers, and denies again", []step{{100, true}, {90, true}, {90, false}}},
		{"a call that costs much is denied early", []step{{45, true}, {50, false}, {41, false}, {40, true}}},
		{"and with next to nothing used", []step{{5, true}, {1, false}, {0, true}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var l level
			for i, s := range row.steps {
				if got := l.deny(s.used, 100); got != s.want {
					t.Errorf("step %d at %d: %v, want %v", i, s.used, got, s.want)
				}
			}
		})
	}
}

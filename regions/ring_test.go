package regions

//ci:norace

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"quotad/quota/seedtest"
)

func TestRingFromCursor(t *testing.T) {
	ring := Ring{"US", "GB", "DE", "FR"}
	for _, test := range []struct {
		name   string
		cursor Cursor
		want   Ring
	}{
		{"the beginning", "", Ring{"US", "GB", "DE", "FR"}},
		{"the first region", "US", Ring{"US", "GB", "DE", "FR"}},
		{"in the middle", "DE", Ring{"DE", "FR", "US", "GB"}},
		{"the last region", "FR", Ring{"FR", "US", "GB", "DE"}},
		{"a region that is gone", "BR", Ring{"US", "GB", "DE", "FR"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := ring.From(test.cursor); !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
		})
	}
}

func TestRingIsNotChanged(t *testing.T) {
	ring := Ring{"US", "GB", "DE"}
	from := ring.From("US")
	from[0] = "XX"
	if ring[0] != "US" {
		t.Errorf("changing what From returned changed the ring: %v", ring)
	}
}

func TestAdvance(t *testing.T) {
	ring := Ring{"DE", "FR", "US", "GB"} // as a run went through it
	for _, test := range []struct {
		name   string
		served []Region
		want   Cursor
	}{
		{"nothing served", nil, "DE"},
		{"stopped at the third", []Region{"DE", "FR"}, "US"},
		{"stopped at the last", []Region{"DE", "FR", "US"}, "GB"},
		{"a full turn", []Region{"DE", "FR", "US", "GB"}, "DE"},
		{"a gap: a later pass ended first", []Region{"FR", "US"}, "DE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := ring.Advance(func(r Region) bool { return slices.Contains(test.served, r) })
			if got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}

// However many of its regions each run serves: over any n that are served, each
// of the ring's n regions is served once.
func TestEveryRegionHasItsTurn(t *testing.T) {
	random := rand.New(rand.NewPCG(seedtest.Seed(t, 1), 0))
	for range 200 {
		var ring Ring
		for i := range 1 + random.IntN(12) {
			ring = append(ring, Region(strconv.Itoa(i)))
		}
		var served []Region
		cursor := Cursor("")
		for range 50 {
			run := ring.From(cursor)
			n := random.IntN(len(ring) + 1)
			served = append(served, run[:n]...)
			cursor = run.Advance(func(r Region) bool { return slices.Contains(run[:n], r) })
		}
		for i, region := range served {
			if want := ring[i%len(ring)]; region != want {
				t.Fatalf("ring of %d: %d. served was %s, want %s", len(ring), i+1, region, want)
			}
		}
	}
}

func TestEmptyRing(t *testing.T) {
	if got := (Ring)(nil).From("US"); len(got) != 0 {
		t.Errorf("got %v, want no regions", got)
	}
	if got := (Ring)(nil).Advance(func(Region) bool { return true }); got != "" {
		t.Errorf("got %q, want the beginning", got)
	}
}

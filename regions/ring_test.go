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
	for cursor, want := range map[Cursor]Ring{
		"": ring, "US": ring, "BR": ring, "DE": {"DE", "FR", "US", "GB"}, "FR": {"FR", "US", "GB", "DE"},
	} {
		if got := ring.From(cursor); !slices.Equal(got, want) {
			t.Errorf("from %q: got %v, want %v", cursor, got, want)
		}
	}
	if ring.From("US")[0] = "XX"; ring[0] != "US" {
		t.Errorf("changing what From returned changed the ring: %v", ring)
	}
	if got := (Ring)(nil).From("US"); len(got) != 0 {
		t.Errorf("of no regions: got %v", got)
	}
}

func TestAdvance(t *testing.T) {
	ring := Ring{"DE", "FR", "US", "GB"} // as a run went through it
	for _, row := range []struct {
		name   string
		served []Region
		want   Cursor
	}{
		{"nothing served", nil, "DE"},
		{"stopped at the third", []Region{"DE", "FR"}, "US"},
		{"a full turn", []Region{"DE", "FR", "US", "GB"}, "DE"},
		{"a gap: a later pass ended first", []Region{"FR", "US"}, "DE"},
	} {
		if got := ring.Advance(func(r Region) bool { return slices.Contains(row.served, r) }); got != row.want {
			t.Errorf("%s: got %q, want %q", row.name, got, row.want)
		}
	}
	if got := (Ring)(nil).Advance(func(Region) bool { return true }); got != "" {
		t.Errorf("of no regions: got %q", got)
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

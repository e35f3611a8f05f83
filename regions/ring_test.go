package regions

import (
	"slices"
	"testing"
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

package seedtest

//ci:norace

import "testing"

func TestSeed(t *testing.T) {
	t.Setenv(Variable, "")
	if got := Seed(t, 7); got != 7 {
		t.Errorf("got %d, want the fixed seed 7", got)
	}
	t.Setenv(Variable, "1795310062371588144")
	if got := Seed(t, 7); got != 1795310062371588144 {
		t.Errorf("got %d, want the seed that was asked for", got)
	}
	t.Setenv(Variable, "fresh")
	drawn := make(map[uint64]bool)
	for range 10 {
		drawn[Seed(t, 7)] = true
	}
	if len(drawn) < 2 {
		t.Error("a fresh seed is always the same")
	}
}

func TestLong(t *testing.T) {
	for text, want := range map[string]int{"": 3, "40": 40} {
		t.Setenv(LongVariable, text)
		if got := Long(t, 3); got != want {
			t.Errorf("got %d of %q, want %d", got, text, want)
		}
	}
}

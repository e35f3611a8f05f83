package main

import "testing"

func TestNumbersAsPeopleWriteThem(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "-30": -30, "+1,000": 1000, "1_000": 1000, "-1_234_567": -1_234_567, "1000000": 1_000_000,
		"1,000_000": 1_000_000, "9,007,199,254,740,991": 9_007_199_254_740_991,
	} {
		if got, ok := parseUnits(text); !ok || got != want {
			t.Errorf("%q is %d, %v, want %d", text, got, ok, want)
		}
	}
	for _, text := range []string{"", "+", "-", "1,5", "1,0000", "10,00", "1__000", "_1", "1_", ",100", "1.0", "1e3", "0x10", "--1", "1000,000", "99999999999999999999"} {
		if got, ok := parseUnits(text); ok {
			t.Errorf("%q is taken for %d", text, got)
		}
	}
}

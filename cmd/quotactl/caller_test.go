package main

import (
	"testing"

	"quotad/cmd/quotactl/term"
)

func TestCallersAreNamed(t *testing.T) {
	v := viewOf(80)
	v.User = func(uid string) string {
		if uid == "1000" {
			return "alice"
		}
		return uid
	}
	for by, want := range map[string]string{
		"@1000": "@alice", "@1001": "@1001", "@": "@", "": "", "trending": "trending", "1000": "1000", "a\x1b[31m": "a?[31m",
	} {
		if got := v.Caller(by); got != want {
			t.Errorf("%q is written %q, want %q", by, got, want)
		}
	}
	if got := term.UserNames()("0"); got != "root" {
		t.Errorf("uid 0 is %q", got)
	}
	if got := term.UserNames()("4294967294"); got != "4294967294" {
		t.Errorf("a uid that is nobody's is %q", got)
	}
}

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

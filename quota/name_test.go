package quota

import "testing"

func TestNearest(t *testing.T) {
	known := []string{"units", "reserve", "window", "only", "videos.list"}
	tests := []struct{ name, unknown, want string }{
		{"the name itself", "units", "units"},
		{"case", "Units", "units"},
		{"a letter left out", "reseve", "reserve"},
		{"a letter put in", "onlyy", "only"},
		{"a letter mistaken", "windov", "window"},
		{"two letters swapped", "untis", "units"},
		{"three slips in a long name", "vidios_lst", "videos.list"},
		{"one slip in a short name", "oly", "only"},
		{"too far", "period", ""},
		{"nothing", "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if got := Nearest(test.unknown, known); got != test.want {
				t.Errorf("nearest to %q is %q, want %q", test.unknown, got, test.want)
			}
		})
	}
}

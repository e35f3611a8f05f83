package quota

import (
	"strings"
	"testing"
)

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

// A name is safe on a command line, in a path and in a log line.
func TestCheckName(t *testing.T) {
	longest := strings.Repeat("n", 64)
	for name, want := range map[string]struct{ isName, isOperation bool }{
		"daily": {true, true}, "US": {true, true}, "7-days_all": {true, true}, longest: {true, true},
		"videos.list": {false, true}, "POST:/v2/items": {false, true},
		"": {false, false}, longest + "n": {false, false}, "-all": {false, false}, "_all": {false, false}, "../state": {false, false},
		"/etc": {false, false}, "two words": {false, false}, "a\nb": {false, false}, "größe": {false, false},
	} {
		if CheckName(name) == nil != want.isName || CheckOperation(name) == nil != want.isOperation {
			t.Errorf("%q: got %v as a name, %v as an operation", name, CheckName(name), CheckOperation(name))
		}
	}
}

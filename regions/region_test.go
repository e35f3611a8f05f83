package regions

import (
	"strings"
	"testing"
)

func TestCheckRegions(t *testing.T) {
	for _, test := range []struct {
		name    string
		regions []Region
		want    string // part of the error; empty: none
	}{
		{"none", nil, "at least one region"},
		{"twice", []Region{"US", "GB", "US"}, `"US" is listed twice`},
		{"any text", []Region{"München", "c++", "a/b", "c'est \"ça\"", "100 %", "-1", "東京"}, ""},
		{"longest text", []Region{Region(strings.Repeat("ä", 64))}, ""},
		{"empty", []Region{"US", ""}, "1 to 128 bytes, not 0"},
		{"too long", []Region{Region(strings.Repeat("ä", 65))}, "1 to 128 bytes, not 130"},
		{"a newline", []Region{"US\n"}, "can be printed"},
		{"what turns the line around", []Region{"U\u202eS"}, "can be printed"},
		{"not UTF-8", []Region{"U\xffS"}, "can be printed"},
		{"a space at the end", []Region{"US "}, "begin or end with a space"},
		{"this directory", []Region{"."}, "means a directory"},
		{"the one above", []Region{".."}, "means a directory"},
	} {
		err := Check(test.regions)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: got %v, want an error with %q", test.name, err, test.want)
		}
	}
}

func TestBefore(t *testing.T) {
	for region, want := range map[Region]string{"US": "US: ", None: ""} {
		if got := region.Before(); got != want {
			t.Errorf("a line about %q begins with %q, want %q", region, got, want)
		}
	}
}

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
		{"eight countries", []Region{"US", "GB", "DE", "FR", "IN", "BR", "AU", "CA"}, ""},
		{"hosts and pages", []Region{"web-1", "page_2", "3"}, ""},
		{"differing in case", []Region{"us", "US"}, ""},
		{"longest name", []Region{Region(strings.Repeat("a", 64))}, ""},
		{"none", nil, "at least one region"},
		{"twice", []Region{"US", "GB", "US"}, `"US" is listed twice`},
		{"empty name", []Region{"US", ""}, "1 to 64 characters"},
		{"too long", []Region{Region(strings.Repeat("a", 65))}, "1 to 64 characters"},
		{"a path", []Region{"../US"}, "letters, digits"},
		{"a space", []Region{"US GB"}, "letters, digits"},
		{"not ASCII", []Region{"Österreich"}, "letters, digits"},
		{"begins with a dash", []Region{"-US"}, "begins with a letter or digit"},
		{"a newline", []Region{"US\n"}, "letters, digits"},
	} {
		t.Run(test.name, func(t *testing.T) {
			err := Check(test.regions)
			switch {
			case test.want == "" && err != nil:
				t.Errorf("got %v, want no error", err)
			case test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)):
				t.Errorf("got %v, want an error with %q", err, test.want)
			}
		})
	}
}

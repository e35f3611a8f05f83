package cmd

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// CONTRIBUTING.md has every variable that the tests heed, and they are few.
func TestVariablesOfTests(t *testing.T) {
	const most = 8
	list := func(text string) []string {
		return regexp.MustCompile(`QUOTAD_TEST_[A-Z_]+`).FindAllString(text, -1)
	}
	used := map[string]bool{}
	add := func(path string) {
		for _, name := range list(readFile(t, path)) {
			used[name] = true
		}
	}
	walkFiles(t, ".go", add)
	add("../.ci/run")
	add("../.ci/nightly")
	known := slices.Compact(slices.Sorted(slices.Values(list(readFile(t, "../.github/CONTRIBUTING.md")))))
	if got := slices.Sorted(maps.Keys(used)); !slices.Equal(known, got) || len(got) > most {
		t.Errorf("CONTRIBUTING.md has %v, tests heed %v; there may be %d", strings.Join(known, " "), got, most)
	}
}

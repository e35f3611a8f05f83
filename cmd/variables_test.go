package cmd

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
)

// CONTRIBUTING.md has every variable that the tests heed, and they are few.
func TestVariablesOfTests(t *testing.T) {
	const most = 8
	page, err := os.ReadFile("../.github/CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	variable := regexp.MustCompile(`QUOTAD_TEST_[A-Z_]+`)
	told, used := map[string]bool{}, map[string]bool{}
	for _, name := range variable.FindAllString(string(page), -1) {
		told[name] = true
	}
	for _, pattern := range []string{"*/*.go", "*/*/*.go", "*/*/*/*.go", ".ci/*"} {
		files, err := filepath.Glob(filepath.Join("..", pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			for _, name := range variable.FindAllString(string(text), -1) {
				used[name] = true
			}
		}
	}
	if !maps.Equal(told, used) || len(used) > most {
		t.Errorf("CONTRIBUTING.md has %v, tests heed %v; there may be %d", slices.Sorted(maps.Keys(told)), slices.Sorted(maps.Keys(used)), most)
	}
}

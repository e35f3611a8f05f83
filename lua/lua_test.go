package lua

//ci:norace

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// Each file is loaded, alone or in front of others, and the scripts of a log stay small enough to be read in one sitting.
func TestFiles(t *testing.T) {
	const most = 522 // in the end 430
	paths, err := filepath.Glob("*.lua")
	if err != nil || len(paths) < 2 {
		t.Fatalf("found the scripts %q: %v", paths, err)
	}
	loaded, lines := "", 0
	for verb, script := range All(Usual()) {
		if loaded += script; regexp.MustCompile(`\$[A-Z]`).MatchString(script) {
			t.Errorf("%s has a bound that is not filled in", verb)
		}
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if path != "clock.lua" && !strings.Contains(loaded, string(text)) { // that one has bounds
			t.Errorf("%s is not loaded", path)
		}
		if !strings.HasPrefix(path, "client") {
			lines += strings.Count(string(text), "\n")
		}
		for line := range strings.Lines(string(text)) {
			if utf8.RuneCountInString(line) > 121 {
				t.Errorf("%s has a long line: %s", path, line)
			}
		}
	}
	if lines > most {
		t.Errorf("they have %d lines, at most %d are wanted", lines, most)
	}
}

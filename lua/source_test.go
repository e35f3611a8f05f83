package lua

//ci:norace

import (
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// parts stand in front of verbs, and are none.
var parts = []string{"clock", "known", "pages", "settle", "server"}

// sources reads the scripts as they stand in the directory, so that one which is not embedded is tested too.
func sources(t *testing.T) (verbs, shared map[string]string) {
	t.Helper()
	paths, err := filepath.Glob("*.lua")
	if err != nil || len(paths) < 2 {
		t.Fatalf("found the scripts %q: %v", paths, err)
	}
	verbs, shared = map[string]string{}, map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(path, ".lua")
		if slices.Contains(parts, name) {
			shared[name] = string(text)
		} else {
			verbs[name] = string(text)
		}
	}
	return verbs, shared
}

// verbOf returns the file's name of a field: client_log of ClientLog.
func verbOf(field string) string {
	return strings.ToLower(regexp.MustCompile(`([a-z])([A-Z])`).ReplaceAllString(field, "${1}_$2"))
}

// clients reports whether a verb is of client limits: Redis alone runs those.
func clients(verb string) bool { return strings.HasPrefix(verb, "client_") }

// loaded returns what the package hands out: verb to script.
func loaded() map[string]string {
	scripts, verbs := reflect.ValueOf(All(Usual())), map[string]string{}
	for i := range scripts.NumField() {
		verbs[verbOf(scripts.Type().Field(i).Name)] = scripts.Field(i).String()
	}
	return verbs
}

func TestEveryVerbIsLoaded(t *testing.T) {
	verbs, _ := sources(t)
	loaded := loaded()
	if len(loaded) != len(verbs) {
		t.Errorf("%d scripts are loaded, %d stand in the directory", len(loaded), len(verbs))
	}
	for verb, text := range verbs {
		script := loaded[verb]
		if !strings.HasSuffix(script, text) {
			t.Errorf("%s is not loaded with its file at the end", verb)
		}
		if regexp.MustCompile(`\$[A-Z]`).MatchString(script) {
			t.Errorf("%s has a bound that is not filled in", verb)
		}
	}
}

// The scripts of a log stay small enough to be read in one sitting.
func TestSizes(t *testing.T) {
	const most = 525 // in the end 430, of the scripts that decide
	verbs, shared := sources(t)
	lines := 0
	for _, texts := range []map[string]string{verbs, shared} {
		for name, text := range texts {
			n := strings.Count(text, "\n")
			if n > 260 {
				t.Errorf("%s has %d lines", name, n)
			}
			if !clients(name) {
				lines += n
			}
			for i, line := range strings.Split(text, "\n") {
				if n := utf8.RuneCountInString(line); n > 120 {
					t.Errorf("%s.lua:%d has %d characters", name, i+1, n)
				}
			}
		}
	}
	if lines > most {
		t.Errorf("they have %d lines, at most %d are wanted", lines, most)
	}
}

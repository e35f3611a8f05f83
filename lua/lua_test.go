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

// differences are what Redis' Lua and gopher-lua do otherwise, and what is hard to see: the scripts have none of it.
// What else differs, random histories in both find.
var differences = []struct {
	what    string
	pattern *regexp.Regexp
	wrong   string // a line that it finds
}{
	{"goto is another language", regexp.MustCompile(`\bgoto\b|::\w+::`), "goto done"},
	{"these are Redis' alone", regexp.MustCompile(`\b(?:cjson|cmsgpack|bit|struct)\.`), "bit.band(a, b)"},
	{"a number is 1e+15 in Redis", regexp.MustCompile(`\btostring\(|table\.concat\(`), "tostring(now)"},
	{"write %.0f of a number, and %s of a text", regexp.MustCompile(`string\.format\('[^'\n]*%(?:[^.s\n]|\.[^0]|\.0[^f])`),
		"string.format('%d', now)"},
	{"'010' is octal to one of them", regexp.MustCompile(`\btonumber\(`), "tonumber(x)"},
	{"%f is a frontier to one of them", regexp.MustCompile(`string\.(?:g?match|gsub|find)\([^\n]*'[^'\n]*%f`),
		"string.match(s, '%f[%w]')"},
	{"^ in gmatch is an anchor to one of them", regexp.MustCompile(`gmatch\((?:[^()\n]|\([^()\n]*\))*, '\^`),
		"for a in string.gmatch(s, '^a') do end"},
	{"a global is an error to one of them", regexp.MustCompile(`(?m)^function |_G\b|\bloadstring\b|\brequire\b`),
		"function f() end"},
	{"next and pairs have no order", regexp.MustCompile(`\b(?:pairs|next)\(`), "for k in pairs(t) do end"},
}

func TestWhatBothLuasAgreeAbout(t *testing.T) {
	comments := regexp.MustCompile(`--[^\n]*`)
	for verb, script := range All(Usual()) {
		for _, d := range differences {
			if found := d.pattern.FindString(comments.ReplaceAllString(script, "")); found != "" && !strings.HasPrefix(verb, "client") {
				t.Errorf("%s has %q: %s", verb, found, d.what)
			}
		}
	}
	for _, d := range differences {
		if !d.pattern.MatchString(d.wrong) {
			t.Errorf("%q is not found", d.wrong)
		}
	}
}

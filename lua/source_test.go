package lua

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quotad/quota/redisledger/redistest"
)

// parts stand in front of verbs, and are none.
var parts = []string{"clock"}

// sources reads the scripts as they stand in the directory, so that one which is
// not embedded is tested too: verb to text, and what all have in front.
func sources(t *testing.T) (clock string, verbs map[string]string) {
	t.Helper()
	paths, err := filepath.Glob("*.lua")
	if err != nil || len(paths) < 2 {
		t.Fatalf("found the scripts %q: %v", paths, err)
	}
	verbs = make(map[string]string)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		verbs[strings.ReplaceAll(strings.TrimSuffix(path, ".lua"), "_", "")] = string(text)
	}
	clock = verbs["clock"]
	for _, part := range parts {
		delete(verbs, part)
	}
	return clock, verbs
}

// split parts a script into its header, without the dashes, and its body.
func split(text string) (header, body string) {
	var lines []string
	for line := range strings.Lines(text) {
		comment, ok := strings.CutPrefix(line, "--")
		if !ok {
			break
		}
		lines = append(lines, comment)
	}
	header = strings.Join(lines, "")
	return header, text[len(header)+2*len(lines):]
}

var stringsAndComments = regexp.MustCompile(`'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*"|--[^\n]*`)

// code blanks out strings and comments, so that what is left is names and signs.
func code(text string) string {
	return stringsAndComments.ReplaceAllStringFunc(text, func(found string) string {
		if strings.HasPrefix(found, "--") {
			return ""
		}
		return "''"
	})
}

// loaded returns what the package hands out: verb to script.
func loaded(t *testing.T) map[string]string {
	t.Helper()
	text, err := json.Marshal(All())
	if err != nil {
		t.Fatal(err)
	}
	var fields map[string]string
	if err := json.Unmarshal(text, &fields); err != nil {
		t.Fatal(err)
	}
	verbs := make(map[string]string)
	for field, script := range fields {
		verbs[strings.ToLower(field)] = script
	}
	return verbs
}

func TestEveryVerbIsLoaded(t *testing.T) {
	clock, verbs := sources(t)
	loaded := loaded(t)
	if len(loaded) != len(verbs) {
		t.Errorf("%d scripts are loaded, %d stand in the directory", len(loaded), len(verbs))
	}
	for verb, text := range verbs {
		if got := loaded[verb]; !strings.HasPrefix(got, clock) || !strings.HasSuffix(got, text) {
			t.Errorf("%s is not loaded as the clock, perhaps more, and its file", verb)
		}
	}
}

// Redis compiles a script when it is loaded, and says what is wrong with it.
func TestEveryVerbCompiles(t *testing.T) {
	server := redistest.Start(t)
	for verb, script := range loaded(t) {
		t.Run(verb, func(t *testing.T) {
			if hash := server.Do(t, "SCRIPT", "LOAD", script); len(hash.(string)) != 40 {
				t.Errorf("got %q, want the script's hash", hash)
			}
		})
	}
}

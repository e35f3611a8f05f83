package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// gone are words that people stumbled over. Each has a plainer one: returns, reads, records,
// reports, waits for, retries, expires, continues; you; an operator; a caller.
var gone = regexp.MustCompile(`(?i)\b(whoever|nobody|somebody|anew|so many|tells?|told|hears?|heard|of late|in vain|lest|goes on|go on|gives? back|given back|takes? in|stands beside|stand beside|vanish(es)?|looked for|besides)\b`)

// What people read holds none of these words: messages, usage texts, the page, the documentation,
// and the comments of all code but tests.
func TestPlainWords(t *testing.T) {
	walkFiles(t, ".go", func(path string) {
		if !strings.HasSuffix(path, "_test.go") {
			plainSource(t, path)
		}
	})
	for _, ending := range []string{".md", ".toml", ".html", ".lua", ".sql", ".css", ".js", ".yml"} {
		walkFiles(t, ending, func(path string) {
			if strings.Contains(path, "testdata") {
				return
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(text), "\n") {
				plain(t, path+":"+strconv.Itoa(i+1), line)
			}
		})
	}
}

func plainSource(t *testing.T, path string) {
	t.Helper()
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, path, nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	for _, comments := range file.Comments {
		plain(t, files.Position(comments.Pos()).String(), comments.Text())
	}
	support := strings.Contains(path, "test/") || strings.Contains(path, "benchmark/")
	ast.Inspect(file, func(n ast.Node) bool {
		if _, isTag := n.(*ast.Field); isTag {
			return false
		}
		if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING && !support {
			plain(t, files.Position(text.Pos()).String(), text.Value)
		}
		return true
	})
}

func plain(t *testing.T, place, text string) {
	t.Helper()
	if word := gone.FindString(text); word != "" {
		t.Errorf("%s: say it without %q: %.120s", place, word, text)
	}
}

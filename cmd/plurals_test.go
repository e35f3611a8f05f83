package cmd

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// counted is what people are told numbers of.
const counted = `units|regions|calls|ticks|passes|jobs|runs|entries|processes|records|lines|credentials|limits|connections|days|hours|requests|pages|videos`

// Nobody reads "1 units". Who writes a number before a noun asks quota.Count, or
// Units.Text, for the two together; so no literal has a number's place before a
// plural.
func TestNumbersAgreeWithTheirNouns(t *testing.T) {
	bare := regexp.MustCompile(`%[+#]?\d*[dsv] (` + counted + `)\b|^ (` + counted + `)\b`)
	walkFiles(t, ".go", func(path string) {
		if strings.HasSuffix(path, "_test.go") || strings.Contains(path, "test/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			if text, ok := n.(*ast.BasicLit); ok && text.Kind == token.STRING {
				if found := bare.FindString(strings.Trim(text.Value, "`\"")); found != "" {
					t.Errorf("%s: %q may come to one", path, found)
				}
			}
			return true
		})
	})
}

// What the tests show of the programs is what people see.
func TestNothingShownIsOneOfMany(t *testing.T) {
	wrong := regexp.MustCompile(`(?m)(^|[^\w.,:/+-])1 (` + counted + `)\b.*`)
	for _, ending := range []string{".txt", ".txtar", ".md", "_test.go"} {
		walkFiles(t, ending, func(path string) {
			if filepath.Base(path) == "plurals_test.go" {
				return
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, found := range wrong.FindAllString(string(text), -1) {
				t.Errorf("%s: %q", path, strings.TrimSpace(found))
			}
		})
	}
}

// walkFiles visits the files of the repository whose names end so.
func walkFiles(t *testing.T, ending string, visit func(path string)) {
	t.Helper()
	err := filepath.WalkDir("..", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && entry.Name() != "..":
			return fs.SkipDir
		case !entry.IsDir() && strings.HasSuffix(path, ending):
			visit(path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

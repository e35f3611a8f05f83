package cmd

import (
	"bytes"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	mostLines   = 26_000 // of the packages together, in the end
	budgetSlack = 25     // by how many lines a row may fall before its number in the table is lowered, too
	maxColumns  = 120    // of a line of Go, in characters
	budgetTable = "cmd/testdata/budgets.txt"
)

// A budget is a row of testdata/budgets.txt: how many lines its packages have at most now, and in the end.
type budget struct {
	has, shall int
	of         string
}

// Each row of packages has at most as many lines of Go as the table says, and the table falls with the code.
func TestBudgets(t *testing.T) {
	lines, overlong := countLines(t)
	all, most := 0, 0
	for _, b := range readBudgets(t) {
		if whose, is := strings.CutPrefix(b.of, "overlong "); is {
			b.judge(t, overlong[whose], "lines of more than 120 characters")
			continue
		}
		n := 0
		for pkg := range lines {
			if b.names(pkg) {
				n += lines[pkg]
				delete(lines, pkg)
			}
		}
		b.judge(t, n, "lines")
		all, most = all+n, most+b.shall
	}
	for _, pkg := range slices.Sorted(maps.Keys(lines)) {
		t.Errorf("no row of %s names package %s: add it to the row from which its lines come, or remove it", budgetTable, pkg)
	}
	if most > mostLines {
		t.Errorf("the rows of %s shall have %d lines together, more than %d: take from one row what another one gets",
			budgetTable, most, mostLines)
	}
	t.Logf("%d lines of %d", all, mostLines)
}

// judge says what is wrong with the number of a row, and what to do.
func (b budget) judge(t *testing.T, n int, what string) {
	t.Helper()
	switch most := max(b.has, b.shall); {
	case n > most:
		t.Errorf("%s: %d %s, %d more than %s allows: take something out; if an issue allows more meanwhile, write %d there, "+
			"with a comment that says which", b.of, n, what, n-most, budgetTable, n)
	case b.has > b.shall && n < b.has-budgetSlack:
		t.Errorf("%s: %d %s, %d fewer than %s allows: write %d there in place of %d, so that they do not come back",
			b.of, n, what, b.has-n, budgetTable, n, b.has)
	}
}

// names reports whether the row counts a package. A name with * counts those below it, too.
func (b budget) names(pkg string) bool {
	return slices.ContainsFunc(strings.Fields(b.of), func(name string) bool {
		whole, below := strings.CutSuffix(name, "*")
		return pkg == whole || below && strings.HasPrefix(pkg, whole+"/")
	})
}

func readBudgets(t *testing.T) (budgets []budget) {
	t.Helper()
	for line := range strings.Lines(readFile(t, filepath.Join("..", budgetTable))) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		var b budget
		if _, err := fmt.Sscan(line, &b.has, &b.shall); err != nil {
			t.Fatalf("%s: want HAS SHALL PACKAGES in %q: %v", budgetTable, line, err)
		}
		b.of = strings.Join(strings.Fields(line)[2:], " ")
		budgets = append(budgets, b)
	}
	return budgets
}

var supportOfTests = regexp.MustCompile(`_test\.go$|/[a-z]*test/|^quota/benchmark/|/testdata/`)

// countLines returns how many lines each package of the house has, and how many lines are too long, in the house and in
// its tests.
func countLines(t *testing.T) (lines, overlong map[string]int) {
	t.Helper()
	lines, overlong = make(map[string]int), make(map[string]int)
	walkFiles(t, ".go", func(file string) {
		text := []byte(readFile(t, file))
		name, whose := strings.TrimPrefix(filepath.ToSlash(file), "../"), "tests"
		if !supportOfTests.MatchString(name) {
			whose = "house"
			lines[path.Dir(name)] += bytes.Count(text, []byte("\n"))
		}
		for line := range bytes.Lines(text) {
			if utf8.RuneCount(bytes.TrimSuffix(line, []byte("\n"))) > maxColumns {
				overlong[whose]++
			}
		}
	})
	return lines, overlong
}

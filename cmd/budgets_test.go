package cmd

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// The packages together have at most this many lines in the end.
const mostLines = 26_000

// budgetSlack is by how many lines a row may fall before its number in the table is lowered, too.
const budgetSlack = 25

// maxColumns is the maximum length of a line of Go, in characters.
const maxColumns = 120

// A budget is a row of testdata/budgets.txt.
type budget struct {
	has   int      // at most now
	shall int      // at most in the end
	of    []string // packages from the root, or "overlong" with what
}

const budgetTable = "cmd/testdata/budgets.txt"

// Each row of packages has at most as many lines of Go as the table says, and the table falls with the code.
func TestBudgets(t *testing.T) {
	budgets := readBudgets(t)
	lines, overlong := countLines(t)
	const cureOfOverlong = `break those that you write, which git diff -U0 | grep -E '^\+.{121}' shows`
	all, most := 0, 0
	for _, b := range budgets {
		if what := b.overlong(); what != "" {
			if wrong := b.judge(overlong[what], "lines of more than 120 characters", cureOfOverlong); wrong != "" {
				t.Error(wrong)
			}
			continue
		}
		n := 0
		for pkg := range lines {
			if b.names(pkg) {
				n += lines[pkg]
			}
		}
		if wrong := b.judge(n, "lines", "take something out of these packages"); wrong != "" {
			t.Error(wrong)
		}
		all, most = all+n, most+b.shall
	}
	for _, pkg := range unnamed(budgets, slices.Sorted(maps.Keys(lines))) {
		t.Errorf("no row of %s names package %s: add it to the row from which its %d lines come, or remove it",
			budgetTable, pkg, lines[pkg])
	}
	if most > mostLines {
		t.Errorf("the rows of %s shall have %d lines together, more than %d: take from one row what another one gets",
			budgetTable, most, mostLines)
	}
	t.Logf("%d lines of %d", all, mostLines)
}

// judge says what is wrong with a number beside the row, and what to do; empty if nothing is.
func (b budget) judge(n int, what, cure string) string {
	row, most := strings.Join(b.of, " "), max(b.has, b.shall)
	switch {
	case n > most:
		return fmt.Sprintf("%s: %d %s, %d more than %s allows: %s; "+
			"if an issue allows more meanwhile, write %d there, with a comment that says which",
			row, n, what, n-most, budgetTable, cure, n)
	case b.has > b.shall && n < b.has-budgetSlack:
		return fmt.Sprintf("%s: %d %s, %d fewer than %s allows: write %d there in place of %d, so that they do not come back",
			row, n, what, b.has-n, budgetTable, n, b.has)
	}
	return ""
}

// overlong returns whose overlong lines the row counts, "house" or "tests"; empty: it counts lines of packages.
func (b budget) overlong() string {
	if b.of[0] != "overlong" {
		return ""
	}
	return strings.Join(b.of[1:], " ")
}

// names reports whether the row counts a package.
func (b budget) names(pkg string) bool {
	return slices.ContainsFunc(b.of, func(name string) bool {
		whole, below := strings.CutSuffix(name, "*")
		return pkg == whole || below && strings.HasPrefix(pkg, whole+"/")
	})
}

// unnamed returns the packages that no row names.
func unnamed(budgets []budget, packages []string) (list []string) {
	for _, pkg := range packages {
		if !slices.ContainsFunc(budgets, func(b budget) bool { return b.names(pkg) }) {
			list = append(list, pkg)
		}
	}
	return list
}

func readBudgets(t *testing.T) (budgets []budget) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", budgetTable))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) < 3 {
			t.Fatalf("%s: want HAS SHALL PACKAGES in %q", budgetTable, line)
		}
		b := budget{of: fields[2:]}
		var wrong [2]error
		b.has, wrong[0] = strconv.Atoi(fields[0])
		b.shall, wrong[1] = strconv.Atoi(fields[1])
		if wrong != [2]error{} {
			t.Fatalf("%s: want two numbers in %q", budgetTable, line)
		}
		budgets = append(budgets, b)
	}
	return budgets
}

// countLines returns how many lines each package of the house has, and how many lines are too long, in the house and in
// its tests.
func countLines(t *testing.T) (lines, overlong map[string]int) {
	t.Helper()
	lines, overlong = make(map[string]int), make(map[string]int)
	walkFiles(t, ".go", func(file string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		name, whose := strings.TrimPrefix(filepath.ToSlash(file), "../"), "tests"
		if isHouse(name) {
			whose = "house"
			lines[path.Dir(name)] += bytes.Count(text, []byte("\n"))
		}
		for line := range strings.Lines(string(text)) {
			if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > maxColumns {
				overlong[whose]++
			}
		}
	})
	return lines, overlong
}

var supportOfTests = regexp.MustCompile(`_test\.go$|/[a-z]*test/|^quota/benchmark/|/testdata/`)

// isHouse reports whether a file of Go is no test and no support of tests.
func isHouse(file string) bool { return !supportOfTests.MatchString(file) }

// The judgement fails where it should, and says what to write.
func TestJudgeBudgets(t *testing.T) {
	for _, row := range []struct {
		name          string
		n, has, shall int
		want          string // a part of what is wrong; empty: nothing
	}{
		{"as the table says", 3_000, 3_000, 2_000, ""},
		{"a line more", 3_001, 3_000, 2_000, "3001 lines, 1 more than"},
		{"a few fewer", 2_975, 3_000, 2_000, ""},
		{"clearly fewer", 2_974, 3_000, 2_000, "26 fewer than cmd/testdata/budgets.txt allows: write 2974 there"},
		{"fewer than there shall be", 1_500, 3_000, 2_000, "write 1500 there in place of 3000"},
		{"as there shall be", 2_000, 2_000, 2_000, ""},
		{"nearly there", 1_990, 2_010, 2_000, ""},
		{"it grows to what it shall have", 2_000, 1_500, 2_000, ""},
		{"it falls below that", 100, 1_500, 2_000, ""},
		{"and grows beyond", 2_001, 1_500, 2_000, "2001 lines, 1 more than"},
		{"packages that are not there yet", 0, 0, 1_300, ""},
		{"none is left", 0, 10, 0, ""},
		{"one comes back", 1, 0, 0, "1 more than"},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := budget{row.has, row.shall, []string{"quota", "jobs"}}
			got := b.judge(row.n, "lines", "take something out of these packages")
			if (got == "") != (row.want == "") || !strings.Contains(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// Each package is named by a row, and only what is no test counts.
func TestBudgetsNamePackages(t *testing.T) {
	rows := []budget{{of: strings.Fields("quota jobs/plan")}, {of: strings.Fields("cmd/ytfetch*")}}
	packages := strings.Fields("cmd/ytfetch cmd/ytfetch/store cmd/ytfetcher jobs jobs/plan jobs/plan/days quota quotas")
	want := strings.Fields("cmd/ytfetcher jobs jobs/plan/days quotas")
	if got := unnamed(rows, packages); !slices.Equal(got, want) {
		t.Errorf("no row names %q, want %q", got, want)
	}
	for file, want := range map[string]bool{
		"quota/window.go": true, "lua/lua.go": true, "quota/benchmarks.go": true, "jobs/latest.go": true,
		"quota/window_test.go": false, "quota/ledgertest/model.go": false, "quota/benchmark/main.go": false,
		"cmd/quotad/testdata/client.go": false,
	} {
		if isHouse(file) != want {
			t.Errorf("%s is of the house: %v, want %v", file, !want, want)
		}
	}
}

package benchmark

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A Table is one of README.md, which a benchmark writes: between "<!-- NAME -->" and "<!-- end -->", with what it
// was measured on.
type Table struct {
	Name    string
	Command string   // that writes it
	Sources []string // the folders that it measures, from the root of the repository
	Head    []string
	Rows    [][]string
}

// Sides is the head of a table of rows that Beside adds, and OfAcquire the sources of an acquire.
var (
	Sides     = []string{"acquire over the socket", "quotad", "beside", "that one", "ratio"}
	OfAcquire = []string{"lua", "quota", "quota/api", "quota/journal", "quota/redisledger", "quota/server", "quota/slidinglog"}
)

// Beside adds a row with both sides of a comparison: of 0, one was not measured.
func (t *Table) Beside(what, unit string, ours float64, than string, theirs float64) {
	if ours > 0 && theirs > 0 {
		t.Rows = append(t.Rows, []string{what, Figure(ours) + unit, than, Figure(theirs) + unit, Figure(ours / theirs)})
	}
}

// Figure writes a number with three digits.
func Figure(f float64) string {
	switch {
	case f >= 1000:
		return fmt.Sprintf("%d,%03d", int(f)/1000, int(f)%1000)
	case f >= 100:
		return fmt.Sprintf("%.0f", f)
	case f >= 10:
		return fmt.Sprintf("%.1f", f)
	}
	return fmt.Sprintf("%.2f", f)
}

// readmeVariable has a benchmark write its tables into README.md, if it is 1. They are logged in any case.
const readmeVariable = "QUOTAD_BENCH_README"

// Write logs a table, and writes it into README.md if that is wanted. A table that was not measured as a whole is
// not written.
func (t Table) Write(tb testing.TB) {
	tb.Helper()
	root, err := rootOf()
	if err != nil {
		tb.Fatal(err)
	}
	sum, err := sourcesSum(root, t.Sources)
	if err != nil {
		tb.Fatal(err)
	}
	text := t.text(time.Now(), version(root), sum, load())
	tb.Logf("table %s\n%s", t.Name, text)
	if os.Getenv(readmeVariable) != "1" || tb.Failed() {
		return
	}
	path := filepath.Join(root, "quota/benchmark/README.md")
	page, err := os.ReadFile(path)
	if err == nil {
		page, err = replaceTable(page, t.Name, text)
	}
	if err == nil {
		err = os.WriteFile(path, page, 0o644)
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func (t Table) text(now time.Time, version, sum, load string) string {
	var b strings.Builder
	line := func(cells []string) { fmt.Fprintf(&b, "| %s |\n", strings.Join(cells, " | ")) }
	line(t.Head)
	line(slices.Repeat([]string{"---"}, len(t.Head)))
	for _, row := range t.Rows {
		line(row)
	}
	fmt.Fprintf(&b, "\nMeasured on %s with version %s, at a load of %s.\nSources `%s` in %s: `%s`.\n",
		now.UTC().Format(time.DateOnly), version, load, sum, strings.Join(t.Sources, ", "), t.Command)
	return b.String()
}

// replaceTable replaces the text of a table in a page.
func replaceTable(page []byte, name, text string) ([]byte, error) {
	begin, end := "<!-- "+name+" -->\n", "<!-- end -->"
	head, rest, found := strings.Cut(string(page), begin)
	_, tail, ended := strings.Cut(rest, end)
	if !found || !ended {
		return nil, fmt.Errorf("README.md has no place for the table %q: %q … %q", name, begin, end)
	}
	return []byte(head + begin + text + end + tail), nil
}

// A Measured is what a page says of a table.
type Measured struct {
	Name, Date, Sum string
	Sources         []string
}

var measured = regexp.MustCompile("(?s)<!-- ([a-z]+) -->\n(?:[^<]*?)Measured on (\\S+) with version \\S+, at a load of [^\n]*\nSources `([0-9a-f]+)` in ([^:]+):[^<]*<!-- end -->")

// TablesOf returns the tables of a page.
func TablesOf(page string) (tables []Measured) {
	for _, m := range measured.FindAllStringSubmatch(page, -1) {
		tables = append(tables, Measured{m[1], m[2], m[3], strings.Split(m[4], ", ")})
	}
	return tables
}

// sourcesSum returns a checksum of the sources in folders, without those below them, and without tests.
func sourcesSum(root string, folders []string) (string, error) {
	sum := sha256.New()
	for _, folder := range folders {
		entries, err := os.ReadDir(filepath.Join(root, folder))
		if err != nil {
			return "", err
		}
		for _, e := range slices.DeleteFunc(entries, func(e fs.DirEntry) bool { return !isSource(e) }) {
			text, err := os.ReadFile(filepath.Join(root, folder, e.Name()))
			if err != nil {
				return "", err
			}
			fmt.Fprintf(sum, "%s/%s %d\n%s", folder, e.Name(), len(text), text)
		}
	}
	return fmt.Sprintf("%.6x", sum.Sum(nil)), nil
}

func isSource(e fs.DirEntry) bool {
	name := e.Name()
	return strings.HasSuffix(name, ".lua") || strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go")
}

// rootOf returns the root of the repository.
func rootOf() (string, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	return strings.TrimSpace(string(out)), err
}

// version returns the commit that is measured; with a + if another file than README.md has changed.
func version(root string) string {
	git := func(arguments ...string) string {
		command := exec.Command("git", arguments...)
		command.Dir = root
		out, _ := command.Output()
		return strings.TrimSpace(string(out))
	}
	commit := git("rev-parse", "--short=8", "HEAD")
	if commit == "" {
		return "unknown"
	}
	if git("status", "--porcelain", "--untracked-files=no", "--", ".", ":!quota/benchmark/README.md") != "" {
		commit += "+"
	}
	return commit
}

// load returns how many processes are ready to run, over the last minute.
func load() string {
	text, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(text), " ")
	return first
}

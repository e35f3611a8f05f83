package benchmark

import (
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestATableIsWrittenInItsPlace(t *testing.T) {
	table := Table{Name: "socket", Command: "go test", Sources: []string{"lua", "quota"}, Head: []string{"what", "ours", "beside", "theirs", "ratio"}}
	table.Beside("one client", " µs", 1234.5, "a floor", 81.04)
	table.Beside("what was not measured", " µs", 5, "a peer", 0)
	text := table.text(time.Unix(1795345190, 0), "0123abcd", "9f86d0818888", "0.50")
	if want := "| one client | 1,234 µs | a floor | 81.0 µs | 15.2 |\n\nMeasured on 2026-11-22 with version 0123abcd, at a load of 0.50."; !strings.Contains(text, want) {
		t.Errorf("%s lacks %s", text, want)
	}
	page := []byte("before\n\n<!-- socket -->\nold\n<!-- end -->\n\nafter <!-- other -->\n<!-- end -->\n")
	for range 2 { // the second time it takes the place of itself
		var err error
		if page, err = replaceTable(page, "socket", text); err != nil {
			t.Fatal(err)
		}
	}
	if got := string(page); !strings.HasPrefix(got, "before\n\n<!-- socket -->\n| what") || strings.Contains(got, "old") || !strings.HasSuffix(got, "`go test`.\n<!-- end -->\n\nafter <!-- other -->\n<!-- end -->\n") {
		t.Errorf("the page is %s", got)
	}
	found := TablesOf(string(page))
	if len(found) != 1 || found[0].Name != "socket" || found[0].Sum != "9f86d0818888" || !slices.Equal(found[0].Sources, table.Sources) {
		t.Errorf("the page has %+v", found)
	}
	if _, err := replaceTable(page, "none", text); err == nil {
		t.Error("a table without a place is written")
	}
}

// Each table of README.md says what it measured. With -v, those are named that are older than their code.
func TestTablesNameTheirSources(t *testing.T) {
	page, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	tables := TablesOf(string(page))
	if places := strings.Count(string(page), "<!-- end -->"); len(tables) != places || places == 0 {
		t.Errorf("%d of %d tables say what they measured", len(tables), places)
	}
	root, err := rootOf()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range tables {
		sum, err := sourcesSum(root, m.Sources)
		if err != nil {
			t.Errorf("table %s: %v", m.Name, err)
		} else if sum != m.Sum {
			t.Logf("table %s, of %s, is older than its code: %s were %s, and are %s", m.Name, m.Date, strings.Join(m.Sources, ", "), m.Sum, sum)
		}
	}
}

// A sum changes with each source, and with nothing else.
func TestSumsOfSources(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		if err := os.WriteFile(root+"/"+name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sum, err := sourcesSum(root, []string{"."})
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	first := write("a.go", "package a")
	if got := write("a_test.go", "package a"); got != first {
		t.Error("a test counts")
	}
	second := write("b.lua", "return 1")
	if second == first || write("a.go", "package b") == second {
		t.Error("a source does not count")
	}
}

func TestSwitchesAreCounted(t *testing.T) {
	before, err := switches(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for after := before; after == before; {
		time.Sleep(time.Microsecond) // gives up the CPU
		if after, err = switches(os.Getpid()); err != nil {
			t.Fatal(err)
		}
	}
}

package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/rogpeppe/go-internal/txtar"

	"quotad/cmd/quotactl/page"
	"quotad/cmd/quotactl/wording"
	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota"
)

var update = flag.Bool("update", false, "write the golden files anew")

// at is the instant from which every golden file is seen.
var at = time.Date(2026, 3, 14, 9, 26, 53, 0, time.UTC)

func viewOf(width int) wording.View {
	return wording.View{Now: at, Zone: time.UTC, Width: width}
}

func TestStatusOnTheScreen(t *testing.T) {
	colored := viewOf(80)
	colored.Color = true
	for name, v := range map[string]wording.View{
		"40":       viewOf(40),
		"80":       viewOf(80),
		"200":      viewOf(200),
		"80-color": colored,
	} {
		for _, input := range []string{"busy", "exhausted", "outage", "hostile"} {
			t.Run(input+"-"+name, func(t *testing.T) {
				got := renderStatus(readStatus(t, input), v)
				if name == "80" || input == "busy" { // the words are the same on any screen
					compare(t, fmt.Sprintf("status-%s-%s", input, name), got)
				}
				checkPlain(t, got, v)
				if input != "hostile" && v.Width >= wording.DefaultWidth && !v.Color {
					checkFits(t, got, v)
				}
			})
		}
	}
}

// Lists and pages, of the jobs and runs that the status tells about.
func TestJobsOnTheScreen(t *testing.T) {
	s := readStatus(t, "exhausted")
	s.Jobs[0].Expects = map[string]quota.Units{"videos.list": 4, "search.list": 1}
	var runs []jobs.Run
	for _, j := range s.Jobs {
		for _, run := range []*jobs.Run{j.Last, j.Skips} {
			if run != nil {
				runs = append(runs, *run)
			}
		}
	}
	runs[0].Passes[1].Refusals = []jobs.Refusal{
		{Operation: "search.list", Limit: "daily", Needed: 100, Left: 60, FitsAt: at.Add(time.Hour)}, {Operation: "videos.list", Needed: 50_000, Left: 9_000},
	}
	runs[0].Passes[2].Tail = []string{"fetching page 1", "\x1b[31mcannot parse\x1b[0m the answer"}
	for _, width := range []int{80, 200} {
		v := viewOf(width)
		for name, got := range map[string]string{
			"jobs":   jobTable(s.Jobs, v),
			"job":    jobPage(s.Jobs[0], v),
			"runs":   runTable(runs, v),
			"run":    runPage(runs[0], runs[0].Passes, false, v),
			"output": runPage(runs[0], runs[0].Passes, true, v),
		} {
			checkScreen(t, fmt.Sprintf("%s-%d", name, width), got, v)
		}
	}
}

// A run in which a region failed is red wherever it is shown, and one that a limit stopped
// is not.
func TestAFailedRunIsRed(t *testing.T) {
	v := viewOf(200)
	v.Color = true
	s := readStatus(t, "busy")
	j := s.Jobs[0]
	for _, row := range []struct {
		state   jobs.RunState
		outcome jobs.Outcome
		code    string
		style   wording.Style
	}{
		{jobs.RunDone, jobs.OK, "32", wording.Green},
		{jobs.RunFailed, jobs.Failed, "31", wording.Red},
		{jobs.RunStopped, jobs.Exhausted, "33", wording.Yellow},
		{jobs.RunRunning, jobs.Failed, "31", wording.Red},
	} {
		run := *j.Last
		run.State, run.Passes = row.state, []jobs.Pass{{Region: "US", Outcome: row.outcome}}
		j.Last = &run
		s.Jobs = []jobsapi.Job{j}
		said := fmt.Sprintf("\x1b[%sm", row.code)
		for name, text := range map[string]string{
			"status": renderStatus(s, v),
			"watch":  (&watched{status: s}).render(v),
			"runs":   runTable([]jobs.Run{run}, v),
			"run":    runPage(run, run.Passes, false, v),
			"jobs":   jobTable(s.Jobs, v),
		} {
			if !slices.ContainsFunc(strings.Split(text, "\n"), func(line string) bool {
				return strings.Contains(line, said) && strings.Contains(line, string(row.state))
			}) {
				t.Errorf("%s: a run that is %s with a pass that is %s is not in colour %s:\n%s", name, row.state, row.outcome, row.code, text)
			}
		}
		p := page.Picture{Facts: page.Facts{Status: s, Runs: []jobs.Run{run}}, View: v}
		class := map[wording.Style]string{wording.Red: "bad", wording.Yellow: "warn", wording.Green: "good"}[row.style]
		if shown := p.JobRows()[0]; shown.Runs[0].Class != class || shown.Said.Style != row.style {
			t.Errorf("page: %s, %s, want %s, %s", shown.Runs[0].Class, shown.Said.Style, class, row.style)
		}
	}
}

// checkScreen compares what is shown with its golden file. A narrow screen may be too narrow.
func checkScreen(t *testing.T, name, got string, v wording.View) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		compare(t, name, got)
		checkPlain(t, got, v)
		if v.Width >= wording.DefaultWidth && !strings.Contains(name, "hostile") {
			checkFits(t, got, v)
		}
	})
}

// checkPlain: no control characters beside our own colours.
func checkPlain(t *testing.T, text string, v wording.View) {
	t.Helper()
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimRight(line, " ") != line {
			t.Errorf("line ends in spaces: %q", line)
		}
		if strings.ContainsFunc(line, func(r rune) bool { return r < ' ' && !(v.Color && r == '\x1b') }) {
			t.Errorf("control character: %q", line)
		}
	}
}

func checkFits(t *testing.T, text string, v wording.View) {
	t.Helper()
	for line := range strings.Lines(text) {
		if width := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > v.Width {
			t.Errorf("line of %d columns on a screen of %d: %q", width, v.Width, line)
		}
	}
}

func readStatus(t *testing.T, name string) jobsapi.Status {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var s jobsapi.Status
	if err := json.Unmarshal(body, &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// compare holds got against its section of a golden file, or writes it under -update.
// A file holds what one command shows, by what there is to show and how wide the
// screen is: "status-exhausted-80" is the section "exhausted-80" of status.txtar. One screen shows how wide
// ones look; on the others the words are those of 80 columns.
func compare(t *testing.T, name, got string) {
	t.Helper()
	if strings.HasSuffix(name, "-200") && name != "status-busy-200" {
		return
	}
	command, section, _ := strings.Cut(name, "-")
	path := filepath.Join("testdata", "golden", command+".txtar")
	archive := &txtar.Archive{Comment: []byte("What quotactl shows; go test ./cmd/quotactl -update writes it anew.\n")}
	if old, err := txtar.ParseFile(path); err == nil {
		archive = old
	} else if !*update {
		t.Fatal(err)
	}
	i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == section })
	if *update {
		if i < 0 {
			archive.Files = append(archive.Files, txtar.File{Name: section})
			slices.SortFunc(archive.Files, func(a, b txtar.File) int { return strings.Compare(a.Name, b.Name) })
			i = slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == section })
		}
		archive.Files[i].Data = []byte(got)
		if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if i < 0 {
		t.Fatalf("%s has no section %s", path, section)
	}
	if want := string(archive.Files[i].Data); strings.TrimSuffix(got, "\n") != strings.TrimSuffix(want, "\n") {
		t.Errorf("%s, %s\ngot:\n%s\nwant:\n%s", path, section, got, want)
	}
}

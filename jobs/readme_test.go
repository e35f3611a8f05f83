package jobs

import (
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"quotad/regions"
)

var update = flag.Bool("update", false, "write the table of README.md")

// The page names each outcome, each state of a run, and each reason.
func TestPageNamesEachState(t *testing.T) {
	page, err := os.ReadFile("README.md")
	must(t, err)
	constant := regexp.MustCompile(`(?m)^\t\w+ +(?:Outcome|Reason|RunState) += "([a-z_]+)"`)
	named := 0
	for _, file := range []string{"outcome.go", "run.go"} {
		source, err := os.ReadFile(file)
		must(t, err)
		for _, found := range constant.FindAllStringSubmatch(string(source), -1) {
			named++
			if !regexp.MustCompile(`\b` + found[1] + `\b`).Match(page) {
				t.Errorf("the page does not say when it is %s", found[1])
			}
		}
	}
	if named < 25 {
		t.Errorf("found %d states, outcomes and reasons; they are declared elsewhere", named)
	}
}

// The table of the page is what judge and consequence do.
func TestOutcomeTable(t *testing.T) {
	const page = "README.md"
	j := &Job{Name: "fetch"}
	var table strings.Builder
	for _, row := range []struct {
		saw   string
		with  Exit
		spent passCalls
	}{
		{"it did not start", Exit{Err: os.ErrNotExist}, passCalls{}},
		{"`quotactl stop`", Exit{Cause: ErrOperator}, passCalls{}},
		{"quotad stops", Exit{Cause: ErrShutdown}, passCalls{}},
		{"a limit denied its last call", Exit{Code: 1}, passCalls{Denied: true, Limit: "daily"}},
		{"the upstream closed a limit", Exit{Cause: ErrTimeout}, passCalls{Closed: "daily"}},
		{"it reached its timeout", Exit{Cause: ErrTimeout}, passCalls{}},
		{"the upstream refuses the key", Exit{Code: 1}, passCalls{Refuses: "API key not valid"}},
		{"the upstream refused calls, and none was made", Exit{}, passCalls{Refused: 2, Why: "not found"}},
		{"exit 75", Exit{Code: ExitExhausted}, passCalls{}},
		{"a signal", Exit{Code: -1, Signal: "SIGSEGV"}, passCalls{}},
		{"exit 1 to 255", Exit{Code: 3}, passCalls{}},
		{"exit 0", Exit{}, passCalls{}},
	} {
		outcome, _ := judge(row.with, row.spent)
		then := "continues"
		if outcome == Exhausted {
			then = "waits up to max_wait, or ends: " + string(BudgetGone)
		} else if err := (&executor{job: j}).consequence(&Pass{Outcome: outcome}, row.with, row.spent); err != nil {
			_, why := (&Run{Ring: regions.Ring{"US"}}).ending(err)
			then = "ends: " + string(why.Reason)
		}
		turn := "served next"
		switch {
		case outcome.Failure():
			turn = "had its turn, failed"
		case outcome.Served():
			turn = "had its turn"
		}
		fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", row.saw, outcome, turn, then)
	}
	text, err := os.ReadFile(page)
	must(t, err)
	const head = "| what quotad saw | outcome | its region | the run |\n|---|---|---|---|\n"
	before, rest, found := strings.Cut(string(text), head)
	_, after, ended := strings.Cut("\n"+rest, "\n\n")
	if !found || !ended {
		t.Fatal("the page has no table")
	}
	want := before + head + table.String() + "\n" + after
	if *update {
		must(t, os.WriteFile(page, []byte(want), 0o644))
	} else if string(text) != want {
		t.Errorf("%s is not what judge says: go test ./jobs -run TestOutcomeTable -update", page)
	}
}

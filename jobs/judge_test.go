package jobs

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/regions"
)

var update = flag.Bool("update", false, "write the table of README.md")

// What ended a pass counts in this order: a person or a stop, a refusal, ours or the upstream's, our timeout, the
// exit code.
func TestJudge(t *testing.T) {
	denied := passCalls{Lacks: &Stop{Detail: `denied by limit "daily"`}}
	closed := passCalls{Lacks: &Stop{Detail: "the upstream says so"}}
	for _, row := range []struct {
		name   string
		exit   Exit
		spent  passCalls
		want   Outcome
		detail string
	}{
		{"exit 0", Exit{}, passCalls{}, OK, ""},
		{"exit 0 after a denial", Exit{}, denied, Exhausted, `denied by limit "daily"`},
		{"exit 1", Exit{Code: 1}, passCalls{}, Failed, "exit status 1"},
		{"exit 1 after a denial", Exit{Code: 1}, denied, Exhausted, `denied by limit "daily"`},
		{"exit 75 without a denial", Exit{Code: 75}, passCalls{}, Exhausted, "exit status 75, without a denial"},
		{"a signal", Exit{Code: -1, Signal: "SIGSEGV"}, passCalls{}, Killed, "killed by SIGSEGV"},
		{"a signal after a denial", Exit{Code: -1, Signal: "SIGPIPE"}, denied, Exhausted, `denied by limit "daily"`},
		{"timeout, wrapped", Exit{Code: 75, Cause: fmt.Errorf("ended: %w", ErrTimeout)}, passCalls{}, Timeout, "ended: the pass reached its timeout"},
		{"timeout after a denial", Exit{Cause: ErrTimeout}, denied, Exhausted, `denied by limit "daily"; waited until its timeout`},
		{"it went on after a denial", Exit{Cause: errDenied}, denied, Exhausted, `denied by limit "daily"; ended 30s later`},
		{"it was granted as it was ended for a denial", Exit{Cause: errDenied}, passCalls{}, Exhausted, "denied; ended 30s later"},
		{"timeout after the upstream's word", Exit{Cause: ErrTimeout}, closed, Exhausted, "the upstream says so; waited until its timeout"},
		{"the upstream refuses the key, and it exits 75", Exit{Code: 75}, passCalls{Refuses: "bad key"}, Failed, "bad key"},
		{"none of its calls was made, and it exits 0", Exit{}, passCalls{Refused: 2, Why: "no route"}, Failed, "2 calls and none made: no route"},
		{"one of its calls was not made", Exit{}, passCalls{Refused: 1, Why: "no route", Served: true}, OK, ""},
		{"shutdown, and it still exits 0", Exit{Cause: ErrShutdown}, denied, Interrupted, "the daemon is stopping"},
		{"operator", Exit{Cause: ErrOperator}, passCalls{}, Interrupted, "an operator stopped the run"},
		{"could not be started", Exit{Code: -1, Err: errors.New("no such file")}, passCalls{}, Failed, "no such file"},
		{"left something running", Exit{Swept: 2}, passCalls{}, OK, "left 2 processes running, which were ended"},
		{"left what cannot be ended", Exit{Swept: 2, Left: 1}, passCalls{}, OK, "left 2 processes running, of which 1 could not be ended"},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got, detail := judge(row.exit, row.spent); got != row.want || detail != row.detail {
				t.Errorf("got %s, %q, want %s, %q", got, detail, row.want, row.detail)
			}
		})
	}
}

// The page names each outcome, each state of a run, and each reason; its table is what judge and consequence do.
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
		{"a limit denied its last call", Exit{Code: 1}, passCalls{Lacks: &Stop{Reason: BudgetGone}}},
		{"the upstream closed a limit", Exit{Cause: ErrTimeout}, passCalls{Lacks: &Stop{Reason: Closed}}},
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
	source, err := os.ReadFile("outcome.go")
	must(t, err)
	states := regexp.MustCompile(`(?m)^\t\w+ +(?:Outcome|Reason|RunState) += "([a-z_]+)"`).FindAllSubmatch(source, -1)
	if len(states) < 25 {
		t.Errorf("found %d states, outcomes and reasons; they are declared elsewhere", len(states))
	}
	for _, state := range states {
		if !regexp.MustCompile(`\b` + string(state[1]) + `\b`).Match(text) {
			t.Errorf("the page does not say when it is %s", state[1])
		}
	}
}

func TestWhatTheGateSays(t *testing.T) {
	tomorrow := time.Date(2026, 11, 23, 9, 0, 0, 0, time.UTC)
	for _, row := range []struct {
		reason    quota.Reason
		spokenFor bool
		want      Stop
	}{
		{quota.LimitExceeded, false, Stop{Reason: DoesNotFit, Detail: "no room"}},
		{quota.LimitExceeded, true, Stop{Reason: DoesNotFit, Detail: "no room, with the passes under way"}},
		{quota.LimitClosed, false, Stop{Reason: Closed, Detail: "no room"}},
		{quota.CostExceedsLimit, true, Stop{Reason: DoesNotFit, Detail: "a pass with those under way expects 8 units, more than limit daily ever has: it fits when they are over"}},
	} {
		row.want.Limit, row.want.RetryAt = "daily", tomorrow
		if got := refusal(quota.Decision{Reason: row.reason, Limit: "daily", Units: 8, Detail: "no room", RetryAt: tomorrow}, row.spokenFor, nil); got != row.want {
			t.Errorf("got %+v, want %+v", got, row.want)
		}
	}
}

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
// exit code. The page has a table of it, and names each outcome, each state of a run, and each reason.
func TestJudge(t *testing.T) {
	const page = "README.md"
	denied := passCalls{Lacks: &Stop{Reason: BudgetGone, Detail: `denied by limit "daily"`}}
	closed := passCalls{Lacks: &Stop{Reason: Closed, Detail: "the upstream says so"}}
	var table strings.Builder
	for _, row := range []struct {
		onPage bool
		name   string
		exit   Exit
		spent  passCalls
		want   Outcome
		detail string
	}{
		{true, "it did not start", Exit{Code: -1, Err: errors.New("no such file")}, passCalls{}, Failed, "no such file"},
		{true, "`quotactl stop`", Exit{Cause: ErrOperator}, passCalls{}, Interrupted, "an operator stopped the run"},
		{true, "quotad stops", Exit{Cause: ErrShutdown}, denied, Interrupted, "the daemon is stopping"},
		{true, "a limit denied its last call", Exit{Code: 1}, denied, Exhausted, `denied by limit "daily"`},
		{true, "the upstream closed a limit", Exit{Cause: ErrTimeout}, closed, Exhausted, "the upstream says so; waited until its timeout"},
		{true, "it reached its timeout", Exit{Code: 75, Cause: fmt.Errorf("ended: %w", ErrTimeout)}, passCalls{}, Timeout, "ended: the pass reached its timeout"},
		{true, "the upstream refuses the key", Exit{Code: 75}, passCalls{Refuses: "bad key"}, Failed, "bad key"},
		{true, "the upstream refused calls, and none was made", Exit{}, passCalls{Refused: 2, Why: "no route"}, Failed, "2 calls and none made: no route"},
		{true, "exit 75", Exit{Code: ExitExhausted}, passCalls{}, Exhausted, "exit status 75, without a denial"},
		{true, "a signal", Exit{Code: -1, Signal: "SIGSEGV"}, passCalls{}, Killed, "killed by SIGSEGV"},
		{true, "exit 1 to 255", Exit{Code: 1}, passCalls{}, Failed, "exit status 1"},
		{true, "exit 0", Exit{}, passCalls{}, OK, ""},
		{false, "exit 0 after a denial", Exit{}, denied, Exhausted, `denied by limit "daily"`},
		{false, "a signal after a denial", Exit{Code: -1, Signal: "SIGPIPE"}, denied, Exhausted, `denied by limit "daily"`},
		{false, "timeout after a denial", Exit{Cause: ErrTimeout}, denied, Exhausted, `denied by limit "daily"; waited until its timeout`},
		{false, "it went on after a denial", Exit{Cause: errDenied}, denied, Exhausted, `denied by limit "daily"; ended 30s later`},
		{false, "it was granted as it was ended for a denial", Exit{Cause: errDenied}, passCalls{}, Exhausted, "denied; ended 30s later"},
		{false, "one of its calls was not made", Exit{}, passCalls{Refused: 1, Why: "no route", Served: true}, OK, ""},
		{false, "left something running", Exit{Swept: 2}, passCalls{}, OK, "left 2 processes running, which were ended"},
		{false, "left what cannot be ended", Exit{Swept: 2, Left: 1}, passCalls{}, OK, "left 2 processes running, of which 1 could not be ended"},
	} {
		outcome, detail := judge(row.exit, row.spent)
		if outcome != row.want || detail != row.detail {
			t.Errorf("%s: got %s, %q, want %s, %q", row.name, outcome, detail, row.want, row.detail)
		}
		then := "continues"
		if outcome == Exhausted {
			then = "waits up to max_wait, or ends: " + string(BudgetGone)
		} else if err := (&executor{job: &Job{Name: "fetch"}}).consequence(&Pass{Outcome: outcome}, row.exit, row.spent); err != nil {
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
		if row.onPage {
			fmt.Fprintf(&table, "| %s | %s | %s | %s |\n", row.name, outcome, turn, then)
		}
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
		t.Errorf("%s is not what judge says: go test ./jobs -run TestJudge -update", page)
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

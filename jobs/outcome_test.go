package jobs

import (
	"errors"
	"fmt"
	"testing"
)

// What ended a pass counts in this order: a person or a stop, a refusal, ours or the upstream's, our timeout, the
// exit code.
func TestJudge(t *testing.T) {
	denied := passCalls{Denied: true, Limit: "daily"}
	for _, test := range []struct {
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
		{"exit 75 after a denial", Exit{Code: 75}, denied, Exhausted, `denied by limit "daily"`},
		{"exit 75 without a denial", Exit{Code: 75}, passCalls{}, Exhausted, "exit status 75, without a denial"},
		{"a signal", Exit{Code: -1, Signal: "SIGSEGV"}, passCalls{}, Killed, "killed by SIGSEGV"},
		{"a signal after a denial", Exit{Code: -1, Signal: "SIGPIPE"}, denied, Exhausted, `denied by limit "daily"`},
		{"timeout", Exit{Code: -1, Signal: "SIGTERM", Cause: ErrTimeout}, passCalls{}, Timeout, "the pass reached its timeout"},
		{"timeout, wrapped", Exit{Cause: fmt.Errorf("ended: %w", ErrTimeout)}, passCalls{}, Timeout, "ended: the pass reached its timeout"},
		{"timeout after a denial", Exit{Cause: ErrTimeout}, denied, Exhausted, `denied by limit "daily"; waited until its timeout`},
		{"it went on after a denial", Exit{Code: -1, Signal: "SIGTERM", Cause: errDenied}, denied, Exhausted,
			`denied by limit "daily"; ended 30s later`},
		{"it was granted as it was ended for a denial", Exit{Cause: errDenied}, passCalls{}, Exhausted,
			"denied; ended 30s later"},
		{"timeout after the upstream's word", Exit{Cause: ErrTimeout}, passCalls{Closed: "daily"}, Exhausted,
			`the upstream says that limit "daily" is exhausted; waited until its timeout`},
		{"the upstream's quota is gone", Exit{Code: 1}, passCalls{Closed: "daily"}, Exhausted, `the upstream says that limit "daily" is exhausted`},
		{"the upstream refuses the key, and it exits 75", Exit{Code: 75}, passCalls{Refuses: "API key not valid"}, Failed, "API key not valid"},
		{"the upstream refuses the key, and it exits 0", Exit{}, passCalls{Refuses: "API key not valid"}, Failed, "API key not valid"},
		{"none of its calls was made, and it exits 0", Exit{}, passCalls{Refused: 2, Why: "no route"}, Failed, "2 calls and none made: no route"},
		{"one of its calls was not made", Exit{}, passCalls{Refused: 1, Why: "no route", Served: true}, OK, ""},
		{"timeout, and it still exits 75", Exit{Code: 75, Cause: ErrTimeout}, passCalls{}, Timeout, "the pass reached its timeout"},
		{"shutdown", Exit{Code: -1, Signal: "SIGKILL", Cause: ErrShutdown}, passCalls{}, Interrupted, "the daemon is stopping"},
		{"shutdown, and it still exits 0", Exit{Cause: ErrShutdown}, denied, Interrupted, "the daemon is stopping"},
		{"operator", Exit{Cause: ErrOperator}, passCalls{}, Interrupted, "an operator stopped the run"},
		{"could not be started", Exit{Code: -1, Err: errors.New("no such file")}, passCalls{}, Failed, "no such file"},
		{"left something running", Exit{Swept: 2}, passCalls{}, OK, "left 2 processes running, which were ended"},
		{"left something that cannot be ended", Exit{Swept: 2, Left: 1}, passCalls{}, OK, "left 2 processes running, of which 1 could not be ended"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, detail := judge(test.exit, test.spent)
			if got != test.want || detail != test.detail {
				t.Errorf("got %s, %q, want %s, %q", got, detail, test.want, test.detail)
			}
		})
	}
}

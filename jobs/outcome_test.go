package jobs

import (
	"errors"
	"fmt"
	"testing"
)

// The cause of our own making comes first, then our record of a denial, then the
// exit code.
func TestJudge(t *testing.T) {
	for _, test := range []struct {
		name   string
		exit   Exit
		denied bool
		want   Outcome
		detail string
	}{
		{"exit 0", Exit{}, false, OK, ""},
		{"exit 0 after a denial, or an upstream whose quota is gone", Exit{}, true, Exhausted, ""},
		{"exit 1", Exit{Code: 1}, false, Failed, "exit status 1"},
		{"exit 1 after a denial", Exit{Code: 1}, true, Exhausted, ""},
		{"exit 75 after a denial", Exit{Code: 75}, true, Exhausted, ""},
		{"exit 75 without a denial", Exit{Code: 75}, false, Exhausted, "exit status 75, without a denial"},
		{"a signal", Exit{Code: -1, Signal: "SIGSEGV"}, false, Killed, "killed by SIGSEGV"},
		{"a signal after a denial", Exit{Code: -1, Signal: "SIGPIPE"}, true, Exhausted, ""},
		{"timeout", Exit{Code: -1, Signal: "SIGTERM", Cause: ErrTimeout}, false, Timeout, "the pass reached its timeout"},
		{"timeout, wrapped", Exit{Cause: fmt.Errorf("ended: %w", ErrTimeout)}, false, Timeout, "ended: the pass reached its timeout"},
		{"timeout after a denial", Exit{Cause: ErrTimeout}, true, Timeout, "the pass reached its timeout"},
		{"timeout, and it still exits 75", Exit{Code: 75, Cause: ErrTimeout}, false, Timeout, "the pass reached its timeout"},
		{"shutdown", Exit{Code: -1, Signal: "SIGKILL", Cause: ErrShutdown}, false, Interrupted, "the daemon is stopping"},
		{"shutdown, and it still exits 0", Exit{Cause: ErrShutdown}, true, Interrupted, "the daemon is stopping"},
		{"operator", Exit{Cause: ErrOperator}, false, Interrupted, "an operator stopped the run"},
		{"could not be started", Exit{Code: -1, Err: errors.New("no such file")}, false, Failed, "no such file"},
		{"left something running", Exit{Swept: 2}, false, OK, "left 2 processes running, which were ended"},
		{"left something that cannot be ended", Exit{Swept: 2, Left: 1}, false, OK, "left 2 processes running, of which 1 could not be ended"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, detail := new(Job).judge(test.exit, test.denied)
			if got != test.want || detail != test.detail {
				t.Errorf("got %s, %q, want %s, %q", got, detail, test.want, test.detail)
			}
		})
	}
}

func TestExhaustedCodesOfAJob(t *testing.T) {
	job := &Job{ExhaustedCodes: []int{3, 99}}
	for code, want := range map[int]Outcome{0: OK, 3: Exhausted, 75: Failed, 99: Exhausted} {
		if got, _ := job.judge(Exit{Code: code}, false); got != want {
			t.Errorf("exit %d: got %s, want %s", code, got, want)
		}
	}
}

func TestWhatAnOutcomeMeans(t *testing.T) {
	for _, test := range []struct {
		outcome         Outcome
		served, failure bool
	}{
		{Running, false, false},
		{OK, true, false},
		{Exhausted, false, false},
		{Failed, true, true},
		{Timeout, true, true},
		{Killed, true, true},
		{Interrupted, false, false},
		{Skipped, false, false},
	} {
		if got := test.outcome.Served(); got != test.served {
			t.Errorf("%s: served is %v, want %v", test.outcome, got, test.served)
		}
		if got := test.outcome.Failure(); got != test.failure {
			t.Errorf("%s: failure is %v, want %v", test.outcome, got, test.failure)
		}
	}
}

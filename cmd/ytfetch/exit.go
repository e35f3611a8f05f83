package main

import (
	"errors"
	"fmt"
	"io"
)

// Exit codes; sysexits.h names those from 64 to 78. The usage text explains them.
const (
	exitOK            = 0
	exitFailed        = 1   // retrying later may help, or the message says why not
	exitUsage         = 64  // the command line or the environment makes no sense
	exitUnavailable   = 69  // quotad cannot be reached, or cannot decide: 503
	exitDenied        = 75  // the budget is gone, by quotad's books or by upstream's
	exitConfiguration = 78  // a key, a region or quotad's config has to be changed
	exitInterrupted   = 143 // SIGTERM or SIGINT
)

// A failure ends the process: with which exit code, why, and what would help.
type failure struct {
	code int
	err  error
	hint string // the cure; empty where none is known
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func fail(code int, err error) *failure { return &failure{code: code, err: err} }

// report prints how the process ends and returns its exit code. A denial and an
// interruption are ends like any other, not errors.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	f := fail(exitFailed, err)
	errors.As(err, &f)
	if f.code == exitDenied || f.code == exitInterrupted {
		fmt.Fprintf(stderr, "ytfetch: stopped: %v\n", err)
	} else {
		fmt.Fprintf(stderr, "ytfetch: error: %v\n", err)
	}
	if f.hint != "" {
		fmt.Fprintf(stderr, "ytfetch: hint: %s\n", f.hint)
	}
	return f.code
}

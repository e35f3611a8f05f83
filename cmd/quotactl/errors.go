package main

import (
	"errors"
	"fmt"
	"strings"

	"quotad/cmd/quotactl/term"
)

// The exit codes, part of the contract with scripts.
const (
	exitOK          = 0
	exitError       = 1
	exitUsage       = 2
	exitUnreachable = 3  // no daemon answers
	exitNotFound    = 4  // the daemon does not know the name or the id
	exitDenied      = 75 // EX_TEMPFAIL: the budget is gone for now
)

// A failure is an error with the exit code it stands for and, where the cure is
// known, a hint.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func usageError(hint, format string, args ...any) error {
	return &failure{code: exitUsage, err: fmt.Errorf(format, args...), hint: hint}
}

// report tells an error to people and returns the exit code for scripts.
func (c *cli) report(err error) int {
	if err == nil {
		return exitOK
	}
	f := &failure{code: exitError, err: err}
	errors.As(err, &f)
	v := term.View{UTF8: c.env.IsUTF8()}
	// Joined errors stand on lines of their own.
	message := strings.ReplaceAll(err.Error(), "\n", "; ")
	fmt.Fprintf(c.stderr, "quotactl: error: %s\n", v.Clean(message))
	if f.hint != "" {
		fmt.Fprintf(c.stderr, "quotactl: hint: %s\n", v.Clean(f.hint))
	}
	return f.code
}

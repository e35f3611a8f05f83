// Command ytfetch is the reference fetch job: it fetches videos of one region from the YouTube Data API, and asks
// quotad before every call. ytsearch finds what it fetched.
//
// pass.go fetches: trending goes through the pages of a chart, discover makes a search and lists what it found. For
// each call a pass acquires, calls upstream (youtube.go), releases the grant of a call that was never sent, and reports
// an answer that is an error to quotad, which judges it (call.go). Package upstream is a sample of the API: for
// --sample, for tests, and over HTTP (serve.go).
//
// A pass writes two files. lines.go appends each page to OUT/DAY-REGION.jsonl, one video a line, and syncs it. Then
// place.go replaces DIR/COMMAND-REGION.page, which says where the next pass of the region continues. If a pass is
// killed between the two, the next one fetches that page again. Passes that append to the same file at the same time
// wait for each other by flock(2). There are no other locks, and no goroutines.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"quotad/cmd/manual"
	"quotad/quota/api"
)

//go:embed usage.txt
var usage string

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	err := run(ctx, os.Args[1:])
	stop()
	os.Exit(report(os.Stderr, err))
}

func run(ctx context.Context, args []string) error {
	if len(args) == 0 {
		return misused("missing command: trending, discover or serve")
	}
	switch name, args := args[0], args[1:]; name {
	case "trending", "discover":
		p, err := newPass(name, args, os.Stderr)
		if err != nil {
			return err
		}
		return p.run(ctx)
	case "serve":
		return serve(ctx, args, os.Stderr)
	case "man":
		fmt.Print(manual.OfUsage(1, api.BuildVersion(), usage, "ytsearch(1)", "quotad(8)", "quotactl(1)"))
		return nil
	case "help", "-h", "-help", "--help":
		return flag.ErrHelp
	default:
		return misused("unknown command %q: it is trending, discover or serve", name)
	}
}

// Exit codes. The usage text explains them.
const (
	exitFailed      = 1
	exitUsage       = 64
	exitDenied      = 75
	exitInterrupted = 143
)

// A failure ends the process: with which exit code, why, and what would help, if that is known.
type failure struct {
	code int
	err  error
	hint string
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func misused(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...), "see ytfetch --help"}
}

// report prints how the process ends and returns its exit code. A denial and an interruption are ends like any other,
// not errors.
func report(stderr io.Writer, err error) int {
	if err == nil {
		return 0
	} else if errors.Is(err, flag.ErrHelp) {
		fmt.Print(usage)
		return 0
	}
	f, kind := &failure{code: exitFailed}, "error"
	if errors.As(err, &f); f.code == exitDenied || f.code == exitInterrupted {
		kind = "stopped"
	}
	fmt.Fprintf(stderr, "ytfetch: %s: %v\n", kind, err)
	if f.hint != "" {
		fmt.Fprintf(stderr, "ytfetch: hint: %s\n", f.hint)
	}
	return f.code
}

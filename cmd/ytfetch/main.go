package main

import (
	"context"
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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run runs one command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := command(ctx, args, stdout, stderr)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	return report(stderr, err)
}

func command(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	if len(args) == 0 {
		return misused("missing command: trending, discover, search or serve")
	}
	switch name, args := args[0], args[1:]; name {
	case "trending", "discover":
		o, err := parseOptions(name, args)
		if err != nil {
			return err
		}
		return newPass(o, stderr).start(ctx)
	case "search":
		return search(ctx, args, stdout)
	case "serve":
		return serve(ctx, args, stderr)
	case "show", "stats":
		return misused("%s is gone: any SQLite program reads videos.db (sqlite3 videos.db 'SELECT * FROM places')", name)
	case "purge":
		return misused("purge is gone: each pass removes what is older than its --retain")
	case "man":
		_, err := fmt.Fprint(stdout, manual.OfUsage(1, api.BuildVersion(), usage, "quotad(8)", "quotactl(1)"))
		return err
	case "help", "-h", "-help", "--help":
		return flag.ErrHelp
	default:
		return misused("unknown command %q: it is trending, discover, search or serve", name)
	}
}

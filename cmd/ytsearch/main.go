// Command ytsearch finds videos among those that ytfetch fetched. index.go brings what is new in a directory of lines
// into its SQLite file, search.go finds words there.
//
// It writes DIR/ytsearch.db: of each video one row, and an index of the words in its texts. It is a projection of the
// lines: if you remove it, the next search makes it again, and what was in files that are gone leaves it. Any number of
// processes may use it: one brings in, and others wait. There are no locks of ours, and no goroutines.
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
	"strings"
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
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Print(usage)
	case errors.Is(err, errUsage):
		fmt.Fprintf(os.Stderr, "ytsearch: error: %v\nytsearch: hint: see ytsearch --help\n", err)
		os.Exit(64)
	case err != nil:
		fmt.Fprintln(os.Stderr, "ytsearch: error:", err)
		os.Exit(1)
	}
}

var errUsage = errors.New("cannot search")

func misused(format string, args ...any) error {
	return fmt.Errorf("%w: "+format, append([]any{errUsage}, args...)...)
}

func run(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("ytsearch", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	region, limit := flags.String("region", "", ""), flags.Int("limit", 20, "")
	var words []string
	err := flags.Parse(args)
	for ; err == nil && flags.NArg() > 0; err = flags.Parse(flags.Args()[1:]) {
		words = append(words, flags.Arg(0))
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return err
	case err != nil:
		return misused("%v", err)
	case len(words) == 1 && words[0] == "man":
		fmt.Print(manual.OfUsage(1, api.BuildVersion(), usage, "ytfetch(1)", "quotad(8)"))
		return nil
	case len(words) < 2:
		return misused("name the directory in which ytfetch writes, and words")
	case *limit < 1:
		return misused("--limit must be at least 1: %d", *limit)
	}
	only := words[0] == "index" && len(words) == 2
	if only {
		words = words[1:]
	}
	db, err := openIndex(ctx, words[0])
	if err != nil {
		return err
	}
	defer db.Close()
	if only {
		return nil
	}
	return search(ctx, db, strings.Join(words[1:], " "), strings.ToUpper(*region), *limit)
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/ytfetch/store"
)

// A reader runs a command on what is stored, without quotad and without upstream.
type reader struct {
	dir    string       // where it is stored
	file   *store.Store // nil: purge finds none
	format string       // table or json
	out    io.Writer
	stderr io.Writer
	stdin  io.Reader
	view   term.View
	now    time.Time

	region string
	since  time.Duration
	limit  int
	page   int
	by     string
	retain time.Duration
	dry    bool // nothing is purged
	yes    bool // without asking
}

// What a reader prints.
const (
	formatTable = "table"
	formatJSON  = "json"
)

// local runs search, show, stats and purge.
func local(ctx context.Context, name string, args []string, stdout, stderr io.Writer) error {
	now := time.Now()
	r := &reader{out: stdout, stderr: stderr, stdin: os.Stdin, now: now, view: term.NewView(now, stdout, "auto", false)}
	words, err := r.parse(name, args)
	if err != nil {
		return err
	}
	if err := becomeOwner(filepath.Join(r.dir, store.FileName)); err != nil {
		return err
	}
	r.file, err = store.OpenExisting(r.dir)
	switch {
	case err == nil:
		defer r.file.Close()
	case name != "purge" || !errors.Is(err, fs.ErrNotExist): // there may be JSON lines
		return err
	}
	err = map[string]func(context.Context, []string) error{"search": r.search, "show": r.show, "stats": r.stats, "purge": r.purge}[name](ctx, words)
	if err != nil && ctx.Err() != nil {
		return fail(exitInterrupted, errors.New("interrupted"))
	}
	return err
}

// parse reads the command line, and finds what is stored.
func (r *reader) parse(name string, args []string) (words []string, err error) {
	flags := newFlags()
	flags.StringVar(&r.dir, "out", "", "")
	flags.StringVar(&r.format, "o", formatTable, "")
	switch name {
	case "search":
		flags.StringVar(&r.region, "region", "", "")
		spanVar(flags, &r.since, "since", 0)
		flags.IntVar(&r.limit, "limit", defaultLimit, "")
		flags.IntVar(&r.page, "page", 1, "")
		flags.StringVar(&r.by, "by", string(store.ByRelevance), "")
	case "purge":
		spanVar(flags, &r.retain, "retain", defaultRetain)
		flags.BoolVar(&r.dry, "dry-run", false, "")
		flags.BoolVar(&r.yes, "yes", false, "")
	}
	if words, err = parseArgs(flags, args); err != nil {
		return nil, err
	}
	switch {
	case r.format != formatTable && r.format != formatJSON:
		return nil, misused("-o must be %s or %s: %q", formatTable, formatJSON, r.format)
	case len(words) > 0 && (name == "stats" || name == "purge"):
		return nil, misused("unexpected argument %q", words[0])
	case r.dir == "":
		r.dir, err = findStored()
	}
	return words, err
}

// findStored looks for a file where it is when jobs ran in this directory, in that of a
// quotad of this directory, and in that of the service.
func findStored() (dir string, err error) {
	for _, pattern := range []string{".", ".quotad/data/*", "/var/lib/quotad/data/*"} {
		files, err := filepath.Glob(filepath.Join(pattern, store.FileName))
		switch {
		case err != nil:
			return "", err
		case len(files) == 1:
			return filepath.Dir(files[0]), nil
		case len(files) > 1:
			return "", &failure{exitUsage, fmt.Errorf("several jobs have stored something: %s", strings.Join(files, ", ")), "name the directory of one with --out"}
		}
	}
	return "", &failure{exitFailed, errors.New("nothing is stored here: there is no " + store.FileName), "name the directory that holds one with --out; ytfetch trending and discover make it"}
}

// becomeOwner makes root the user who owns the file. SQLite creates files next to it while it
// reads; if they were root's, the owner could not write until they are gone.
func becomeOwner(file string) error {
	info, err := os.Stat(file)
	if err != nil || os.Geteuid() != 0 {
		return nil // opening it says what is wrong
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return nil
	}
	if err := errors.Join(syscall.Setgroups(nil), syscall.Setegid(int(owner.Gid)), syscall.Seteuid(int(owner.Uid))); err != nil {
		return fmt.Errorf("cannot become the owner of %q: %w", file, err)
	}
	return nil
}

// print writes a value as JSON, or as lines for people.
func (r *reader) print(value any, people func(*strings.Builder)) error {
	if r.format == formatJSON {
		encoder := json.NewEncoder(r.out)
		encoder.SetIndent("", "  ")
		encoder.SetEscapeHTML(false)
		return encoder.Encode(value)
	}
	var text strings.Builder
	people(&text)
	_, err := io.WriteString(r.out, text.String())
	return err
}

// minRetain is the shortest retention that needs no question.
const minRetain = 24 * time.Hour

// purge removes what is too old.
func (r *reader) purge(ctx context.Context, _ []string) error {
	if r.retain == 0 {
		return misused("--retain must be longer than nothing")
	}
	before := r.now.Add(-r.retain)
	if r.dry || r.retain < minRetain && !r.yes {
		would, err := purge(ctx, r.file, r.dir, before, true)
		if err != nil {
			return err
		}
		if r.dry {
			return r.print(would, func(b *strings.Builder) { fmt.Fprintf(b, "would be removed: %v\n", would) })
		}
		what := fmt.Sprintf("This removes %v, all that is older than %s", would, days(r.retain))
		switch {
		case !term.IsTerminal(r.stdin):
			return misused("%s: add --yes, or look at it with --dry-run", what)
		case !term.Ask(r.stdin, r.stderr, what+". Continue?"):
			return errors.New("nothing was removed")
		}
	}
	gone, err := purge(ctx, r.file, r.dir, before, false)
	if err != nil {
		return fmt.Errorf("%w; removed so far: %v", err, gone)
	}
	return r.print(gone, func(b *strings.Builder) { fmt.Fprintf(b, "removed: %v\n", gone) })
}

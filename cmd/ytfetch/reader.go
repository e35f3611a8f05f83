package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"quotad/cmd/quotactl/term"
	"quotad/cmd/ytfetch/store"
)

// A reader is a search of what is stored.
type reader struct {
	dir    string // where it is stored
	file   *store.Store
	format string // "table" or "json"
	out    io.Writer
	view   term.View
	now    time.Time

	region string
	since  time.Duration
	limit  int
	page   int
	by     string
}

// parse reads the command line, and finds what is stored.
func (r *reader) parse(args []string) (words []string, err error) {
	flags := newFlags()
	flags.StringVar(&r.dir, "out", "", "")
	flags.StringVar(&r.format, "o", "table", "")
	flags.StringVar(&r.region, "region", "", "")
	spanVar(flags, &r.since, "since", 0)
	flags.IntVar(&r.limit, "limit", defaultLimit, "")
	flags.IntVar(&r.page, "page", 1, "")
	flags.StringVar(&r.by, "by", string(store.ByRelevance), "")
	if words, err = parseArgs(flags, args); err != nil {
		return nil, err
	}
	switch {
	case r.format != "table" && r.format != "json":
		return nil, misused("-o must be table or json: %q", r.format)
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

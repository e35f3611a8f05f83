package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"quotad/cmd/quotad/config"
	"quotad/jobs/process"
)

// The exit codes of quotad.
const (
	exitOK     = 0
	exitError  = 1
	exitUsage  = 2
	exitConfig = 78 // EX_CONFIG
)

func main() {
	process.Enter()
	// zerolog has no other setting for it. Seconds are too coarse to show the order of events.
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	if err := closeToOthers(); err != nil {
		os.Exit(fail(os.Stderr, err))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// closeToOthers denies other processes of our user access to our memory, environment
// and descriptors: jobs may be processes of our user. Programs that we execute are not
// protected, see PR_SET_DUMPABLE(2const).
func closeToOthers() error {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return fmt.Errorf("cannot close quotad's memory to other processes: %w", err)
	}
	return nil
}

func run(args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprint(stdout, usage)
		return exitOK
	case err != nil:
		fmt.Fprintf(stderr, "quotad: error: %v\nquotad: hint: see quotad --help\n", err)
		return exitUsage
	}
	if o.prints != nil {
		fmt.Fprint(stdout, o.prints())
		return exitOK
	}
	systemd, err := readSystemd()
	stderr = asJournal(stderr, systemd.journalStream)
	if err != nil {
		return fail(stderr, err)
	}
	o.config = cmp.Or(o.config, defaultConfig())
	if o.check {
		return check(o, systemd, stdout, stderr)
	}
	c, err := load(o.config, systemd.host())
	if err != nil {
		return cannotStart(stderr, systemd, err, exitConfig)
	}
	d := newDaemon(c, o, systemd, stderr)
	if err := d.run(); err != nil {
		return cannotStart(stderr, systemd, err, exitError)
	}
	d.log.Info().Msg("stopped")
	return exitOK
}

// cannotStart ends quotad: systemctl status shows the reason, beside its last lines of the log.
func cannotStart(stderr io.Writer, s systemd, err error, code int) int {
	fail(stderr, err)
	_ = s.notify("STATUS=" + firstLine(err.Error())) // the log has it
	return code
}

// fail prints an error. Each error of the configuration has a line of its own,
// where editors find the file and the line.
func fail(stderr io.Writer, err error) int {
	var wrong config.Errors
	if errors.As(err, &wrong) {
		fmt.Fprintln(stderr, wrong)
	} else {
		fmt.Fprintf(stderr, "quotad: error: %v\n", err)
		if cure := cureOf(err); cure != "" {
			fmt.Fprintf(stderr, "quotad: hint: %s\n", cure)
		}
	}
	return exitError
}

// load reads a configuration for a host, to which it adds the programs and the time.
func load(file string, host config.Host) (*config.Config, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find the program file of quotad: %w", err)
	}
	host.Programs, host.Now = filepath.Dir(program), time.Now()
	c, err := config.Load(file, host)
	if file == localConfig && errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: quotad reads ./%s, else %s; name another file by --config", err, localConfig, systemConfig)
	}
	return c, err
}

// defaultConfig returns the first default path at which a file exists, else the local one.
func defaultConfig() string {
	if _, err := os.Stat(localConfig); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(systemConfig); err == nil {
			return systemConfig
		}
	}
	return localConfig
}

// cures has the cures of errors of the system. Other errors name their cure themselves.
var cures = [...]struct {
	err  error
	cure string
}{
	{syscall.EADDRINUSE, "stop what listens there (ss -ltnp shows it), or change the address in the configuration"},
	{syscall.EADDRNOTAVAIL, "change the address in the configuration to one that this host has"},
	{syscall.ENOSPC, "make room on the disk that holds it"},
	{syscall.EDQUOT, "make room within the disk quota of quotad's user"},
	{syscall.EROFS, "mount the file system for writing; under systemd the state is in StateDirectory= or ReadWritePaths="},
	{syscall.EIO, "the disk fails: read the kernel's log (journalctl -k)"},
}

// cureOf returns what can be done about an error of the system; "" if nothing is known.
func cureOf(why error) string {
	var of *fs.PathError
	if errors.Is(why, fs.ErrPermission) && errors.As(why, &of) {
		return fmt.Sprintf("give it to the user that quotad runs as: chown %s: %s", process.NameOf(os.Geteuid()), of.Path)
	}
	for _, c := range cures {
		if errors.Is(why, c.err) {
			return c.cure
		}
	}
	return ""
}

func firstLine(text string) string {
	first, rest, more := strings.Cut(text, "\n")
	if more {
		return fmt.Sprintf("%s (and %d more)", first, strings.Count(rest, "\n")+1)
	}
	return first
}

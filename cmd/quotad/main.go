package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"quotad/jobs/process"
)

func main() {
	process.Enter()
	// zerolog has no other setting for it. Seconds are too coarse to show the order of events.
	zerolog.TimeFieldFormat = "2006-01-02T15:04:05.000Z07:00"
	// Other processes of our user, such as jobs, are denied access to our memory, environment and descriptors. Programs
	// that we execute are not protected, see PR_SET_DUMPABLE(2const).
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		printError(os.Stderr, fmt.Errorf("cannot close quotad's memory to other processes: %w", err))
		os.Exit(exitError)
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
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
	case o.prints != "":
		fmt.Fprint(stdout, o.prints)
		return exitOK
	}
	systemd, err := readSystemd()
	stderr = asJournal(stderr, systemd.journalStream)
	if err != nil {
		printError(stderr, err)
		return exitError
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
	printError(stderr, err)
	_ = s.notify("STATUS=" + firstLine(err.Error())) // the log has it
	return code
}

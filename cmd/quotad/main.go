package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"quotad/cmd/quotad/config"
	"quotad/jobs/process"
	"quotad/quota/api"
	"quotad/quota/server"
)

// The exit codes of quotad.
const (
	exitOK     = 0
	exitError  = 1
	exitUsage  = 2
	exitConfig = 78 // EX_CONFIG: systemd does not restart us for it
)

func main() {
	process.Enter()
	if err := closeToOthers(); err != nil {
		os.Exit(fail(os.Stderr, err))
	}
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// closeToOthers keeps every other process of our user from our memory, environment
// and descriptors: jobs may be processes of our user. What we execute is open again,
// see PR_SET_DUMPABLE(2const).
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
		fmt.Fprintf(stderr, "quotad: error: %v\nquotad: hint: quotad --help tells how it is used\n", err)
		return exitUsage
	case o.version:
		fmt.Fprintln(stdout, "quotad", api.BuildVersion())
		return exitOK
	}
	if o.presets {
		fmt.Fprint(stdout, config.PresetFiles())
		return exitOK
	}
	systemd, err := takeSystemd()
	stderr = asJournal(stderr, systemd.journalStream)
	if err != nil {
		return fail(stderr, err)
	}
	o.config = cmp.Or(o.config, defaultConfig())
	read := func() (*config.Config, error) { return load(o.config, systemd) }
	c, err := read()
	if err != nil {
		fail(stderr, err)
		if systemd.api != nil && !o.check {
			turnAway(systemd.api, stderr)
		}
		return exitConfig
	}
	if o.check {
		return check(c, o.strict, stdout, stderr)
	}
	if err := serve(o, c, read, systemd, newLogger(stderr, c.LogLevel)); err != nil {
		return fail(stderr, err)
	}
	return exitOK
}

// turnAway answers those who wait at the socket: as long as one does, systemd starts
// a service again that has ended, until its start limit.
func turnAway(l net.Listener, stderr io.Writer) {
	why := api.NewProblem(api.BadConfiguration, "quotad cannot start: its configuration is not good")
	if err := server.TurnAway(l, why); err != nil {
		fail(stderr, fmt.Errorf("cannot answer those who wait at the socket: %w", err))
	}
}

// fail prints an error. Those of the configuration stand alone on their lines,
// where editors find the file and the line.
func fail(stderr io.Writer, err error) int {
	var wrong config.Errors
	if errors.As(err, &wrong) {
		fmt.Fprintln(stderr, wrong)
	} else {
		fmt.Fprintf(stderr, "quotad: error: %v\n", err)
	}
	return exitError
}

func load(file string, systemd systemd) (*config.Config, error) {
	program, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot tell where quotad itself is: %w", err)
	}
	return config.Load(file, config.Host{
		StateDirectory: systemd.stateDirectory, PassesUser: systemd.passesUser, Programs: filepath.Dir(program), Now: time.Now(),
	})
}

// defaultConfig returns the first of the default places in which something stands.
func defaultConfig() string {
	if _, err := os.Stat(localConfig); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(systemConfig); err == nil {
			return systemConfig
		}
	}
	return localConfig
}

package main

import (
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"quotad/cmd/manual"
	"quotad/cmd/quotad/config"
	"quotad/quota/api"
)

const (
	localConfig  = "config.toml"
	systemConfig = "/etc/quotad/config.toml"
)

const usage = `quotad - one budget for everyone who calls a metered API

Usage:
  quotad [--config FILE] [--accept-new-ledger]
                                   run until SIGTERM or SIGINT
  quotad --check [--strict] [--config FILE]
                                   print what is wrong with the configuration or
                                   the state, or what the schedule asks of each
                                   limit, and exit; nothing is changed
  quotad --presets [NAME]          print the names of the presets, or one of them:
                                   what quotad knows of a provider
  quotad --reference[=man|schema]
                                   print every key of the configuration with its
                                   type, default, meaning and an example
  quotad --man                     print this text as the manual page quotad(8)
  quotad --version

Flags:
  --config FILE   the configuration (default ./config.toml, then
                  /etc/quotad/config.toml)
  --accept-new-ledger
                  continue with the embedded ledger that is there, though it is
                  new, another one, or older than it was: what it does not know
                  is granted again
  --strict        a schedule that does not fit its limits is an error, not a
                  warning, and so is what Redis lacks; a write there is tried

quotad logs to stderr: lines to read on a terminal, JSON elsewhere. On SIGTERM it
starts nothing more and lets the passes under way finish, for as long as drain
allows; then it asks them to end, and kills those that last 10 seconds more.
A second SIGTERM ends them at once.

On SIGHUP, as on quotactl reload, it reads its configuration again.

If it cannot start, it says why and exits. A ledger that is away or a full disk do not
keep it from starting: quotactl status shows what is wrong.

Exit codes:
  0   stopped as asked; or the configuration and the state are good
  1   cannot start with the ports and the state that are there, or had to stop; with
      --strict, there are warnings
  2   wrong command line
  78  the configuration is not good

Example: check a file, then run it
  $ quotad --check --config config.toml
  $ quotad --config config.toml
`

// Options are the flags of the command line.
type options struct {
	config string // a path; empty: the default ones
	check  bool
	strict bool   // warnings are errors; only with check
	prints string // what quotad is to print about itself; empty: it runs
	// acceptLedger continues with an embedded ledger that is not the one that was here.
	acceptLedger bool
}

func parseOptions(args []string) (o options, err error) {
	flags := flag.NewFlagSet("quotad", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints the error, or the usage
	flags.StringVar(&o.config, "config", "", "")
	flags.BoolVar(&o.check, "check", false, "")
	flags.BoolVar(&o.strict, "strict", false, "")
	flags.BoolVar(&o.acceptLedger, "accept-new-ledger", false, "")
	version, man, presets := flags.Bool("version", false, ""), flags.Bool("man", false, ""), flags.Bool("presets", false, "")
	flags.BoolFunc("reference", "", func(form string) (err error) {
		o.prints, err = reference(form)
		return err
	})
	err = flags.Parse(args)
	switch {
	case err != nil:
	case *presets && flags.NArg() < 2:
		o.prints, err = config.PresetText(flags.Arg(0))
	case flags.NArg() > 0:
		err = fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case o.strict && !o.check:
		err = errors.New("--strict works only with --check")
	case *version:
		o.prints = "quotad " + api.BuildVersion() + "\n"
	case *man:
		o.prints = manual.OfUsage(8, api.BuildVersion(), usage, "quotactl(1)", "ytfetch(1)", "quotad.toml(5)")
	}
	return o, err
}

//go:embed REFERENCE.md
var referencePage string // the tests of config write it from its tables, and the schema

//go:embed config/quotad.schema.json
var referenceSchema string

// reference returns a form of the reference; "true" stands for a flag without a value.
func reference(form string) (string, error) {
	switch form {
	case "true":
		return referencePage, nil
	case "schema":
		return referenceSchema, nil
	case "man":
		text := "quotad.toml - the configuration of quotad\n\n" + referencePage
		return manual.OfUsage(5, api.BuildVersion(), text, "quotad(8)", "quotactl(1)"), nil
	}
	return "", errors.New("write --reference, --reference=man or --reference=schema")
}

// defaultConfig returns the first default path at which a file exists, else the local one.
func defaultConfig() string {
	if !exists(localConfig) && exists(systemConfig) {
		return systemConfig
	}
	return localConfig
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
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

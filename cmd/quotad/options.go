package main

import (
	"errors"
	"flag"
	"fmt"
	"io"

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
	strict bool // warnings are errors; only with check
	// prints returns what quotad is to print about itself; nil: it runs.
	prints func() string
	// acceptLedger continues with an embedded ledger that is not the one that was here.
	acceptLedger bool
}

// references has the forms of the reference; "true" stands for a flag without a value.
var references = map[string]func() string{
	"true": config.ReferenceText, "schema": config.ReferenceSchema,
	"man": func() string {
		return manual.OfUsage(5, api.BuildVersion(), "quotad.toml - the configuration of quotad\n\n"+config.ReferenceText(), "quotad(8)", "quotactl(1)")
	},
}

func parseOptions(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("quotad", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // run prints the error, or the usage
	flags.StringVar(&o.config, "config", "", "")
	flags.BoolVar(&o.check, "check", false, "")
	flags.BoolVar(&o.strict, "strict", false, "")
	prints := func(flag string, what func() string) {
		flags.BoolFunc(flag, "", func(string) error { o.prints = what; return nil })
	}
	prints("version", func() string { return "quotad " + api.BuildVersion() + "\n" })
	presets := false
	flags.BoolFunc("presets", "", func(string) error { presets = true; return nil })
	prints("man", func() string {
		return manual.OfUsage(8, api.BuildVersion(), usage, "quotactl(1)", "ytfetch(1)", "quotad.toml(5)")
	})
	flags.BoolFunc("reference", "", func(form string) error {
		if o.prints = references[form]; o.prints == nil {
			return errors.New("write --reference, --reference=man or --reference=schema")
		}
		return nil
	})
	flags.BoolVar(&o.acceptLedger, "accept-new-ledger", false, "")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	if presets && flags.NArg() < 2 {
		text, err := config.PresetText(flags.Arg(0))
		o.prints = func() string { return text }
		return o, err
	}
	if flags.Arg(0) == "init" {
		return o, errors.New("quotad init is gone: begin with the ten lines of the README, and enforce = false in each limit")
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	if o.strict && !o.check {
		return o, errors.New("--strict works only with --check")
	}
	if o.acceptLedger && o.check {
		return o, errors.New("--accept-new-ledger works only without --check")
	}
	return o, nil
}

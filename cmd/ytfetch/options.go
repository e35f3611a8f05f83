package main

import (
	"flag"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"
)

const googleAPI = "https://www.googleapis.com/youtube/v3"

// Options are what the command line and the environment ask for.
type options struct {
	region   string // ISO 3166-1 alpha-2
	baseURL  string
	key      string // the secret; never printed, never stored
	out      string // directory below which pages are stored
	pages    int    // at most; 0: all there are
	sample   bool
	bookmark string    // where the last pass stopped; empty: none
	slot     time.Time // the scheduled time of the run
	deadline time.Time // when quotad ends the pass; zero: never

	credential string // outside a pass; a pass's token names its own
}

// parseOptions reads the command line, and from the environment what it leaves
// open. Its errors are failures, or flag.ErrHelp.
func parseOptions(args []string, getenv func(string) string) (options, error) {
	o, err := parseFlags(args, getenv("QUOTAD_REGION"))
	if err != nil {
		return o, err
	}
	o.credential, o.bookmark = getenv("QUOTAD_CREDENTIAL"), getenv("QUOTAD_BOOKMARK")
	if o.slot, err = instant("QUOTAD_SCHEDULED_AT", getenv); err != nil {
		return o, err
	}
	if o.slot.IsZero() {
		o.slot = time.Now()
	}
	if o.deadline, err = instant("QUOTAD_DEADLINE", getenv); err != nil {
		return o, err
	}
	if err := o.check(); err != nil {
		return o, err
	}
	o.key = strings.TrimSpace(getenv("YOUTUBE_API_KEY"))
	if o.key == "" && !o.sample {
		return o, &failure{
			exitConfiguration, fmt.Errorf("YOUTUBE_API_KEY is not set: upstream answers nobody without a key"),
			"put the key into the job's environment, or answer from the built-in upstream with --sample",
		}
	}
	return o, nil
}

func parseFlags(args []string, region string) (options, error) {
	var o options
	flags := flag.NewFlagSet("ytfetch", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // report prints the error, run the usage
	flags.StringVar(&o.region, "region", region, "")
	flags.StringVar(&o.baseURL, "base-url", googleAPI, "")
	flags.StringVar(&o.out, "out", ".", "")
	flags.IntVar(&o.pages, "pages", 0, "")
	flags.BoolVar(&o.sample, "sample", false, "")
	if len(args) == 0 {
		return o, misused("what is to be fetched? the only command is trending")
	}
	switch args[0] {
	case "trending":
	case "help", "-h", "-help", "--help":
		return o, flag.ErrHelp
	default:
		return o, misused("unknown command %q: the only one is trending, and it comes first", args[0])
	}
	if err := flags.Parse(args[1:]); err == flag.ErrHelp {
		return o, err
	} else if err != nil {
		return o, misused("%v", err)
	}
	if flags.NArg() > 0 {
		return o, misused("unexpected argument %q", flags.Arg(0))
	}
	return o, nil
}

// instant reads a time from the environment; zero when the variable is not set.
func instant(name string, getenv func(string) string) (time.Time, error) {
	text := getenv(name)
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, misused("%s is not an RFC 3339 time: %q", name, text)
	}
	return at, nil
}

func (o options) check() error {
	if o.region == "" {
		return misused("no region: use --region, or run as a job of quotad, which sets QUOTAD_REGION")
	}
	if !isRegionCode(o.region) {
		return misused("region %q is not a code of ISO 3166-1 alpha-2 such as DE", o.region)
	}
	if o.pages < 0 {
		return misused("--pages must be 0, for all, or more: %d", o.pages)
	}
	base, err := url.Parse(o.baseURL)
	if err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "" {
		return misused("--base-url is not an http or https URL")
	}
	if base.User != nil || base.RawQuery != "" || base.Fragment != "" {
		return misused("--base-url ends with its path: a key belongs in YOUTUBE_API_KEY, where no process list shows it")
	}
	return nil
}

// isRegionCode guards two things: a malformed code would cost a unit to be told
// so, and the code names a directory.
func isRegionCode(s string) bool {
	return len(s) == 2 && s[0] >= 'A' && s[0] <= 'Z' && s[1] >= 'A' && s[1] <= 'Z'
}

func misused(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...), "ytfetch --help tells how it is used"}
}

package main

import (
	"cmp"
	"errors"
	"flag"
	"io"
	"net/url"
	"os"
	"regexp"
	"strings"
	"time"

	"quotad/cmd/ytfetch/upstream"
	"quotad/quota/api"
)

// Options are what the command line and the environment ask of trending and discover.
type options struct {
	command    string
	query      string // of discover
	since      time.Duration
	region     string // ISO 3166-1 alpha-2
	base       string // address of the API
	key        string // the secret; never printed, never stored
	out        string // the directory of the lines
	dir        string // the directory of the place at which the next pass continues
	pages      int    // at most; 0: all there are
	sample     bool
	credential string // outside a pass; a pass's token names its own
}

// parseOptions reads the command line, and the environment for what it leaves out.
func parseOptions(command string, args []string) (options, error) {
	o := options{command: command, key: strings.TrimSpace(os.Getenv("YOUTUBE_API_KEY")), since: 24 * time.Hour,
		credential: os.Getenv("QUOTAD_CREDENTIAL")}
	flags := newFlags()
	flags.StringVar(&o.region, "region", os.Getenv("QUOTAD_REGION"), "")
	flags.StringVar(&o.base, "base-url", "https://www.googleapis.com/youtube/v3", "")
	flags.StringVar(&o.out, "out", ".", "")
	flags.BoolVar(&o.sample, "sample", false, "")
	if command == "trending" {
		flags.IntVar(&o.pages, "pages", 0, "")
	} else {
		flags.Func("since", "", func(text string) (err error) {
			o.since, err = api.ParseSpan(text)
			return err
		})
	}
	words, err := parseArgs(flags, args)
	o.query, o.region = strings.Join(words, " "), strings.ToUpper(o.region)
	o.dir = cmp.Or(os.Getenv("QUOTAD_JOB_DIR"), o.out)
	if o.sample {
		o.base, o.key = "http://sample"+upstream.Path, "sample"
	}
	return o, cmp.Or(err, o.check())
}

var aRegion = regexp.MustCompile("^[A-Z]{2}$") // upstream would charge a unit to refuse another one

func (o *options) check() error {
	base, err := url.Parse(o.base)
	switch {
	case (o.query == "") != (o.command == "trending"):
		return misused("discover needs the words of a query, and trending takes none")
	case o.region == "":
		return misused("no region: use --region, or run as a job of quotad, which sets QUOTAD_REGION")
	case !aRegion.MatchString(o.region):
		return misused("region %q is not a code of ISO 3166-1 alpha-2 such as DE", o.region)
	case o.pages < 0:
		return misused("--pages must be 0, for all, or more: %d", o.pages)
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return misused("--base-url is not an http or https URL")
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return misused("--base-url ends with its path: a key belongs in YOUTUBE_API_KEY, where no process list shows it")
	case o.key == "":
		return misused("YOUTUBE_API_KEY is not set: put the key into the job's environment, or take --sample")
	}
	return nil
}

// newFlags returns a set that prints nothing.
func newFlags() *flag.FlagSet {
	flags := flag.NewFlagSet("ytfetch", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// parseArgs reads flags and words in any order.
func parseArgs(flags *flag.FlagSet, args []string) (words []string, err error) {
	for err = flags.Parse(args); err == nil && flags.NArg() > 0; err = flags.Parse(flags.Args()[1:]) {
		words = append(words, flags.Arg(0))
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		err = misused("%v", err)
	}
	return words, err
}

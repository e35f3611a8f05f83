package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"quotad/cmd/ytfetch/upstream"
	"quotad/quota/api"
)

const googleAPI = "https://www.googleapis.com/youtube/v3"

// Options are what the command line and the environment ask of trending and discover.
type options struct {
	query    string        // of discover
	since    time.Duration // what the first search of discover goes back
	region   string        // ISO 3166-1 alpha-2
	baseURL  string
	metered  bool   // each call is acquired on its way, by quotad's proxy
	key      string // the secret; never printed, never stored
	out      string // directory of the file that pages are stored in
	pages    int    // at most; 0: all there are
	sample   bool
	fresh    time.Duration // a chart that was begun less than this ago is not fetched again
	retain   time.Duration // how long what upstream answered is kept; 0: for ever
	jobDir   string        // where the last pass of a region left where it stopped; empty: nowhere
	bookmark string        // that; empty: nothing
	slot     time.Time     // the scheduled time of the run
	deadline time.Time     // when quotad ends the pass; zero: never

	credential string // outside a pass; a pass's token names its own
}

const (
	defaultSince  = 24 * time.Hour // what the first search of a region goes back
	maxQuery      = 500            // bytes: a query is part of each bookmark
	defaultFresh  = 10 * time.Minute
	defaultRetain = 30 * 24 * time.Hour // what YouTube's developer policies allow, III.E.4
)

// parseOptions reads the command line, and the environment for what it leaves out.
func parseOptions(name string, args []string) (options, error) {
	o := options{credential: os.Getenv("QUOTAD_CREDENTIAL"), jobDir: os.Getenv("QUOTAD_JOB_DIR"), key: strings.TrimSpace(os.Getenv("YOUTUBE_API_KEY"))}
	err := o.parseFlags(name, args)
	o.bookmark = o.left()
	if err == nil {
		o.slot, err = instant("QUOTAD_SCHEDULED_AT", time.Now())
	}
	if err == nil {
		o.deadline, err = instant("QUOTAD_DEADLINE", time.Time{})
	}
	if err == nil && o.metered {
		err = o.throughProxy()
	}
	if err == nil {
		err = o.check()
	}
	return o, err
}

func (o *options) parseFlags(name string, args []string) error {
	flags := newFlags()
	flags.StringVar(&o.region, "region", os.Getenv("QUOTAD_REGION"), "")
	flags.StringVar(&o.baseURL, "base-url", googleAPI, "")
	flags.Func("upstream", "", func(address string) error {
		o.metered, o.baseURL = true, address
		return nil
	})
	flags.StringVar(&o.out, "out", ".", "")
	flags.Func("format", "", func(string) error { return errors.New("it is gone: pages are stored in videos.db") })
	pages := 0
	if name == "discover" {
		pages = 1
		spanVar(flags, &o.since, "since", defaultSince)
	}
	flags.IntVar(&o.pages, "pages", pages, "")
	flags.BoolVar(&o.sample, "sample", false, "")
	spanVar(flags, &o.fresh, "fresh", defaultFresh)
	spanVar(flags, &o.retain, "retain", defaultRetain)
	words, err := parseArgs(flags, args)
	switch {
	case err != nil:
	case name == "discover":
		o.query, err = queryOf(words)
	case len(words) > 0:
		err = misused("unexpected argument %q", words[0])
	}
	return err
}

// throughProxy finds the API behind the address of quotad's proxy, which has a key. The name of a variable
// is replaced by its value: so no process list shows the run token in it.
func (o *options) throughProxy() error {
	o.key = ""
	if name, is := strings.CutPrefix(o.baseURL, "$"); is {
		o.baseURL = os.Getenv(name)
	}
	if o.baseURL == "" {
		return &failure{
			exitConfiguration, errors.New("--upstream is empty: quotad's proxy does not serve this credential"),
			"in quotad's configuration, [proxy] listen and the credential's own proxy table give passes an address in QUOTAD_PROXY",
		}
	}
	o.baseURL = strings.TrimSuffix(o.baseURL, "/") + upstream.Path
	return nil
}

func queryOf(words []string) (string, error) {
	query := strings.Join(strings.Fields(strings.Join(words, " ")), " ")
	switch {
	case query == "":
		return "", misused("discover searches for a query: name some words")
	case len(query) > maxQuery || !utf8.ValidString(query):
		return "", misused("a query is text of at most %d bytes: it has %d", maxQuery, len(query))
	}
	return query, nil
}

// newFlags returns a set that prints nothing: report prints the error, run the usage.
func newFlags() *flag.FlagSet {
	flags := flag.NewFlagSet("ytfetch", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	return flags
}

// spanVar defines a flag that takes a length of time: "10m", "30d".
func spanVar(flags *flag.FlagSet, span *time.Duration, name string, value time.Duration) {
	*span = value
	flags.Func(name, "", func(text string) error {
		parsed, err := api.ParseSpan(text)
		if err != nil || parsed < 0 {
			return fmt.Errorf(`it is not a length of time such as "10m" or "30d"`)
		}
		*span = parsed
		return nil
	})
}

// parseArgs reads flags and words in any order; after "--" all are words.
func parseArgs(flags *flag.FlagSet, args []string) (words []string, err error) {
	for len(args) > 0 {
		if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
			return nil, err
		} else if err != nil {
			return nil, misused("%v", err)
		}
		rest := flags.Args()
		if ended := len(rest) < len(args) && args[len(args)-len(rest)-1] == "--"; ended {
			return append(words, rest...), nil
		}
		if len(rest) == 0 {
			break
		}
		words, args = append(words, rest[0]), rest[1:]
	}
	return words, nil
}

// instant reads a time from the environment.
func instant(name string, unset time.Time) (time.Time, error) {
	text := os.Getenv(name)
	if text == "" {
		return unset, nil
	}
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return at, misused("%s is not an RFC 3339 time: %q", name, text)
	}
	return at, nil
}

func (o *options) check() (err error) {
	if o.region == "" {
		return misused("no region: use --region, or run as a job of quotad, which sets QUOTAD_REGION")
	}
	if o.region, err = regionOf(o.region); err != nil {
		return err
	}
	base, err := url.Parse(o.baseURL)
	switch {
	case o.pages < 0:
		return misused("--pages must be 0, for all, or more: %d", o.pages)
	case err != nil || base.Scheme != "http" && base.Scheme != "https" || base.Host == "":
		return misused("--base-url is not an http or https URL")
	case base.User != nil || base.RawQuery != "" || base.Fragment != "":
		return misused("--base-url ends with its path: a key belongs in YOUTUBE_API_KEY, where no process list shows it")
	case o.key == "" && !o.metered && !o.sample:
		return &failure{
			exitConfiguration, errors.New("YOUTUBE_API_KEY is not set: the API needs a key"),
			"put the key into the job's environment, or answer from the built-in upstream with --sample",
		}
	}
	return nil
}

// arguments are what the chart depends on in addition to its region: where it comes from, and
// its maximum of pages.
func (o options) arguments() string {
	from := o.baseURL
	switch {
	case o.sample:
		from = "sample"
	case o.metered: // its address is another one each time
		from = "proxy"
	}
	return fmt.Sprintf("%s --pages %d", from, o.pages)
}

// regionOf reads a code in any case. It checks it because upstream would charge a unit to refuse
// it, and because the code names a directory.
func regionOf(text string) (string, error) {
	code := strings.ToUpper(text)
	if len(code) == 2 && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
		return code, nil
	}
	return text, misused("region %q is not a code of ISO 3166-1 alpha-2 such as DE", text)
}

func misused(format string, args ...any) error {
	return &failure{exitUsage, fmt.Errorf(format, args...), "see ytfetch --help"}
}

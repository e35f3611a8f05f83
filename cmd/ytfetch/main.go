package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

	"quotad/cmd/ytfetch/upstream"
	"quotad/quota/api"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run carries out one command line and returns its exit code.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	err := command(ctx, args, stderr)
	if errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, usage)
		return exitOK
	}
	return report(stderr, err)
}

func command(ctx context.Context, args []string, stderr io.Writer) error {
	o, err := parseOptions(args, os.Getenv)
	if err != nil {
		return err
	}
	return trending(ctx, o, stderr)
}

// trending wires one pass together and runs it. Whatever can go wrong without
// spending a unit goes wrong before the first acquire.
func trending(ctx context.Context, o options, stderr io.Writer) error {
	tube, err := connect(o)
	if err != nil {
		return err
	}
	pages, err := openStore(o.out, o.region, o.slot)
	if err != nil {
		return fail(exitFailed, err)
	}
	p := &pass{
		region: o.region, begin: firstPage, most: o.pages, deadline: o.deadline,
		quota: api.FromEnv(), credential: o.credential,
		tube: tube, store: pages,
		now: time.Now, sleep: sleep,
		say: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) },
	}
	at, ok := parsePlace(o.bookmark)
	switch {
	case !ok:
		p.say("the bookmark %q is not of ytfetch: beginning at page 1", o.bookmark)
	case o.pages == 0 || at.number <= o.pages:
		p.begin = at
	}
	return p.run(ctx)
}

// connect returns the client of the API, or of the built-in upstream.
func connect(o options) (*youtube, error) {
	if !o.sample {
		return newYouTube(o.baseURL, o.key, network()), nil
	}
	sample, err := upstream.New(upstream.Config{})
	if err != nil {
		return nil, fail(exitFailed, err)
	}
	return newYouTube("http://sample"+upstream.Path, "sample", sample), nil
}

// network returns a transport that never sends a request twice. On a connection
// that is used again, net/http repeats a GET whose answer was lost: upstream
// would charge twice for one grant.
func network() *http.Transport {
	return &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true, ForceAttemptHTTP2: true}
}

// sleep waits, and returns the context's error when that ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

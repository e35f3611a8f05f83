package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"quotad/cmd/ytfetch/store"
	"quotad/cmd/ytfetch/upstream"
	"quotad/quota/api"
)

// newPass wires one pass together, of trending or of discover.
func newPass(o options, stderr io.Writer) (*pass, error) {
	tube, err := connect(o)
	if err != nil {
		return nil, err
	}
	return &pass{
		options: o, after: o.slot.Add(-o.since), quota: api.FromEnv(), tube: tube,
		now: time.Now, sleep: sleep,
		say: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) },
	}, nil
}

// start opens what pages are stored in, removes from it what is too old, and runs the pass from
// where its bookmark says, unless there is nothing to fetch. Whatever can go wrong without
// spending a unit goes wrong before the first acquire.
func (p *pass) start(ctx context.Context) (err error) {
	var file *store.Store
	if p.format == formatSQLite {
		if file, err = store.Open(p.out); err != nil {
			return err
		}
		defer file.Close()
		p.store = &database{p, file}
	} else if p.store, err = openJSONLines(p.out, p.region, p.slot); err != nil {
		return err
	}
	if err := p.purge(ctx, file); err != nil {
		return err
	}
	done, err := p.resume()
	if err != nil {
		return err
	}
	if done != "" {
		p.say("%s", done)
		return nil
	}
	return p.run(ctx)
}

// purgeTime is how long a pass removes what is too old; the next one continues.
const purgeTime = 10 * time.Second

// purge removes what is too old. It removes nothing from a file until something in it is too
// old, and then also what becomes too old within a day (of 30). A removal merges the whole
// index of words: that happens once a day, not in each pass.
func (p *pass) purge(ctx context.Context, file *store.Store) error {
	if p.retain == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, purgeTime)
	defer cancel()
	span := p.retain
	if file != nil {
		old, unfinished, err := file.Old(p.now().Add(-span))
		switch {
		case err != nil:
			return err
		case unfinished, old != (store.Purged{}):
			span -= span / 30
		default:
			file = nil
		}
	}
	gone, err := purge(ctx, file, p.out, p.now().Add(-span), false)
	if gone != (removed{}) {
		p.say("removed what was fetched more than %v ago: %v", days(span), gone)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// connect returns the client of the API, or of the built-in upstream.
func connect(o options) (*youtube, error) {
	if !o.sample {
		return newYouTube(o.baseURL, o.key, network()), nil
	}
	sample, err := upstream.New(upstream.Config{})
	if err != nil {
		return nil, err
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

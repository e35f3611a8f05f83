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
		region: o.region, query: o.query, after: o.slot.Add(-o.since), slot: o.slot, maxPages: o.pages, deadline: o.deadline,
		quota: api.FromEnv(), credential: o.credential, metered: o.metered,
		tube: tube,
		now:  time.Now, sleep: sleep,
		say: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) },
	}, nil
}

// start opens what is stored and runs the pass. Whatever can go wrong without spending a
// unit goes wrong before the first acquire.
func (p *pass) start(ctx context.Context, o options) error {
	closeStore, err := p.open(ctx, o)
	if err != nil {
		return fail(exitFailed, err)
	}
	defer closeStore()
	return p.runFrom(ctx, o.bookmark, o.fresh)
}

// runFrom runs the pass from where a bookmark says, unless there is nothing to fetch.
func (p *pass) runFrom(ctx context.Context, bookmark string, fresh time.Duration) error {
	at, ok := parsePlace(bookmark)
	if !ok {
		p.say("the bookmark %q is not of ytfetch: beginning at page 1", bookmark)
	}
	p.begin = at
	done, err := p.resume(fresh)
	switch {
	case err != nil:
		return fail(exitFailed, err)
	case done != "":
		p.say("%s", done)
		return nil
	}
	return p.run(ctx)
}

// open opens what pages are stored in, and removes from it what is too old. The function
// that it returns closes it.
func (p *pass) open(ctx context.Context, o options) (closeStore func(), err error) {
	var file *store.Store
	if o.format == formatSQLite {
		if file, err = store.Open(o.out); err != nil {
			return nil, err
		}
		closeStore = func() { file.Close() }
		p.store = &database{file: file, region: o.region, query: p.query, arguments: o.arguments(), now: p.now, stored: make(stored)}
	} else {
		if p.store, err = openJSONLines(o.out, o.region, o.slot); err != nil {
			return nil, err
		}
		closeStore = func() {}
	}
	if err := p.purge(ctx, file, o); err != nil {
		closeStore()
		return nil, err
	}
	return closeStore, nil
}

// purgeTime is how long a pass removes what is too old; the next one continues.
const purgeTime = 10 * time.Second

func (p *pass) purge(ctx context.Context, file *store.Store, o options) error {
	if o.retain == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, purgeTime)
	defer cancel()
	file, span, err := due(file, p.now(), o.retain)
	if err != nil {
		return err
	}
	gone, err := purge(ctx, file, o.out, p.now().Add(-span))
	if gone != (removed{}) {
		p.say("removed what was fetched more than %v ago: %v", days(span), gone)
	}
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// resume moves the place where the pass begins to after what is stored already. done says why
// nothing is to be fetched; it is empty if something is.
func (p *pass) resume(fresh time.Duration) (done string, err error) {
	if err := p.resumeSearch(); err != nil {
		return "", err
	}
	if d, ok := p.store.(*database); ok {
		if p.begin, err = d.resume(p.begin); err != nil {
			return "", err
		}
		if p.begin.isFirst() {
			if done, err = d.fresh(p.slot, fresh); err != nil || done != "" {
				return done, err
			}
		}
	}
	switch {
	case p.begin.isFirst(), p.maxPages != 0 && p.begin.number > p.maxPages:
		p.begin = p.first()
	case p.begin.chart.IsZero():
		p.begin.chart = p.slot
	}
	return "", nil
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

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"quotad/cmd/ytfetch/store"
	"quotad/cmd/ytfetch/upstream"
	"quotad/quota"
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
		now: time.Now, sleep: quota.Sleep,
		say: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) },
	}, nil
}

// start opens the file that pages are stored in, runs the pass from where its bookmark says,
// unless there is nothing to fetch, and removes what is too old. Whatever can go wrong without
// spending a unit goes wrong before the first acquire.
func (p *pass) start(ctx context.Context) (err error) {
	if p.file, err = store.Open(p.out); err != nil {
		return err
	}
	defer p.file.Close()
	done, err := p.resume()
	switch {
	case err != nil:
		return err
	case done != "":
		p.say("%s", done)
	default:
		err = p.run(ctx)
	}
	return cmp.Or(err, p.purge())
}

// purge removes what upstream answered longer ago than --retain.
func (p *pass) purge() error {
	if p.retain == 0 {
		return nil
	}
	videos, err := p.file.Purge(p.now().Add(-p.retain))
	if videos > 0 {
		p.say("removed %s, fetched more than %s ago", quota.Count(videos, "video", "videos"), days(p.retain))
	}
	return err
}

// days writes a retention as people give it.
func days(span time.Duration) string {
	const day = 24 * time.Hour
	if span%day == 0 {
		return quota.Count(int64(span/day), "day", "days")
	}
	return quota.Brief(span)
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

package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A pass fetches the chart of one region, or what a query finds there.
type pass struct {
	options
	quota  *api.Client
	client *http.Client // calls upstream

	now func() time.Time
	say func(format string, args ...any)

	id     string // makes the request ids of this process unique
	calls  int    // upstream calls for which it asked quotad
	videos int    // that are stored
	file   string // in which the last ones are
}

func newPass(command string, args []string, stderr io.Writer) (*pass, error) {
	o, err := parseOptions(command, args)
	return &pass{
		options: o, quota: api.FromEnv(), client: connect(o.sample), id: rand.Text()[:10], now: time.Now,
		say: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) },
	}, err
}

// run fetches, and says what became of it. A file that cannot be written fails before the first acquire.
func (p *pass) run(ctx context.Context) error {
	fetch := p.trending
	if p.command == "discover" {
		fetch = p.discover
	}
	err := cmp.Or(os.MkdirAll(p.out, 0o755), p.store(nil, 0))
	if err == nil {
		err = fetch(ctx)
	}
	f, stored := &failure{exitFailed, err, ""}, quota.Count(p.videos, "video", "videos")
	switch {
	case err != nil && ctx.Err() != nil:
		return &failure{exitInterrupted, fmt.Errorf("interrupted; %s stored", stored), ""}
	case err != nil:
		errors.As(err, &f)
		return &failure{f.code, fmt.Errorf("%w; %s stored", err, stored), f.hint}
	}
	p.say("done: %s in %s", stored, p.file)
	return nil
}

// trending goes through the pages of the chart. A missing token ends it, never a count: totals are estimates. What
// upstream has answered is stored, interrupted or not: it is paid for.
func (p *pass) trending(ctx context.Context) error {
	for at := p.resume(); ; {
		got, err := p.call(ctx, chartPage(p.region, at.Token))
		if isStale(err) {
			p.keep(p.first()) // the next pass would spend a unit on that token again
		}
		if err == nil {
			err = p.store(got.Items, (at.Page-1)*perPage+1)
		}
		if err != nil {
			return err
		}
		p.brought(fmt.Sprintf("page %d: %s", at.Page, quota.Count(len(got.Items), "video", "videos")), got.left)
		switch {
		case got.Next == "" || at.Page == p.pages:
			p.keep(p.first())
			return nil
		case got.Next == at.Token:
			return fmt.Errorf("upstream names page %d as its own next page: it seems to ignore page tokens", at.Page)
		}
		at.Page, at.Token = at.Page+1, got.Next
		p.keep(at)
	}
}

// discover searches for the newest videos, and lists what it found. The search costs a hundred times as much: its
// result is kept before the list is asked for, and if that is denied, the next pass continues with it.
func (p *pass) discover(ctx context.Context) error {
	at := p.resume()
	if at.IDs == nil {
		found, err := p.call(ctx, searchPage(p.region, p.query, p.now().Add(-p.since)))
		if err == nil {
			at.IDs, err = idsOf(found.Items)
		}
		if err != nil || at.IDs == nil {
			return err
		}
		p.keep(at)
	}
	got, err := p.call(ctx, videosByID(at.IDs))
	if err == nil {
		err = p.store(got.Items, 0)
	}
	if err != nil {
		return err
	}
	p.brought(fmt.Sprintf("%d found, %d listed", len(at.IDs), len(got.Items)), got.left)
	p.keep(p.first())
	return nil
}

// brought says what a call brought. The log of a first try, with the sample, is short.
func (p *pass) brought(text string, left int64) {
	if !p.sample || p.quota.Token == "" {
		p.say("%s, %s left", text, quota.Count(left, "unit", "units"))
	}
}

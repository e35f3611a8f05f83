package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"time"

	"quotad/cmd/ytfetch/store"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/upstream"
)

// Stored are the pages that this process stored, with how many videos are on each.
type stored map[int]int

// String says what is stored: "150 videos on 3 pages".
func (s stored) String() string {
	videos := 0
	for _, items := range s {
		videos += items
	}
	return quota.Count(videos, "video", "videos") + " on " + quota.Count(len(s), "page", "pages")
}

// A pass fetches the chart of one region, or what is new there for a query.
type pass struct {
	options
	after time.Time // by query: what was published since
	begin place

	quota *api.Client
	tube  *youtube
	file  *store.Store

	keep  func(bookmark string) error // empty: there is none any more
	now   func() time.Time
	sleep func(context.Context, time.Duration) bool
	say   func(format string, args ...any)

	id     string // makes the request ids of this process unique
	calls  int    // upstream calls for which it asked quotad
	stored stored
}

// newPass wires one pass together, of trending or of discover.
func newPass(o options, stderr io.Writer) *pass {
	return &pass{
		options: o, keep: o.keepFile, after: o.slot.Add(-o.since), quota: api.FromEnv(), tube: connect(o),
		now: time.Now, sleep: quota.Sleep,
		say: func(format string, args ...any) { fmt.Fprintf(stderr, format+"\n", args...) },
	}
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
	if err == nil {
		err = p.keep("")
	}
	return cmp.Or(err, p.purge())
}

// run fetches the chart to its end and says what became of it. Its errors are
// failures.
func (p *pass) run(ctx context.Context) error {
	p.id, p.stored = rand.Text()[:10], make(stored)
	if p.begin.isFirst() {
		p.leave(p.begin)
	} else {
		p.say("continuing at page %d", p.begin.number)
	}
	err := p.chart(ctx, p.begin)
	if classOf(err) == staleToken {
		p.say("%v; starting over from page 1", err)
		again := p.first()
		p.leave(again) // the next pass would spend a unit on that token again
		err = p.chart(ctx, again)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return fail(exitInterrupted, fmt.Errorf("interrupted; %s stored", p.stored))
	case err != nil:
		return p.failure(err)
	}
	p.say("done: %s in %s", p.stored, p.file.Path)
	return nil
}

// chart fetches page after page. A missing token ends it, never a count: totals
// are estimates.
func (p *pass) chart(ctx context.Context, at place) error {
	for {
		next, err := p.fetch(ctx, at)
		switch {
		case err != nil:
			return err
		case p.isLast(at, next):
			return nil
		case next == at.token:
			return fmt.Errorf("upstream names page %d as its own next page: it seems to ignore page tokens", at.number)
		}
		at = at.page(at.number+1, next)
		p.leave(at)
	}
}

// isLast reports whether the page at a place is the last one wanted. next is the token that
// it names.
func (p *pass) isLast(at place, next string) bool { return next == "" || at.number == p.pages }

// fetch fetches and stores a page and returns the token of the page after it.
// What upstream has answered is stored, interrupted or not: it is paid for.
func (p *pass) fetch(ctx context.Context, at place) (next string, err error) {
	var got page
	if p.query != "" {
		got, err = p.discovered(ctx, at)
	} else {
		got, err = p.get(ctx, at.number, chartPage(p.region, at.token))
	}
	if err != nil {
		return "", err
	}
	if err := p.save(at, got); err != nil {
		return "", fmt.Errorf("cannot store page %d: %w", at.number, err)
	}
	p.stored[at.number] = len(got.Items)
	if got.Next == "" { // the pages after it were of a chart that was longer
		maps.DeleteFunc(p.stored, func(number, _ int) bool { return number > at.number })
	}
	if p.sample && p.quota.Token != "" { // a first log is short
		return got.Next, nil
	}
	text := fmt.Sprintf("page %d: %s", at.number, quota.Count(len(got.Items), "video", "videos"))
	if p.query != "" {
		text = fmt.Sprintf("page %d: %d found, %d new", at.number, len(got.Found), len(got.Items))
	}
	if got.left != unknownLeft {
		text += fmt.Sprintf(", %s left", quota.Count(got.left, "unit", "units"))
	}
	p.say("%s", text)
	return got.Next, nil
}

// discovered returns a page of what the query finds, with the videos that are new. A page
// takes two calls: a search, and a list of the new videos if there are any. The search costs
// a hundred times as much, so its result is in the bookmark before the list is requested: if
// the pass is denied the list, or killed, the next one continues there.
func (p *pass) discovered(ctx context.Context, at place) (got page, err error) {
	search := at.ids == ""
	got = page{Next: at.next, Found: strings.Split(at.ids, "."), left: unknownLeft}
	if search {
		if got, err = p.get(ctx, at.number, searchPage(p.region, at)); err != nil {
			return page{}, err
		}
		at.ids, at.next = strings.Join(got.Found, "."), got.Next
	}
	got.Items = nil // what a search says of videos is not stored
	unknown, err := p.file.Unknown(got.Found)
	if err != nil || len(unknown) == 0 {
		return got, err
	}
	if search {
		p.leave(at)
	}
	list, err := p.get(ctx, at.number, videosByID(unknown))
	got.Items, got.left = list.Items, list.left
	return got, err
}

// save stores a page in place of what that page held, as a whole. What an outdated chart had
// after upstream's last page is removed.
func (p *pass) save(at place, got page) error {
	return p.file.Save(store.Page{
		Chart:  p.chartOf(at.chart),
		Number: at.number, First: (at.number-1)*perPage + 1,
		Items: got.Items, Found: got.Found, Next: got.Next, Done: p.isLast(at, got.Next), At: p.now(),
	})
}

// chartOf names what a pass of a slot fetches.
func (p *pass) chartOf(slot time.Time) store.Chart {
	return store.Chart{Region: p.region, Query: p.query, Slot: slot, Arguments: p.arguments()}
}

// first returns where a pass begins that continues no earlier one.
func (p *pass) first() place {
	at := firstPage(p.slot)
	if p.query != "" {
		at.query, at.after = p.query, p.after
	}
	return at
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

const (
	coolDown = time.Minute      // after which a limit per minute is open again
	backOff  = time.Second      // after the first transient trouble; doubles
	callRoom = 10 * time.Second // what a call after a pause needs before the deadline
)

// pauses are after how long to call again, for one page and class of failure: each time may
// cost a unit. After any other class, calling again is useless.
var pauses = map[upstream.Class][]time.Duration{
	upstream.Minute:  {coolDown, coolDown},
	upstream.Unknown: {coolDown}, // a minute first, a day when it repeats
	transient:        {backOff, 2 * backOff},
	unsent:           {backOff, 2 * backOff},
}

// get calls until it has an answer or calling again is useless. number is of the page.
func (p *pass) get(ctx context.Context, number int, r request) (got page, err error) {
	failures := make(map[upstream.Class]int)
	for {
		got, err = p.call(ctx, number, r)
		var failed *callError
		if err == nil || ctx.Err() != nil || !errors.As(err, &failed) {
			return got, err
		}
		before := failures[failed.class]
		failures[failed.class]++
		if before == len(pauses[failed.class]) {
			p.observe(ctx, failed)
			if failed.class == upstream.Unknown { // a limit that a cool-down did not open
				failed.class = upstream.Day
			}
			return page{}, err
		}
		pause := pauses[failed.class][before]
		if !p.deadline.IsZero() && !p.now().Add(pause+callRoom).Before(p.deadline) {
			p.observe(ctx, failed)
			return page{}, fmt.Errorf("no time to try again in %v: %w", pause, err)
		}
		p.say("page %d: %v; trying again in %v", number, err, pause)
		if !p.sleep(ctx, pause) {
			return page{}, ctx.Err()
		}
	}
}

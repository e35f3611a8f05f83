package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A keeper stores the pages of a pass.
type keeper interface {
	// write stores a page in place of what that page held, as a whole; last: no further
	// one is wanted. What an outdated chart had after upstream's last page is removed.
	write(at place, got page, last bool) error
	// unknown returns those of the ids, in their order, whose video is not stored.
	unknown(ids []string) ([]string, error)
	fmt.Stringer   // what this pass has stored: "150 videos on 3 pages"
	where() string // where it is
}

// A pass fetches the chart of one region, or what is new there for a query.
type pass struct {
	region   string
	query    string    // empty: the chart
	after    time.Time // by query: what was published since
	slot     time.Time // identifies a chart that it begins
	begin    place
	maxPages int       // 0: all
	deadline time.Time // when quotad ends the pass; zero: never

	quota      *api.Client
	credential string // may be empty where the client has a run token
	metered    bool   // calls are acquired on their way: the pass asks for none
	tube       *youtube
	store      keeper

	now   func() time.Time
	sleep func(context.Context, time.Duration) error
	say   func(format string, args ...any)

	id    string // makes the request ids of this process unique
	calls int    // upstream calls for which it asked quotad
}

// run fetches the chart to its end and says what became of it. Its errors are
// failures.
func (p *pass) run(ctx context.Context) error {
	p.id = rand.Text()[:10]
	if p.begin.isFirst() {
		p.leave(ctx, p.begin)
	} else {
		p.say("continuing at page %d", p.begin.number)
	}
	err := p.chart(ctx, p.begin)
	if classOf(err) == staleToken {
		p.say("%v; starting over from page 1", err)
		again := p.first()
		p.leave(ctx, again) // the next pass would spend a unit on that token again
		err = p.chart(ctx, again)
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return fail(exitInterrupted, fmt.Errorf("interrupted; %s stored", p.store))
	case err != nil:
		return p.failure(err)
	}
	p.say("done: %s in %s", p.store, p.store.where())
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
		p.leave(ctx, at)
	}
}

// isLast reports whether the page at a place is the last one wanted. next is the token that
// it names.
func (p *pass) isLast(at place, next string) bool { return next == "" || at.number == p.maxPages }

// fetch fetches and stores a page and returns the token of the page after it.
// What upstream has answered is stored, interrupted or not: it is paid for.
func (p *pass) fetch(ctx context.Context, at place) (next string, err error) {
	got, left, err := p.page(ctx, at)
	if err != nil {
		return "", err
	}
	if err := p.store.write(at, got, p.isLast(at, got.Next)); err != nil {
		return "", err
	}
	text := fmt.Sprintf("page %d: %s", at.number, quota.Count(len(got.Items), "video", "videos"))
	if p.query != "" {
		text = fmt.Sprintf("page %d: %d found, %d new", at.number, len(got.Found), len(got.Items))
	}
	if left != unknownLeft {
		text += fmt.Sprintf(", %s left", quota.Count(left, "unit", "units"))
	}
	p.say("%s", text)
	return got.Next, nil
}

// page returns the page at a place.
func (p *pass) page(ctx context.Context, at place) (got page, left int64, err error) {
	if p.query != "" {
		return p.discovered(ctx, at)
	}
	return p.get(ctx, request{videosList, at.number, func(ctx context.Context) (page, error) {
		return p.tube.trending(ctx, p.region, at.token)
	}})
}

// first returns where a pass begins that continues no earlier one.
func (p *pass) first() place {
	at := firstPage(p.slot)
	if p.query != "" {
		at.query, at.after = p.query, p.after
	}
	return at
}

// get calls until it has an answer or calling again is useless.
func (p *pass) get(ctx context.Context, r request) (got page, left int64, err error) {
	tries := make(tries)
	for {
		got, left, err = p.call(ctx, r)
		if err == nil || ctx.Err() != nil {
			return got, left, err
		}
		pause, worthwhile := tries.again(classOf(err))
		if !worthwhile {
			p.observe(ctx, err)
			return page{}, 0, conclude(err)
		}
		if !p.roomFor(pause) {
			p.observe(ctx, err)
			return page{}, 0, fmt.Errorf("no time to try again in %v: %w", pause, err)
		}
		p.say("page %d: %v; trying again in %v", r.page, err, pause)
		if err := p.sleep(ctx, pause); err != nil {
			return page{}, 0, err
		}
	}
}

func (p *pass) roomFor(pause time.Duration) bool {
	return p.deadline.IsZero() || p.now().Add(pause+callRoom).Before(p.deadline)
}

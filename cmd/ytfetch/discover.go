package main

import (
	"context"
	"fmt"
	"strings"
	"time"
)

const (
	defaultSince = 24 * time.Hour // what the first search of a region goes back
	maxQuery     = 500            // bytes: a query is part of each bookmark

	// A search finds what upstream's index has. Videos that were published this long before
	// the last search may have been missing there: the next one asks for them again, and
	// finds most of them stored.
	indexTime = time.Hour
)

// discovered returns a page of what the query finds, with the videos that are new. A page
// takes two calls: a search, and a list of the new videos if there are any. The search costs
// a hundred times as much, so its result is in the bookmark before the list is requested: if
// the pass is denied the list, or killed, the next one continues there.
func (p *pass) discovered(ctx context.Context, at place) (got page, left int64, err error) {
	left = unknownLeft
	if at.ids == "" {
		if got, left, err = p.get(ctx, request{searchList, at.number, func(ctx context.Context) (page, error) {
			return p.tube.search(ctx, p.region, p.query, at.after, at.chart, at.token)
		}}); err != nil {
			return page{}, 0, err
		}
		at.ids, at.next = strings.Join(got.Found, "."), got.Next
	}
	answer := page{Next: at.next, Found: strings.FieldsFunc(at.ids, func(r rune) bool { return r == '.' })}
	unknown, err := p.store.unknown(answer.Found)
	if err != nil || len(unknown) == 0 {
		return answer, left, err
	}
	if got.Found != nil {
		p.leave(ctx, at)
	}
	list, left, err := p.get(ctx, request{videosList, at.number, func(ctx context.Context) (page, error) {
		return p.tube.videos(ctx, unknown)
	}})
	if err != nil {
		return page{}, 0, err
	}
	answer.Items = list.Items
	return answer, left, nil
}

// resumeSearch makes a search begin where the last one of the same query and arguments ended.
// It ignores a bookmark of another query, whose tokens are not valid for this one.
func (p *pass) resumeSearch() error {
	if p.begin.query != p.query {
		if p.begin != firstPage(time.Time{}) {
			p.say("the bookmark is of %s: beginning at page 1", p.begin.of())
		}
		p.begin = firstPage(time.Time{})
	}
	d, ok := p.store.(*database)
	if p.query == "" || !ok {
		return nil
	}
	last, _, found, err := d.file.Latest(d.chart(p.slot))
	if err != nil {
		return fmt.Errorf("cannot read what is stored: %w", err)
	}
	if found && last.Before(p.slot) {
		p.after = last.Add(-indexTime)
	}
	return nil
}

// of says what a place is in.
func (at place) of() string {
	if at.query == "" {
		return "a chart"
	}
	return fmt.Sprintf("another query, %q", at.query)
}

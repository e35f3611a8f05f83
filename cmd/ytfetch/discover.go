package main

import (
	"context"
	"strings"
	"time"
)

const (
	defaultSince = 24 * time.Hour // what the first search of a region goes back
	maxQuery     = 500            // bytes: a query is part of each bookmark
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

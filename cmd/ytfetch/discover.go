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
		p.leave(ctx, at)
	}
	list, err := p.get(ctx, at.number, videosByID(unknown))
	got.Items, got.left = list.Items, list.left
	return got, err
}

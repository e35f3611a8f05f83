package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	jobsapi "quotad/jobs/api"
)

// A place is where a pass begins in a chart. As a bookmark it is "6 CDIQAA": the
// number, by which the page's file is named, and the token.
type place struct {
	number int
	token  string
}

var firstPage = place{number: 1}

// parsePlace reads a bookmark. An empty one is the first page.
func parsePlace(bookmark string) (at place, ok bool) {
	if bookmark == "" {
		return firstPage, true
	}
	digits, token, _ := strings.Cut(bookmark, " ")
	number, err := strconv.Atoi(digits)
	if err != nil || number < 2 || token == "" || strings.Contains(token, " ") {
		return firstPage, false
	}
	return place{number, token}, true
}

func (at place) bookmark() string {
	if at == firstPage {
		return ""
	}
	return fmt.Sprintf("%d %s", at.number, at.token)
}

// leave sets where the next pass of the region begins. It is called after each page
// and not when the pass ends, because a pass that is killed has no time for that; what
// it costs, a write to quotad's disk, is little beside a call upstream. A pass goes on
// without a bookmark: the next one then fetches again what is already there.
func (p *pass) leave(ctx context.Context, at place) {
	if p.quota.Token == "" {
		return // by hand there is no next pass
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastCallTime)
	defer cancel()
	if err := (jobsapi.Client{Client: p.quota}).LeaveBookmark(ctx, at.bookmark()); err != nil {
		p.say("cannot leave a bookmark at page %d: %v", at.number, err)
	}
}

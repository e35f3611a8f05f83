package main

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota/api"
)

// leaves checks which bookmarks the passes left, by the numbers of their pages.
func (r *passRun) leaves(want ...int) {
	r.t.Helper()
	var got []int
	for _, text := range r.marks.all() {
		at, ok := parsePlace(text)
		if !ok {
			r.t.Errorf("got bookmark %q, which no pass understands", text)
		}
		got = append(got, at.number)
	}
	if !slices.Equal(got, want) {
		r.t.Errorf("got bookmarks at %v, want %v", got, want)
	}
}

// After each page, so that a pass which is killed has left it too.
func TestEachPageLeavesABookmark(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	ctx, cancel := context.WithCancel(t.Context())
	r.upstream.Inject(nil, nil, func(_ http.ResponseWriter, req *http.Request) {
		r.leaves(1, 2, 3)
		cancel()
		<-req.Context().Done()
		panic(http.ErrAbortHandler)
	})
	r.ends(ctx, ending{exitInterrupted, []int{50, 50}, 3, "interrupted"})
	r.leaves(1, 2, 3)
}

// The answer is there, and the pass is told to end: the page is stored, and the next
// pass need not pay for it again.
func TestInterruptedPassLeavesABookmark(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	ctx, cancel := context.WithCancel(t.Context())
	say := r.pass.say
	r.pass.say = func(format string, args ...any) {
		say(format, args...)
		cancel() // the first page is stored
	}
	r.ends(ctx, ending{exitInterrupted, []int{50}, 1, "interrupted"})
	r.leaves(1, 2)
}

func TestBookmarkThatUpstreamDoesNotAcceptStartsTheRegionOver(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.pass.begin = place{3, "CDIQAA-of-yesterday", r.pass.slot.AddDate(0, 0, -1), found{}}
	r.ends(t.Context(), ending{exitOK, []int{50, 50, 50, 50}, 5, "invalidPageToken: The request specifies an invalid page token.; starting over from page 1"})
	r.leaves(1, 2, 3, 4)
}

// With a unit a day, the bookmark must be gone before the pass starts over: the next
// pass would spend its unit on it again, and so on for ever.
func TestBookmarkThatUpstreamDoesNotAcceptIsDropped(t *testing.T) {
	r := newRun(t, envConfig{limit: 1, quota: 100})
	r.pass.begin = place{3, "CDIQAA-of-yesterday", r.pass.slot.AddDate(0, 0, -1), found{}}
	r.ends(t.Context(), ending{exitDenied, nil, 1, "quotad denied"})
	r.leaves(1)
}

// What a bookmark saves is units; a pass that cannot leave one has its pages.
func TestPassThatCannotLeaveABookmark(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.marks.broken = true
	r.ends(t.Context(), ending{exitOK, []int{50, 50, 50, 50}, 4, "cannot leave a bookmark at page 4: "})
	r.leaves()
}

func TestByHandNoBookmarkIsLeft(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.pass.keep = new(options).keepFile
	r.pass.quota, r.pass.credential = &api.Client{Socket: r.socket()}, "youtube"
	r.ends(t.Context(), ending{exitOK, []int{50, 50, 50, 50}, 4, "done"})
	r.leaves()
	if strings.Contains(r.log.String(), "bookmark") {
		t.Error("stderr speaks of bookmarks")
	}
}

func TestPlaceIsItsBookmark(t *testing.T) {
	chart := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for _, at := range []place{firstPage(chart), {2, "CDIQAA", chart, found{}}, {12, "x", chart, found{}}} {
		if got, ok := parsePlace(at.bookmark()); !ok || got != at {
			t.Errorf("got %v, %v of %q, want %v", got, ok, at.bookmark(), at)
		}
	}
	// As an older ytfetch left it.
	if got, ok := parsePlace("6 CDIQAA"); !ok || got != (place{6, "CDIQAA", time.Time{}, found{}}) {
		t.Errorf("got %v, %v, want page 6 of a chart that is not told", got, ok)
	}
	for _, text := range []string{" ", "CDIQAA", "6", "6 ", "1 CDIQAA", "-6 CDIQAA", "6 CDIQAA x", "6\tCDIQAA", "x CDIQAA",
		"6 CDIQAA 20261121T120000Z x", "6 20261121T120000Z x", "0 20261121T120000Z", "6 CDIQAA "} {
		if at, ok := parsePlace(text); ok || at != firstPage(time.Time{}) {
			t.Errorf("got %v of %q, want the first page", at, text)
		}
	}
}

// A pass that ends at its page has nothing to go on with.
func TestPassOfAsManyPagesAsAskedForLeavesNoMore(t *testing.T) {
	r := newRun(t, envConfig{limit: 100, quota: 100})
	r.pass.pages = 2
	r.upstream.Inject(serverError)
	r.ends(t.Context(), ending{exitOK, []int{50, 50}, 3, "done"})
	r.leaves(1, 2)
}

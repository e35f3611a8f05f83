package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/cmd/ytfetch/upstream"
)

// newDiscovery prepares a pass of a query.
func newDiscovery(t *testing.T, c envConfig) *passRun {
	d := newRun(t, c)
	d.pass.query, d.pass.pages = "golden", 1
	return d
}

// search runs a pass of the query six hours after the last one, as a job does.
func (r *passRun) search(bookmark string) (code int, said string) {
	r.t.Helper()
	r.clock.Add(6 * time.Hour)
	r.pass.after = r.clock.Now().Add(-defaultSince)
	return r.next(r.t.Context(), bookmark, defaultFresh)
}

// A search begins where the last one ended, also one that was some days ago, and an hour
// before: what upstream listed late is found too, and nothing is missing.
func TestSearchesLeaveNothingOut(t *testing.T) {
	d := newDiscovery(t, envConfig{limit: 100_000, quota: 100_000})
	d.pass.pages = 0
	var said []string
	for i := range 4 {
		if i == 2 {
			d.clock.Add(72 * time.Hour) // the machine was off
		}
		code, text := d.search("")
		if code != exitOK {
			t.Fatalf("search %d: exit code %d: %s", i+1, code, text)
		}
		said = append(said, text)
	}
	sample := upstream.New(upstream.Config{Now: d.clock.Now})
	all, err := newYouTube("http://sample"+upstream.Path, "k", sample).send(t.Context(), searchPage("DE",
		place{chart: d.clock.Now(), found: found{query: "golden", after: d.clock.Now().AddDate(0, 0, -30)}}))
	if err != nil {
		t.Fatal(err)
	}
	if unknown, err := d.pass.file.Unknown(all.Found); err != nil || len(unknown) > 0 {
		t.Errorf("%v, %v are not stored, though the newest were searched for: %q", unknown, err, said)
	}
	var results, fresh int
	if n, err := fmt.Sscanf(said[3], "page 1: %d found, %d new", &results, &fresh); n != 2 || fresh == 0 || fresh >= results || results >= perPage {
		t.Errorf("the last search says %q, %v, want some results, most of them new", said[3], err)
	}
	d.clock.Add(48 * time.Hour) // nobody's books hold anything any more
}

// A video that is gone when it is asked for has no row, and is asked for again by the next
// search that finds it.
func TestVideoThatIsGoneBeforeItIsListed(t *testing.T) {
	d := newDiscovery(t, envConfig{limit: 1000, quota: 1000})
	d.upstream.Inject(nil, noVideos)
	if code, said := d.search(""); code != exitOK || !strings.Contains(said, "page 1: 50 found, 0 new") {
		t.Errorf("got exit code %d and %q, want that none is new", code, said)
	}
	d.wantStored(0, 0)
}

// A stale token starts the search over, from the same time.
func TestStaleTokenStartsTheSearchOver(t *testing.T) {
	d := newDiscovery(t, envConfig{limit: 1000, quota: 1000})
	d.pass.pages = 2
	d.upstream.Inject(nil, nil, invalidPageToken)
	if code, said := d.search(""); code != exitOK || !strings.Contains(said, "starting over from page 1\npage 1: 50 found, 0 new") {
		t.Errorf("got exit code %d and %q, want that the search starts over", code, said)
	}
	d.wantStored(100, 100)
}

func TestPlaceOfAQueryIsItsBookmark(t *testing.T) {
	chart := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	query := found{query: `"goldener fluß" -live & query=x`, after: chart.Add(-25 * time.Hour)}
	listed := found{query: strings.Repeat("%", maxQuery), after: chart, next: strings.Repeat("CDIQAA", 50)}
	for i := range perPage {
		listed.ids += fmt.Sprintf(".%011d", i)
	}
	for _, at := range []place{{1, "", chart, query}, {2, "CDIQAA", chart, query}, {7, strings.Repeat("CDIQAA", 50), chart, listed}} {
		text := at.bookmark()
		if got, ok := parsePlace(text); !ok || got != at {
			t.Errorf("got %v, %v of %q, want %v", got, ok, text, at)
		}
	}
	for _, text := range []string{"2 CDIQAA 20261121T120000Z query=x", "1 20261121T120000Z after=x&query=y", "1 20261121T120000Z query=%zz", "1 query=x&after=20261121T120000Z x"} {
		if at, ok := parsePlace(text); ok {
			t.Errorf("got %v of %q, want that it is no bookmark", at, text)
		}
	}
}

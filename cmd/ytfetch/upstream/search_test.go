package upstream_test

//ci:norace

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"quotad/cmd/ytfetch/upstream"
)

// results is what a client sees of what search.list answers.
type results struct {
	Kind, NextPageToken string
	PageInfo            struct{ TotalResults, ResultsPerPage int }
	Items               []struct {
		Kind    string
		ID      struct{ Kind, VideoID string }
		Snippet *struct {
			Title, ChannelTitle string
			PublishedAt         time.Time
		}
	}
	Error struct {
		Code   int
		Errors []struct{ Domain, Reason string }
	}
}

var searchedAt = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// searched is an upstream of noon.
func searched() *upstream.Upstream {
	return upstream.New(upstream.Config{Now: func() time.Time { return searchedAt }})
}

// find searches for what the last day has of golden; args are parameters to set.
func find(t *testing.T, u *upstream.Upstream, args ...string) (r results) {
	t.Helper()
	get(t, u, "/search", url.Values{
		"part": {"snippet"}, "type": {"video"}, "order": {"date"}, "q": {"golden"}, "regionCode": {"DE"}, "maxResults": {"50"},
		"publishedAfter": {"2026-11-20T12:00:00Z"}, "key": {"k"},
	}, &r, args...)
	return r
}

func TestSearchFindsTheNewestFirst(t *testing.T) {
	u := searched()
	seen, last, token, pages := map[string]bool{}, searchedAt, "", 0
	for ; pages == 0 || token != ""; pages++ {
		got := find(t, u, "pageToken", token)
		if got.Kind != "youtube#searchListResponse" || len(got.Items) == 0 {
			t.Fatalf("page %d: got %+v, want results of DE", pages+1, got)
		}
		for _, item := range got.Items {
			published := item.Snippet.PublishedAt
			if item.Kind != "youtube#searchResult" || item.ID.Kind != "youtube#video" || len(item.ID.VideoID) != 11 || seen[item.ID.VideoID] ||
				published.After(last) || !strings.Contains(item.Snippet.Title+item.Snippet.ChannelTitle, "Golden") {
				t.Fatalf("page %d: got %+v, want another video of golden, published before %v", pages+1, item, last)
			}
			seen[item.ID.VideoID], last = true, published
		}
		token = got.NextPageToken
	}
	if got := u.Counts(); got.Units != pages*100 || pages < 3 || last.Before(searchedAt.Add(-24*time.Hour)) {
		t.Errorf("got %d units for %d pages back to %v, want 100 for each of 3 or more, of one day", got.Units, pages, last)
	}
}

// A search since the last one finds what is new, and nothing twice.
func TestSearchesOneAfterTheOther(t *testing.T) {
	u := searched()
	all, after := find(t, u).PageInfo.TotalResults, find(t, u, "publishedAfter", "2026-11-21T06:00:00Z").PageInfo.TotalResults
	if after == 0 || after >= all {
		t.Errorf("got %d of the last six hours, %d in all", after, all)
	}
	if other := find(t, u, "regionCode", "FR"); other.Items[0].ID == find(t, u).Items[0].ID {
		t.Error("DE and FR have the same videos")
	}
}

// Any upstream answers with the videos that another one has found: each pass has its own.
func TestVideosByIDAreThoseThatASearchFinds(t *testing.T) {
	found := find(t, searched())
	ids := []string{"chartVideo-", "gone"}
	for _, item := range found.Items[:48] {
		ids = append(ids, item.ID.VideoID)
	}
	var got answer
	u := searched()
	get(t, u, "/videos", url.Values{"part": {"snippet,statistics"}, "id": {strings.Join(ids, ",")}, "key": {"k"}}, &got)
	if len(got.Items) != 48 || u.Counts().Units != 1 {
		t.Fatalf("got %d videos for %d units, want 48 for one", len(got.Items), u.Counts().Units)
	}
	for i, item := range got.Items {
		if item.ID != found.Items[i].ID.VideoID || item.Snippet.Title != found.Items[i].Snippet.Title || item.Statistics.ViewCount == "" {
			t.Errorf("got %+v, want the video %+v", item, found.Items[i])
		}
	}
	var refused answer
	get(t, u, "/videos", url.Values{"part": {"id"}, "id": {strings.Repeat("a,", 50) + "a"}, "key": {"k"}}, &refused)
	if refused.reason() != "invalidParameter" {
		t.Errorf("got %q for 51 ids, want invalidParameter", refused.reason())
	}
}

func TestParametersOfASearchAreChecked(t *testing.T) {
	for _, row := range []struct{ name, parameter, value, reason string }{
		{"unknown region", "regionCode", "XX", "invalidRegionCode"},
		{"no part", "part", "", "missingRequiredParameter"},
		{"more than 50", "maxResults", "51", "invalidParameter"},
		{"no time", "publishedAfter", "yesterday", "badRequest"},
		{"token of another API", "pageToken", "EAAaBlBUOkNESQ", "invalidPageToken"},
		{"token behind the end", "pageToken", "C99999", "invalidPageToken"},
		{"a word that nobody uses", "q", "zyx", ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			u := searched()
			got, reason := find(t, u, row.parameter, row.value), ""
			if len(got.Error.Errors) > 0 {
				reason = got.Error.Errors[0].Reason
			}
			if reason != row.reason || len(got.Items) > 0 || u.Counts().Units != 100 {
				t.Errorf("got %q and %d results for %d units, want %q for 100: an invalid request costs too", reason, len(got.Items), u.Counts().Units, row.reason)
			}
		})
	}
}

// A search that does not fit is refused, and what still fits is served.
func TestSearchOnTheLastUnits(t *testing.T) {
	u := upstream.New(upstream.Config{Quota: 150})
	if got := find(t, u); got.Error.Code != 0 {
		t.Fatalf("got %+v, want results", got.Error)
	}
	if got := find(t, u); got.Error.Code != 403 || got.Error.Errors[0].Reason != "quotaExceeded" {
		t.Errorf("got %+v, want quotaExceeded", got.Error)
	}
	if got := list(t, u); got.Status != 200 || u.Counts().Units != 101 {
		t.Errorf("got %d and %d units, want a page for the 101st", got.Status, u.Counts().Units)
	}
}

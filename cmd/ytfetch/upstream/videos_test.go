package upstream_test

import (
	"strings"
	"testing"

	"quotad/cmd/ytfetch/upstream"
)

func TestChartHasFourPagesAndEnds(t *testing.T) {
	u := upstream.New(upstream.Config{})
	seen := make(map[string]bool)
	token := ""
	for page := 1; page <= 4; page++ {
		got := list(t, u, "pageToken", token)
		if got.Status != 200 || got.Kind != "youtube#videoListResponse" || len(got.Items) != 50 {
			t.Fatalf("page %d: got %d %q with %d items, want 200 youtube#videoListResponse with 50", page, got.Status, got.Kind, len(got.Items))
		}
		if got.PageInfo.TotalResults != 200 || got.PageInfo.ResultsPerPage != 50 {
			t.Errorf("page %d: got pageInfo %+v, want 200 results, 50 a page", page, got.PageInfo)
		}
		if (got.NextPageToken == "") != (page == 4) {
			t.Errorf("page %d: got next %q", page, got.NextPageToken)
		}
		for _, item := range got.Items {
			if len(item.ID) != 11 || seen[item.ID] || item.Snippet.Title == "" || item.Statistics.ViewCount == "" {
				t.Fatalf("page %d: got %+v, want a new video with title and views", page, item)
			}
			seen[item.ID] = true
		}
		token = got.NextPageToken
	}
}

func TestSamplesAreTheSameEveryTimeAndDifferByRegion(t *testing.T) {
	titles := func(region string) string {
		var all []string
		for _, item := range list(t, upstream.New(upstream.Config{}), "regionCode", region).Items {
			all = append(all, item.ID+" "+item.Snippet.Title)
		}
		return strings.Join(all, "\n")
	}
	german, again, french := titles("DE"), titles("DE"), titles("FR")
	if german != again {
		t.Error("two upstreams differ about DE")
	}
	if german == french {
		t.Error("DE and FR have the same chart")
	}
}

func TestParametersAreChecked(t *testing.T) {
	for _, row := range []struct {
		name, parameter, value string
		status                 int
		reason                 string
	}{
		{"unknown region", "regionCode", "XX", 400, "invalidRegionCode"},
		{"region in lower case", "regionCode", "de", 400, "invalidRegionCode"},
		{"no part", "part", "", 400, "missingRequiredParameter"},
		{"no filter", "chart", "", 400, "missingRequiredParameter"},
		{"two filters", "id", "a", 400, "incompatibleParameters"},
		{"unknown chart", "chart", "best", 400, "missingRequiredParameter"},
		{"more than 50", "maxResults", "51", 400, "invalidParameter"},
		{"less than 1", "maxResults", "0", 400, "invalidParameter"},
		{"not a number", "maxResults", "many", 400, "invalidParameter"},
		{"token of another API", "pageToken", "EAAaBlBUOkNESQ", 400, "invalidPageToken"},
		{"not base64", "pageToken", "!", 400, "invalidPageToken"},
		{"token behind the end", "pageToken", "C00200", 400, "invalidPageToken"},
		{"no region means US", "regionCode", "", 200, ""},
		{"5 by default", "maxResults", "", 200, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			u := upstream.New(upstream.Config{})
			got := list(t, u, row.parameter, row.value)
			if got.Status != row.status || got.reason() != row.reason {
				t.Errorf("got %d %q, want %d %q", got.Status, got.reason(), row.status, row.reason)
			}
			if units := u.Counts().Units; units != 1 {
				t.Errorf("got %d units charged, want 1: an invalid request costs too", units)
			}
		})
	}
}

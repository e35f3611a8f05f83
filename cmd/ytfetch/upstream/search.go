package upstream

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The documented shape of what a search finds.
type (
	searchResult struct {
		Kind    string         `json:"kind"`
		Etag    string         `json:"etag"`
		ID      resultID       `json:"id"`
		Snippet *resultSnippet `json:"snippet,omitempty"`
	}
	resultID struct {
		Kind    string `json:"kind"`
		VideoID string `json:"videoId"`
	}
	resultSnippet struct {
		snippet               // without tags and category
		PublishTime time.Time `json:"publishTime"`
	}
)

const (
	maxResults = 500                 // of a search, on all of its pages
	maxSpan    = 30 * 24 * time.Hour // how far a search goes back
)

// search answers search.list: the newest videos whose texts have all words of q.
func (u *Upstream) search(v url.Values) (*list, *refusal) {
	q, now := newQuery(v), u.config.Now()
	var after time.Time
	before := now
	refused := cmp.Or(q.checkParts(), q.setRegion(), q.setSize(0),
		setTime(v.Get("publishedAfter"), &after), setTime(v.Get("publishedBefore"), &before))
	if refused != nil {
		return nil, refused
	}
	if before.After(now) {
		before = now
	}
	if oldest := before.Add(-maxSpan); after.Before(oldest) {
		after = oldest
	}
	found := uploads(q.region, strings.Fields(strings.ToLower(v.Get("q"))), after, before)
	if refused := q.setStart(len(found)); refused != nil {
		return nil, refused
	}
	page := q.page("youtube#searchListResponse", func(rank int) any { return newResult(found[rank], slices.Contains(q.parts, "snippet")) })
	page.RegionCode = q.region
	return page, nil
}

func setTime(text string, at *time.Time) *refusal {
	if text == "" {
		return nil
	}
	var err error
	if *at, err = time.Parse(time.RFC3339, text); err != nil {
		return &refusal{Status: http.StatusBadRequest, Domain: "global", Reason: "badRequest", Message: "Request contains an invalid argument."}
	}
	return nil
}

func newResult(v video, withSnippet bool) searchResult {
	result := searchResult{Kind: "youtube#searchResult", Etag: v.Etag, ID: resultID{"youtube#video", v.ID}}
	if withSnippet {
		result.Snippet = &resultSnippet{*v.Snippet, v.Snippet.PublishedAt}
		result.Snippet.Tags, result.Snippet.CategoryID = nil, ""
	}
	return result
}

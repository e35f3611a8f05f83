package upstream

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// The documented shape of what search.list answers.
type (
	searchList struct {
		Kind          string         `json:"kind"`
		Etag          string         `json:"etag"`
		NextPageToken string         `json:"nextPageToken,omitempty"`
		PrevPageToken string         `json:"prevPageToken,omitempty"`
		RegionCode    string         `json:"regionCode"`
		PageInfo      pageInfo       `json:"pageInfo"`
		Items         []searchResult `json:"items"`
	}
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
func (u *Upstream) search(v url.Values) (any, *refusal) {
	q, found, refused := parseSearch(v, u.config.Now())
	if refused != nil {
		return nil, refused
	}
	end := min(q.start+q.size, q.total)
	list := searchList{
		Kind: "youtube#searchListResponse", Etag: etag(q.region+v.Get("q"), q.start), RegionCode: q.region,
		PageInfo: pageInfo{TotalResults: q.total, ResultsPerPage: end - q.start}, Items: []searchResult{},
	}
	if end < q.total && q.size > 0 {
		list.NextPageToken = pageToken(end, false)
	}
	if q.start > 0 {
		list.PrevPageToken = pageToken(q.start, true)
	}
	for _, one := range found[q.start:end] {
		list.Items = append(list.Items, newResult(one, slices.Contains(q.parts, "snippet")))
	}
	return list, nil
}

// parseSearch checks the parameters and returns what the query finds on all pages.
func parseSearch(v url.Values, now time.Time) (query, []video, *refusal) {
	q, refused := newQuery(v, 0, nil)
	if refused != nil {
		return q, nil, refused
	}
	if order := v.Get("order"); order != "" && !slices.Contains(strings.Fields(knownOrders), order) {
		return q, nil, parameter("order", "invalidParameter", fmt.Sprintf("Invalid value '%s'.", order))
	}
	var after time.Time
	before := now
	for name, at := range map[string]*time.Time{"publishedAfter": &after, "publishedBefore": &before} {
		if refused := setTime(v.Get(name), at); refused != nil {
			return q, nil, refused
		}
	}
	if before.After(now) {
		before = now
	}
	if oldest := before.Add(-maxSpan); after.Before(oldest) {
		after = oldest
	}
	found := uploads(q.region, strings.Fields(strings.ToLower(v.Get("q"))), after, before)
	q.total = len(found)
	return q, found, q.setStart(v.Get("pageToken"))
}

const knownOrders = "date rating relevance title videoCount viewCount"

func setTime(text string, at *time.Time) *refusal {
	if text == "" {
		return nil
	}
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return &refusal{Status: http.StatusBadRequest, Domain: "global", Reason: "badRequest", Message: "Request contains an invalid argument."}
	}
	*at = parsed
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

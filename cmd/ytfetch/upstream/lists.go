package upstream

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const videoList = "youtube#videoListResponse"

// listVideos answers videos.list: videos by their ids, or a page of a region's chart.
func (u *Upstream) listVideos(v url.Values) (*list, *refusal) {
	if v.Has("id") {
		return u.videosByID(v)
	}
	q := newQuery(v)
	if refused := cmp.Or(q.checkParts(), checkFilter(v), q.setRegion(), q.setSize(1), q.setStart(u.config.PagesPerRegion*maxPage)); refused != nil {
		return nil, refused
	}
	return q.page(videoList, func(rank int) any { return newVideo(q.region, rank).only(q.parts) }), nil
}

func checkFilter(v url.Values) *refusal {
	if v.Has("myRating") || !v.Has("chart") {
		return parameter("parameters.", "missingRequiredParameter", "No filter selected. Expected one of: chart, id")
	}
	if v.Get("chart") != "mostPopular" {
		return parameter("chart", "invalidChart", "The requested video chart is not supported or is not available.")
	}
	return nil
}

// videosByID answers with those videos that there are, and passes over any other id.
func (u *Upstream) videosByID(v url.Values) (*list, *refusal) {
	q, ids := newQuery(v), listOf(v["id"])
	if refused := q.checkParts(); refused != nil {
		return nil, refused
	}
	switch {
	case v.Has("chart"), v.Has("myRating"):
		return nil, parameter("parameters.", "incompatibleParameters", "Incompatible parameters specified in the request: chart, id")
	case len(ids) == 0, len(ids) > maxPage:
		return nil, parameter("id", "invalidParameter", fmt.Sprintf("Invalid number of ids. It must be within the range: [1, %d]", maxPage))
	}
	found := newList(videoList, strings.Join(ids, ","), 0)
	for _, id := range ids {
		if one, ok := uploadOf(id); ok && !one.Snippet.PublishedAt.After(u.config.Now()) {
			found.Items = append(found.Items, one.only(q.parts))
		}
	}
	found.PageInfo = pageInfo{len(found.Items), len(found.Items)}
	return found, nil
}

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

// The documented shape of an answer.
type (
	list struct {
		Kind          string   `json:"kind"`
		Etag          string   `json:"etag"`
		NextPageToken string   `json:"nextPageToken,omitempty"`
		RegionCode    string   `json:"regionCode,omitempty"` // of a search
		PageInfo      pageInfo `json:"pageInfo"`
		Items         []any    `json:"items"`
	}
	pageInfo struct {
		TotalResults   int `json:"totalResults"`
		ResultsPerPage int `json:"resultsPerPage"`
	}
)

// A query is a request for one page of a region's chart, or of what a search finds.
type query struct {
	values url.Values
	parts  []string
	region string
	start  int // rank of the first video, from 0
	size   int // videos of a full page
	total  int // videos of all pages
}

const (
	defaultPage = 5
	maxPage     = 50
)

func newQuery(v url.Values) *query {
	return &query{values: v, parts: listOf(v["part"]), size: defaultPage}
}

// listOf splits a parameter that lists something, separated by commas or given more than once.
func listOf(values []string) []string {
	return strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool { return r == ',' })
}

func (q *query) checkParts() *refusal {
	if len(q.parts) == 0 {
		return parameter("part", "missingRequiredParameter", "Missing required parameter: part")
	}
	for _, part := range q.parts {
		if !slices.Contains(strings.Fields(knownParts), part) {
			return parameter("part", "unknownPart", fmt.Sprintf("'%s'", part))
		}
	}
	return nil
}

func (q *query) setRegion() *refusal {
	if q.region = cmp.Or(q.values.Get("regionCode"), "US"); !slices.Contains(strings.Fields(regionCodes), q.region) {
		return parameter("regionCode", "invalidRegionCode", "The <code>regionCode</code> parameter specifies an invalid region code.")
	}
	return nil
}

func (q *query) setSize(min int) *refusal {
	text := q.values.Get("maxResults")
	if text == "" {
		return nil
	}
	size, err := strconv.Atoi(text)
	if err != nil || size < min || size > maxPage {
		return parameter("maxResults", "invalidParameter", fmt.Sprintf("Invalid value '%s'. Values must be within the range: [%d, %d]", text, min, maxPage))
	}
	q.size = size
	return nil
}

// setStart moves to the page that a token names. It refuses a token that no page of that many
// videos could have handed out.
func (q *query) setStart(total int) *refusal {
	q.total = total
	token := q.values.Get("pageToken")
	if token == "" {
		return nil
	}
	offset, ok := parseToken(token)
	if !ok || offset < 1 || offset >= total {
		return parameter("pageToken", "invalidPageToken", "The request specifies an invalid page token.")
	}
	q.start = offset
	return nil
}

// page answers with the page: its videos, by their ranks.
func (q *query) page(kind string, item func(rank int) any) *list {
	end := min(q.start+q.size, q.total)
	page := newList(kind, q.region+q.values.Get("q"), q.start)
	page.PageInfo = pageInfo{TotalResults: q.total, ResultsPerPage: end - q.start}
	if end < q.total && q.size > 0 {
		page.NextPageToken = pageToken(end)
	}
	for rank := q.start; rank < end; rank++ {
		page.Items = append(page.Items, item(rank))
	}
	return page
}

func newList(kind, of string, start int) *list {
	return &list{Kind: kind, Etag: opaque(randomOf("etag "+of, start), 20), Items: []any{}}
}

// Page tokens have the look of the real ones, "CDIQAA": base64 of two varint fields, an
// offset into the chart and 0.
const (
	offsetField    = 1 << 3
	directionField = 2 << 3
)

func pageToken(offset int) string {
	raw := binary.AppendUvarint([]byte{offsetField}, uint64(offset))
	return base64.RawURLEncoding.EncodeToString(append(raw, directionField, 0))
}

func parseToken(token string) (offset int, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < 4 {
		return 0, false
	}
	value, _ := binary.Uvarint(raw[1:])
	offset = int(min(value, 1<<20))
	return offset, pageToken(offset) == token
}

const knownParts = "contentDetails fileDetails id liveStreamingDetails localizations player processingDetails " +
	"recordingDetails snippet statistics status suggestions topicDetails"

// regionCodes are the content regions that the API names; any other code is
// refused, also where ISO 3166-1 knows it.
const regionCodes = "AE AR AT AU AZ BA BD BE BG BH BO BR BY CA CH CL CO CR CY CZ DE DK DO DZ EC EE EG ES FI FR GB GE GH " +
	"GR GT HK HN HR HU ID IE IL IN IQ IS IT JM JO JP KE KH KR KW KZ LA LB LI LK LT LU LV LY MA MD ME MK MT MX MY NG NI " +
	"NL NO NP NZ OM PA PE PG PH PK PL PR PT PY QA RO RS RU SA SE SG SI SK SN SV TH TN TR TW TZ UA UG US UY VE VN YE ZA ZW"

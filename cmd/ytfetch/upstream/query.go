package upstream

import (
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

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

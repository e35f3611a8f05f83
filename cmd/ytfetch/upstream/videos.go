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
	"time"
)

// A query is a valid request for one page of a region's chart, or of what a search finds.
type query struct {
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

// newQuery checks the parameters that both operations have, in the order in which the API does.
// check may check others after the parts.
func newQuery(v url.Values, minSize int, check func(url.Values) *refusal) (query, *refusal) {
	q := query{parts: listOf(v["part"]), size: defaultPage}
	refused := checkParts(q.parts)
	if refused == nil && check != nil {
		refused = check(v)
	}
	if refused == nil {
		refused = q.setRegion(v.Get("regionCode"))
	}
	if refused == nil {
		refused = q.setSize(v.Get("maxResults"), minSize)
	}
	return q, refused
}

// parseChart checks the parameters of a request for a page of a region's chart.
func parseChart(v url.Values, pages int) (query, *refusal) {
	q, refused := newQuery(v, 1, checkFilter)
	if refused != nil {
		return q, refused
	}
	q.total = pages * maxPage
	return q, q.setStart(v.Get("pageToken"))
}

// videosByID answers with those videos that there are; any other id is passed over.
func videosByID(v url.Values, now time.Time) (any, *refusal) {
	parts, ids := listOf(v["part"]), listOf(v["id"])
	if refused := checkParts(parts); refused != nil {
		return nil, refused
	}
	switch {
	case v.Has("chart"), v.Has("myRating"):
		return nil, parameter("parameters.", "incompatibleParameters", "Incompatible parameters specified in the request: chart, id")
	case len(ids) == 0, len(ids) > maxPage:
		return nil, parameter("id", "invalidParameter", fmt.Sprintf("Invalid number of ids. It must be within the range: [1, %d]", maxPage))
	}
	list := videoList{Kind: "youtube#videoListResponse", Etag: etag(strings.Join(ids, ","), 0), Items: []video{}}
	for _, id := range ids {
		if found, ok := uploadOf(id); ok && !found.Snippet.PublishedAt.After(now) {
			list.Items = append(list.Items, found.only(parts))
		}
	}
	list.PageInfo = pageInfo{len(list.Items), len(list.Items)}
	return list, nil
}

// listOf splits a parameter that lists something, separated by commas or given more than once.
func listOf(values []string) []string {
	return strings.FieldsFunc(strings.Join(values, ","), func(r rune) bool { return r == ',' })
}

func (q *query) setRegion(code string) *refusal {
	if q.region = cmp.Or(code, "US"); !slices.Contains(strings.Fields(regionCodes), q.region) {
		return parameter("regionCode", "invalidRegionCode", "The <code>regionCode</code> parameter specifies an invalid region code.")
	}
	return nil
}

func checkParts(parts []string) *refusal {
	if len(parts) == 0 {
		return parameter("part", "missingRequiredParameter", "Missing required parameter: part")
	}
	for _, part := range parts {
		if !slices.Contains(strings.Fields(knownParts), part) {
			return parameter("part", "unknownPart", fmt.Sprintf("'%s'", part))
		}
	}
	return nil
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

func (q *query) setSize(maxResults string, min int) *refusal {
	if maxResults == "" {
		return nil
	}
	size, err := strconv.Atoi(maxResults)
	if err != nil || size < min || size > maxPage {
		return parameter("maxResults", "invalidParameter",
			fmt.Sprintf("Invalid value '%s'. Values must be within the range: [%d, %d]", maxResults, min, maxPage))
	}
	q.size = size
	return nil
}

// setStart moves to the page that a token names; a token that no page of this
// chart could have handed out is refused.
func (q *query) setStart(token string) *refusal {
	if token == "" {
		return nil
	}
	offset, back, ok := parseToken(token)
	if !ok || offset < 1 || offset >= q.total {
		return parameter("pageToken", "invalidPageToken", "The request specifies an invalid page token.")
	}
	q.start = offset
	if back {
		q.start = max(0, offset-q.size)
	}
	return nil
}

func (q query) answer() videoList {
	end := min(q.start+q.size, q.total)
	list := videoList{
		Kind: "youtube#videoListResponse", Etag: etag(q.region, q.start),
		PageInfo: pageInfo{TotalResults: q.total, ResultsPerPage: end - q.start},
		Items:    make([]video, 0, q.size),
	}
	if end < q.total {
		list.NextPageToken = pageToken(end, false)
	}
	if q.start > 0 {
		list.PrevPageToken = pageToken(q.start, true)
	}
	for rank := q.start; rank < end; rank++ {
		list.Items = append(list.Items, newVideo(q.region, rank).only(q.parts))
	}
	return list
}

// Page tokens have the look of the real ones, "CDIQAA": base64 of two varint
// fields, an offset into the chart and whether the page lies before it.
const (
	offsetField    = 1 << 3
	directionField = 2 << 3
)

func pageToken(offset int, back bool) string {
	raw := binary.AppendUvarint([]byte{offsetField}, uint64(offset))
	direction := byte(0)
	if back {
		direction = 1
	}
	return base64.RawURLEncoding.EncodeToString(append(raw, directionField, direction))
}

func parseToken(token string) (offset int, back, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(raw) < 4 || raw[0] != offsetField {
		return 0, false, false
	}
	value, n := binary.Uvarint(raw[1:])
	if n < 1 || value > 1<<20 {
		return 0, false, false
	}
	offset, back = int(value), raw[len(raw)-1] == 1
	return offset, back, pageToken(offset, back) == token
}

const knownParts = "contentDetails fileDetails id liveStreamingDetails localizations player processingDetails " +
	"recordingDetails snippet statistics status suggestions topicDetails"

// regionCodes are the content regions that the API names; any other code is
// refused, also where ISO 3166-1 knows it.
const regionCodes = "AE AR AT AU AZ BA BD BE BG BH BO BR BY CA CH CL CO CR CY CZ DE DK DO DZ EC EE EG ES FI FR GB GE GH " +
	"GR GT HK HN HR HU ID IE IL IN IQ IS IT JM JO JP KE KH KR KW KZ LA LB LI LK LT LU LV LY MA MD ME MK MT MX MY NG NI " +
	"NL NO NP NZ OM PA PE PG PH PK PL PR PT PY QA RO RS RU SA SE SG SI SK SN SV TH TN TR TW TZ UA UG US UY VE VN YE ZA ZW"

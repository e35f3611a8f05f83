package upstream

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	maxPage    = 50
	maxResults = 500                 // of a search, on all of its pages
	maxSpan    = 30 * 24 * time.Hour // how far a search goes back
)

// An object is one of JSON, in the documented shape. Counts are strings, as the API sends them.
type object map[string]any

// videos answers videos.list: videos by their ids, or a page of a region's chart.
func (u *Upstream) videos(v url.Values) (object, *refusal) {
	region, refused := regionOf(v)
	ids := strings.Split(v.Get("id"), ",")
	switch {
	case refused != nil:
		return nil, refused
	case v.Has("id") && len(ids) > maxPage:
		return nil, invalid("invalidParameter", "Invalid number of ids. It must be within the range: [1, 50]")
	case v.Has("id"):
		ids = slices.DeleteFunc(ids, func(id string) bool { return len(id) != 11 }) // as those are that a search finds
		return pageOf("video", url.Values{"maxResults": {"50"}}, len(ids), func(i int) object { return upload(ids[i]) })
	case v.Get("chart") != "mostPopular":
		return nil, invalid("missingRequiredParameter", "No filter selected. Expected one of: chart, id")
	}
	return pageOf("video", v, u.config.PagesPerRegion*maxPage, func(rank int) object {
		random := randomOf(region, rank)
		published := time.Date(2026, 1, 1, random.IntN(24*28), random.IntN(60), 0, 0, time.UTC)
		return invent(random, fmt.Sprintf("%schart%04d", region, rank), rank, published, "popular in "+region)
	})
}

// search answers search.list: the newest videos whose texts have all words of q. Each region has a new one each minute:
// a search finds what is new since the last one.
func (u *Upstream) search(v url.Values) (object, *refusal) {
	now := u.config.Now()
	region, refused := regionOf(v)
	after, err := time.Parse(time.RFC3339, cmp.Or(v.Get("publishedAfter"), now.Add(-maxSpan).Format(time.RFC3339)))
	if err != nil {
		refused = &refusal{400, "global", "badRequest", "Request contains an invalid argument."}
	}
	if refused != nil {
		return nil, refused
	}
	var found []object
	words := strings.Fields(strings.ToLower(strings.ReplaceAll(v.Get("q"), `"`, "")))
	oldest := max(after.Unix(), now.Add(-maxSpan).Unix())
	for at := now.Unix(); at >= oldest && len(found) < maxResults; at -= 60 {
		if one := upload(fmt.Sprintf("%s%09d", region, at/60)); one.has(words) {
			found = append(found, one)
		}
	}
	return pageOf("search", v, len(found), func(rank int) object {
		return object{"kind": "youtube#searchResult", "snippet": found[rank]["snippet"],
			"id": object{"kind": "youtube#video", "videoId": found[rank]["id"]}}
	})
}

// regionOf checks what all requests have. XX is no region, so that you can meet its refusal.
func regionOf(v url.Values) (string, *refusal) {
	region := cmp.Or(v.Get("regionCode"), "US")
	switch {
	case v.Get("part") == "":
		return "", invalid("missingRequiredParameter", "Missing required parameter: part")
	case len(region) != 2 || strings.Trim(region, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" || region == "XX":
		return "", invalid("invalidRegionCode", "The <code>regionCode</code> parameter specifies an invalid region code.")
	}
	return region, nil
}

// pageOf answers with a page of as many items as there are in all. A page token names the first one.
func pageOf(kind string, v url.Values, total int, item func(i int) object) (object, *refusal) {
	size, err := strconv.Atoi(cmp.Or(v.Get("maxResults"), "5"))
	if err != nil || size < 1 || size > maxPage {
		return nil, invalid("invalidParameter", "Invalid value. Values must be within the range: [1, 50]")
	}
	start := 0
	if token := v.Get("pageToken"); token != "" {
		if start, err = strconv.Atoi(strings.TrimPrefix(token, "C")); err != nil || start < 1 || start >= total {
			return nil, invalid("invalidPageToken", "The request specifies an invalid page token.")
		}
	}
	end, items := min(start+size, total), []object{}
	for i := start; i < end; i++ {
		items = append(items, item(i))
	}
	page := object{"kind": "youtube#" + kind + "ListResponse", "items": items,
		"pageInfo": object{"totalResults": total, "resultsPerPage": end - start}}
	if end < total {
		page["nextPageToken"] = fmt.Sprintf("C%05d", end)
	}
	return page, nil
}

// upload invents the video of an id: always the same one, in any process.
func upload(id string) object {
	minute, _ := strconv.ParseInt(id[2:], 10, 64)
	random := randomOf(id, 0)
	return invent(random, id, 10_000, time.Unix(minute*60, 0).UTC(), "new in "+id[:2])
}

// invent makes up a video that is as popular as one at a rank of a chart. The chart mixes music, films and games, as it
// does since July 2025.
func invent(random *rand.Rand, id string, rank int, published time.Time, why string) object {
	name := func() string { return pick(random, firstWords) + " " + pick(random, secondWords) }
	channel, work, views := name(), name(), 40_000_000/(rank+4)+random.IntN(50_000)
	kind := []struct{ category, title, tag string }{
		{"10", channel + " - " + work + " (Official Video)", "music"},
		{"1", work + " | Official Trailer", "film"},
		{"20", work + ": the first hour", "games"},
	}[random.IntN(3)]
	return object{
		"kind": "youtube#video", "id": id,
		"snippet": object{
			"publishedAt": published, "channelTitle": channel, "title": kind.title, "categoryId": kind.category,
			"description": fmt.Sprintf("%s by %s, %s.", work, channel, why), "tags": []string{kind.tag, channel},
		},
		"contentDetails": object{"duration": fmt.Sprintf("PT%dM%dS", 1+random.IntN(20), random.IntN(60))},
		"statistics":     object{"viewCount": strconv.Itoa(views), "likeCount": strconv.Itoa(views / 20)},
	}
}

// has reports whether a video's title and channel have these words. Those after a "-" are left out, as of no meaning.
func (v object) has(words []string) bool {
	snippet := v["snippet"].(object)
	text := strings.ToLower(fmt.Sprint(snippet["title"], " ", snippet["channelTitle"]))
	return !slices.ContainsFunc(words, func(word string) bool { return word[0] != '-' && !strings.Contains(text, word) })
}

const (
	firstWords = "Midnight Paper Silver Broken Velvet Northern Electric Hidden Summer Falling Golden Quiet Crimson " +
		"Distant Wild Neon"
	secondWords = "Rivers Lanterns Machines Gardens Horizon Letters Engines Harbour Shadows Kingdom Mirrors Thunder " +
		"Islands Circus Echoes Parade"
)

func pick(random *rand.Rand, words string) string {
	all := strings.Fields(words)
	return all[random.IntN(len(all))]
}

func randomOf(seed string, rank int) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(seed))
	return rand.New(rand.NewPCG(hash.Sum64(), uint64(rank)))
}

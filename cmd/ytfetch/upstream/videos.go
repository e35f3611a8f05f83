package upstream

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
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

package upstream

import (
	"encoding/base64"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The documented shape of a video. Counts are strings, as the API sends them.
type (
	video struct {
		Kind       string      `json:"kind"`
		Etag       string      `json:"etag"`
		ID         string      `json:"id"`
		Snippet    *snippet    `json:"snippet,omitempty"`
		Details    *details    `json:"contentDetails,omitempty"`
		Statistics *statistics `json:"statistics,omitempty"`
	}
	details struct {
		Duration string `json:"duration"`
	}
	snippet struct {
		PublishedAt          time.Time            `json:"publishedAt"`
		ChannelID            string               `json:"channelId"`
		Title                string               `json:"title"`
		Description          string               `json:"description"`
		Thumbnails           map[string]thumbnail `json:"thumbnails"`
		ChannelTitle         string               `json:"channelTitle"`
		Tags                 []string             `json:"tags,omitempty"`
		CategoryID           string               `json:"categoryId,omitempty"`
		LiveBroadcastContent string               `json:"liveBroadcastContent"`
	}
	thumbnail struct {
		URL    string `json:"url"`
		Width  int    `json:"width"`
		Height int    `json:"height"`
	}
	statistics struct {
		ViewCount     string `json:"viewCount"`
		LikeCount     string `json:"likeCount"`
		FavoriteCount string `json:"favoriteCount"`
		CommentCount  string `json:"commentCount"`
	}
)

// only leaves out the parts that were not requested.
func (v video) only(parts []string) video {
	if !slices.Contains(parts, "snippet") {
		v.Snippet = nil
	}
	if !slices.Contains(parts, "contentDetails") {
		v.Details = nil
	}
	if !slices.Contains(parts, "statistics") {
		v.Statistics = nil
	}
	return v
}

// newVideo invents the video at a rank of a region's chart: always the same one.
func newVideo(region string, rank int) video {
	random := randomOf(region, rank)
	return invent(random, opaque(random, 8), region, rank)
}

// invent makes up a video that is as popular as one at a rank of a chart.
func invent(random *rand.Rand, id, region string, rank int) video {
	return video{
		Kind: "youtube#video", Etag: opaque(random, 20), ID: id,
		Snippet:    newSnippet(random, id, region),
		Statistics: newStatistics(random, rank),
		Details:    &details{fmt.Sprintf("PT%dM%dS", 1+random.IntN(20), random.IntN(60))},
	}
}

// The chart mixes music, films and games, as it does since July 2025.
const (
	musicCategory = "10"
	filmCategory  = "1"
	gameCategory  = "20"
)

const (
	firstWords  = "Midnight Paper Silver Broken Velvet Northern Electric Hidden Summer Falling Golden Quiet Crimson Distant Wild Neon"
	secondWords = "Rivers Lanterns Machines Gardens Horizon Letters Engines Harbour Shadows Kingdom Mirrors Thunder Islands Circus Echoes Parade"
)

func newSnippet(random *rand.Rand, id, region string) *snippet {
	channel := pick(random, firstWords) + " " + pick(random, secondWords)
	work := pick(random, firstWords) + " " + pick(random, secondWords)
	s := &snippet{
		PublishedAt: time.Date(2026, 1, 1, random.IntN(24*28), random.IntN(60), 0, 0, time.UTC),
		ChannelID:   "UC" + opaque(random, 16), ChannelTitle: channel,
		Description: fmt.Sprintf("%s by %s, popular in %s.", work, channel, region),
		Thumbnails: map[string]thumbnail{
			"default": {URL: "https://i.ytimg.com/vi/" + id + "/default.jpg", Width: 120, Height: 90},
			"high":    {URL: "https://i.ytimg.com/vi/" + id + "/hqdefault.jpg", Width: 480, Height: 360},
		},
		LiveBroadcastContent: "none",
	}
	switch random.IntN(3) {
	case 0:
		s.CategoryID, s.Title, s.Tags = musicCategory, channel+" - "+work+" (Official Video)", []string{"music", channel}
	case 1:
		s.CategoryID, s.Title, s.Tags = filmCategory, work+" | Official Trailer", []string{"film", "official trailer"}
	default:
		s.CategoryID, s.Title, s.Tags = gameCategory, work+": the first hour", []string{"games", "let's play"}
	}
	return s
}

func newStatistics(random *rand.Rand, rank int) *statistics {
	views := 40_000_000/(rank+4) + random.IntN(50_000)
	return &statistics{
		ViewCount: strconv.Itoa(views), LikeCount: strconv.Itoa(views / (15 + random.IntN(20))),
		FavoriteCount: "0", CommentCount: strconv.Itoa(views / (300 + random.IntN(500))),
	}
}

func randomOf(seed string, rank int) *rand.Rand {
	hash := fnv.New64a()
	hash.Write([]byte(seed))
	return rand.New(rand.NewPCG(hash.Sum64(), uint64(rank)))
}

func opaque(random *rand.Rand, size int) string {
	raw := make([]byte, size)
	for i := range raw {
		raw[i] = byte(random.Uint32())
	}
	return base64.RawURLEncoding.EncodeToString(raw)
}

func pick(random *rand.Rand, words string) string {
	all := strings.Fields(words)
	return all[random.IntN(len(all))]
}

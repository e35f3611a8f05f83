package upstream

import (
	"encoding/base64"
	"encoding/binary"
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

// Each region has a new video each minute: a search finds what is new since the last one. The id
// of an upload identifies it, so that any process answers the same.

// uploads returns the videos of a region that were published within a time and have all
// words, the newest first.
func uploads(region string, words []string, after, before time.Time) (found []video) {
	for minute := before.Unix() / 60; minute*60 >= after.Unix() && len(found) < maxResults; minute-- {
		one := upload(region, minute)
		published := one.Snippet.PublishedAt
		if !published.Before(after) && !published.After(before) && one.Snippet.has(words) {
			found = append(found, one)
		}
	}
	return found
}

// upload invents the video of a minute since 1970: always the same one.
func upload(region string, minute int64) video {
	random := randomOf("upload "+region, int(minute))
	v := invent(random, uploadID(region, minute), region, 10_000)
	v.Snippet.PublishedAt = time.Unix(minute*60+int64(random.IntN(60)), 0).UTC()
	v.Snippet.Description = fmt.Sprintf("New in %s: %s.", region, v.Snippet.Title)
	return v
}

// uploadOf returns the upload that an id names.
func uploadOf(id string) (v video, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(id)
	if err != nil || len(raw) != 8 {
		return v, false
	}
	code := binary.BigEndian.Uint64(raw) * mixedBack
	region := string([]byte{byte(code >> 40), byte(code >> 32)})
	if code>>48 != 0 || !slices.Contains(strings.Fields(regionCodes), region) {
		return v, false
	}
	v = upload(region, int64(uint32(code)))
	return v, v.ID == id
}

// A multiplication by mixed makes ids look like any other; one by mixedBack undoes it.
const (
	mixed     = 0x9E3779B97F4A7C15
	mixedBack = 0xF1DE83E19937733D
)

func uploadID(region string, minute int64) string {
	code := uint64(region[0])<<40 | uint64(region[1])<<32 | uint64(uint32(minute))
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint64(nil, code*mixed))
}

// has reports whether each of these words begins a word of the title or the channel, and none
// of those after a "-" does.
func (s *snippet) has(words []string) bool {
	text := " " + strings.ToLower(s.Title+" "+s.ChannelTitle)
	return !slices.ContainsFunc(words, func(word string) bool {
		word, without := strings.CutPrefix(strings.Trim(word, `"`), "-")
		return strings.Contains(text, " "+word) == without
	})
}

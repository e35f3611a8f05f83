package upstream

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"time"
)

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

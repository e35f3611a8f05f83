package store

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// An item is a video as videos.list answers it. Its counts are texts.
type item struct {
	ID      string `json:"id"`
	Snippet struct {
		PublishedAt  time.Time `json:"publishedAt"`
		ChannelID    string    `json:"channelId"`
		ChannelTitle string    `json:"channelTitle"`
		Title        string    `json:"title"`
		Description  string    `json:"description"`
		CategoryID   string    `json:"categoryId"`
		Tags         []string  `json:"tags"`
	} `json:"snippet"`
	ContentDetails struct {
		Duration string `json:"duration"`
	} `json:"contentDetails"`
	Statistics struct {
		ViewCount    string `json:"viewCount"`
		LikeCount    string `json:"likeCount"`
		CommentCount string `json:"commentCount"`
	} `json:"statistics"`

	raw string // on one line
}

func readItem(raw json.RawMessage) (item, error) {
	var line bytes.Buffer
	if err := json.Compact(&line, raw); err != nil {
		return item{}, err
	}
	it := item{raw: strings.ToValidUTF8(line.String(), "\uFFFD")}
	if err := json.Unmarshal(raw, &it); err != nil {
		return item{}, err
	}
	if it.ID == "" {
		return item{}, errors.New("it has no id")
	}
	return it, nil
}

// count reads a count; nil where upstream hides it.
func count(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// seconds reads a duration of ISO 8601 as upstream writes it, "PT4M13S" or "P1DT2H"; nil
// where it is none.
func seconds(text string) *int64 {
	rest, found := strings.CutPrefix(text, "P")
	if !found || rest == "" {
		return nil
	}
	total, inTime := int64(0), false
	for rest != "" {
		if rest[0] == 'T' {
			rest, inTime = rest[1:], true
			continue
		}
		i := strings.IndexFunc(rest, func(r rune) bool { return r < '0' || r > '9' })
		if i < 1 {
			return nil
		}
		n, err := strconv.ParseInt(rest[:i], 10, 32)
		unit := unitSeconds(rest[i], inTime)
		if err != nil || unit == 0 {
			return nil
		}
		total, rest = total+n*unit, rest[i+1:]
	}
	return &total
}

func unitSeconds(letter byte, inTime bool) int64 {
	switch {
	case letter == 'S' && inTime:
		return 1
	case letter == 'M' && inTime:
		return 60
	case letter == 'H' && inTime:
		return 3600
	case letter == 'D' && !inTime:
		return 86400
	case letter == 'W' && !inTime:
		return 7 * 86400
	default:
		return 0
	}
}

// readItems reads those of a page.
func readItems(raw []json.RawMessage) ([]item, error) {
	items := make([]item, 0, len(raw))
	for i, one := range raw {
		it, err := readItem(one)
		if err != nil {
			return nil, fmt.Errorf("item %d is no video: %w", i+1, err)
		}
		items = append(items, it)
	}
	return items, nil
}

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
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
}

// readItems reads those of a page.
func readItems(raw []json.RawMessage) ([]item, error) {
	items := make([]item, len(raw))
	for i := range raw {
		if err := items[i].read(raw[i]); err != nil {
			return nil, fmt.Errorf("item %d is not a video: %w", i+1, err)
		}
	}
	return items, nil
}

func (it *item) read(raw json.RawMessage) error {
	if err := json.Unmarshal(raw, it); err != nil {
		return err
	}
	if it.ID == "" {
		return errors.New("it has no id")
	}
	return nil
}

// count reads a count; nil where upstream hides it.
func count(text string) *int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

// duration matches one of ISO 8601 as upstream writes it.
var duration = regexp.MustCompile(`^P(?:(\d{1,9})W)?(?:(\d{1,9})D)?(?:T(?:(\d{1,9})H)?(?:(\d{1,9})M)?(?:(\d{1,9})S)?)?$`)

// seconds reads a duration such as "PT4M13S" or "P1DT2H"; nil where it is none.
func seconds(text string) *int64 {
	match := duration.FindStringSubmatch(text)
	if match == nil || text == "P" {
		return nil
	}
	total := int64(0)
	for i, unit := range [...]int64{7 * 86400, 86400, 3600, 60, 1} {
		n, _ := strconv.ParseInt(match[i+1], 10, 64) // 0 where the part is absent
		total += n * unit
	}
	return &total
}

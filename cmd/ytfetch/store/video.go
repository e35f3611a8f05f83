package store

import (
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// A Video is what is known of a video. What upstream left out is absent.
type Video struct {
	ID          string     `json:"id"`
	Title       string     `json:"title"`
	Channel     string     `json:"channel"`
	ChannelID   string     `json:"channel_id"`
	Category    string     `json:"category"`
	Tags        []string   `json:"tags"`
	Description string     `json:"description"`
	Published   *time.Time `json:"published,omitempty"`
	DurationS   *int64     `json:"duration_s,omitempty"`
	Views       *int64     `json:"views,omitempty"`
	Likes       *int64     `json:"likes,omitempty"`
	Comments    *int64     `json:"comments,omitempty"`
	FirstSeen   time.Time  `json:"first_seen"`
	LastSeen    time.Time  `json:"last_seen"`
	Regions     []string   `json:"regions"` // with it in a chart, or in what a query found
}

// video reads the row with a number.
func (s *Store) video(number int64) (v Video, err error) {
	err = s.query(`SELECT id, title, channel, channel_id, category, tags, description, published, duration_s, views, likes, comments, first_seen, last_seen
FROM videos WHERE number = ?`, []any{number}, func(row *sqlite3.Stmt) {
		v.ID, v.Title, v.Channel, v.ChannelID = row.ColumnText(0), row.ColumnText(1), row.ColumnText(2), row.ColumnText(3)
		v.Category, v.Tags, v.Description = row.ColumnText(4), splitTags(row.ColumnText(5)), row.ColumnText(6)
		if published := timeOf(row, 7); !published.IsZero() {
			v.Published = &published
		}
		v.DurationS, v.Views, v.Likes, v.Comments = numberOf(row, 8), numberOf(row, 9), numberOf(row, 10), numberOf(row, 11)
		v.FirstSeen, v.LastSeen = timeOf(row, 12), timeOf(row, 13)
	})
	if err != nil {
		return v, fmt.Errorf("cannot read a video: %w", err)
	}
	v.Regions, err = s.regions(number)
	return v, err
}

// regions returns the regions whose charts had a video. It jumps from one to the next: a video
// has a row for each slot.
func (s *Store) regions(number int64) ([]string, error) {
	list, last := []string{}, ""
	for {
		next := ""
		err := s.query("SELECT region FROM appearances WHERE video = ? AND region > ? ORDER BY region LIMIT 1", []any{number, last},
			func(row *sqlite3.Stmt) { next = row.ColumnText(0) })
		if err != nil || next == "" {
			return list, err
		}
		list, last = append(list, next), next
	}
}

// Tags stand one a line, because a tag may hold a comma.
func joinTags(tags []string) string { return strings.Join(tags, "\n") }

func splitTags(text string) []string {
	if text == "" {
		return []string{}
	}
	return strings.Split(text, "\n")
}

package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// ErrUnknown is the error for a video that is not there.
var ErrUnknown = errors.New("no such video is stored")

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

	number int64
}

// A Stay is how a video did in a region's charts, or where a query found it.
type Stay struct {
	Region    string    `json:"region"`
	Query     string    `json:"query,omitempty"`
	Charts    int       `json:"charts"`
	First     time.Time `json:"first"` // slot
	Last      time.Time `json:"last"`
	BestRank  int       `json:"best_rank"`
	LastRank  int       `json:"last_rank"`
	LastViews *int64    `json:"last_views,omitempty"`
}

// A Portrait is all that is stored of a video.
type Portrait struct {
	Video
	Stays []Stay          `json:"stays"`
	Raw   json.RawMessage `json:"raw"` // as upstream wrote it
}

// Show returns all of a video. The error is ErrUnknown for one that is not there.
func (s *Store) Show(id string) (Portrait, error) {
	video, err := s.video("id = ?", id)
	if err != nil {
		return Portrait{}, err
	}
	p := Portrait{Video: video}
	if p.Stays, err = s.stays(video.number); err != nil {
		return p, err
	}
	p.Raw, err = s.raw(video)
	return p, err
}

func (s *Store) raw(v Video) (raw json.RawMessage, err error) {
	var packed []byte
	err = s.query("SELECT raw FROM videos WHERE number = ?", []any{v.number}, func(row *sqlite3.Stmt) { packed = row.ColumnBlob(0, nil) })
	if err == nil {
		raw, err = unpack(packed, textsOf(v.Title, v.Channel, joinTags(v.Tags), v.Description))
	}
	if err != nil {
		return nil, fmt.Errorf("cannot read what upstream wrote: %w", err)
	}
	return raw, nil
}

// video reads the row for which a condition holds.
func (s *Store) video(condition string, arg any) (v Video, err error) {
	found := false
	err = s.query(`SELECT number, id, title, channel, channel_id, category, tags, description, published, duration_s, views, likes, comments, first_seen, last_seen
FROM videos WHERE `+condition, []any{arg}, func(row *sqlite3.Stmt) {
		found = true
		v.number, v.ID, v.Title, v.Channel, v.ChannelID = row.ColumnInt64(0), row.ColumnText(1), row.ColumnText(2), row.ColumnText(3), row.ColumnText(4)
		v.Category, v.Tags, v.Description = row.ColumnText(5), splitTags(row.ColumnText(6)), row.ColumnText(7)
		if published := timeOf(row, 8); !published.IsZero() {
			v.Published = &published
		}
		v.DurationS, v.Views, v.Likes, v.Comments = numberOf(row, 9), numberOf(row, 10), numberOf(row, 11), numberOf(row, 12)
		v.FirstSeen, v.LastSeen = timeOf(row, 13), timeOf(row, 14)
	})
	switch {
	case err != nil:
		return v, fmt.Errorf("cannot read a video: %w", err)
	case !found:
		return v, ErrUnknown
	}
	v.Regions, err = s.regions(v.number)
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

func (s *Store) stays(number int64) ([]Stay, error) {
	list := []Stay{}
	// A bare column beside max() is of the row that has the maximum: SQLite.
	const sql = `SELECT region, query, count(*), min(slot), max(slot), rank, views,
	(SELECT min(rank) FROM appearances AS each WHERE video = ?1 AND each.region = appearances.region AND each.query = appearances.query)
FROM appearances WHERE video = ?1 GROUP BY region, query ORDER BY region, query`
	err := s.query(sql, []any{number}, func(row *sqlite3.Stmt) {
		list = append(list, Stay{
			Region: row.ColumnText(0), Query: row.ColumnText(1), Charts: row.ColumnInt(2), First: timeOf(row, 3), Last: timeOf(row, 4),
			LastRank: row.ColumnInt(5), LastViews: numberOf(row, 6), BestRank: row.ColumnInt(7),
		})
	})
	return list, err
}

// Tags stand one a line, because a tag may hold a comma.
func joinTags(tags []string) string { return strings.Join(tags, "\n") }

func splitTags(text string) []string {
	if text == "" {
		return []string{}
	}
	return strings.Split(text, "\n")
}

package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// A Chart is a region's chart as one pass began to fetch it. Region and Slot tell it
// from others.
type Chart struct {
	Region    string
	Slot      time.Time // of the pass that began it; to the second
	Arguments string    // what was asked for, as far as the answer depends on it
}

// A Page is one page of a chart, as upstream answered it.
type Page struct {
	Chart
	Number int               // from 1
	First  int               // the rank of its first item, from 1
	Items  []json.RawMessage // as upstream wrote them
	Next   string            // the token of the page after it; empty: it is the last
	Done   bool              // no further page is wanted
	At     time.Time         // when upstream answered
}

// Progress is how far a chart is stored.
type Progress struct {
	Began time.Time // when its first page was stored
	Pages int       // the number of the last page that is stored; 0: nothing is
	Next  string    // the token of the page behind it; empty: there is none
	Done  bool      // as many pages as asked for are stored
}

// Save stores a page, and with it how far the chart is. It takes the place of what that
// page held. After an error nothing is changed; after nil it is on disk.
func (s *Store) Save(p Page) error {
	items, err := readItems(p.Items)
	if err != nil {
		return err
	}
	return s.transact(func() error {
		if err := s.clear(p, len(items)); err != nil {
			return err
		}
		for i, it := range items {
			if err := s.saveItem(p, p.First+i, it); err != nil {
				return err
			}
		}
		return s.advance(p)
	})
}

// perPage is how many ranks lie between the first ones of two pages.
const perPage = 50

// clear removes what the page held, and behind the last page what was there when the
// chart was longer.
func (s *Store) clear(p Page, items int) error {
	to := p.First + max(perPage, items) - 1
	if p.Next == "" {
		to = 1 << 30
	}
	return s.exec("DELETE FROM appearances WHERE region = ? AND slot = ? AND rank BETWEEN ? AND ?", p.Region, p.Slot, p.First, to)
}

func (s *Store) saveItem(p Page, rank int, it item) error {
	number, err := s.upsert(p.At, it)
	if err != nil {
		return fmt.Errorf("cannot store video %q: %w", it.ID, err)
	}
	return s.exec("INSERT INTO appearances (region, slot, rank, video, views) VALUES (?, ?, ?, ?, ?)",
		p.Region, p.Slot, rank, number, count(it.Statistics.ViewCount))
}

// upsert stores what upstream said at a time, unless it has said something since.
func (s *Store) upsert(at time.Time, it item) (number int64, err error) {
	const insert = `
INSERT INTO videos (id, first_seen, last_seen, published, duration_s, views, likes, comments, category, channel_id, channel, title, tags, description, raw)
VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)
ON CONFLICT (id) DO UPDATE SET
	last_seen = excluded.last_seen, published = excluded.published, duration_s = excluded.duration_s,
	views = excluded.views, likes = excluded.likes, comments = excluded.comments, category = excluded.category,
	channel_id = excluded.channel_id, channel = excluded.channel, title = excluded.title, tags = excluded.tags,
	description = excluded.description, raw = excluded.raw
WHERE excluded.last_seen >= last_seen`
	tags := joinTags(it.Snippet.Tags)
	raw, err := s.packer.pack(it.raw, textsOf(it.Snippet.Title, it.Snippet.ChannelTitle, tags, it.Snippet.Description))
	if err != nil {
		return 0, err
	}
	err = s.exec(insert, it.ID, at, it.Snippet.PublishedAt, seconds(it.ContentDetails.Duration),
		count(it.Statistics.ViewCount), count(it.Statistics.LikeCount), count(it.Statistics.CommentCount),
		it.Snippet.CategoryID, it.Snippet.ChannelID, it.Snippet.ChannelTitle, it.Snippet.Title, tags,
		it.Snippet.Description, raw)
	if err != nil {
		return 0, err
	}
	err = s.query("SELECT number FROM videos WHERE id = ?", []any{it.ID}, func(row *sqlite3.Stmt) { number = row.ColumnInt64(0) })
	return number, err
}

// advance notes how far the chart is. A chart that starts over goes back to page 1.
func (s *Store) advance(p Page) error {
	const note = `
INSERT INTO charts (region, slot, arguments, began_at, stored_at, pages, next, done) VALUES (?1, ?2, ?3, ?4, ?4, ?5, ?6, ?7)
ON CONFLICT (region, slot) DO UPDATE SET
	arguments = excluded.arguments, began_at = CASE excluded.pages WHEN 1 THEN excluded.began_at ELSE began_at END,
	stored_at = excluded.stored_at, pages = excluded.pages, next = excluded.next, done = excluded.done`
	done := 0
	if p.Done || p.Next == "" {
		done = 1
	}
	return s.exec(note, p.Region, p.Slot, p.Arguments, p.At, p.Number, p.Next, done)
}

// Progress tells how far a chart is stored.
func (s *Store) Progress(c Chart) (Progress, error) {
	var p Progress
	err := s.query("SELECT began_at, pages, next, done FROM charts WHERE region = ? AND slot = ?", []any{c.Region, c.Slot},
		func(row *sqlite3.Stmt) {
			p = Progress{timeOf(row, 0), row.ColumnInt(1), row.ColumnText(2), row.ColumnBool(3)}
		})
	return p, err
}

// Latest returns the region's newest chart that was fetched with the same arguments as
// far as asked for, and when that began; found is false where there is none.
func (s *Store) Latest(region, arguments string) (slot, began time.Time, found bool, err error) {
	err = s.query("SELECT slot, began_at FROM charts WHERE region = ? AND arguments = ? AND done ORDER BY slot DESC LIMIT 1", []any{region, arguments},
		func(row *sqlite3.Stmt) { slot, began, found = timeOf(row, 0), timeOf(row, 1), true })
	return slot, began, found, err
}

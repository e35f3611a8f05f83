package store

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// A Chart is a region's chart, or what a query finds there, as one pass began to fetch it.
// Region, Query and Slot identify it.
type Chart struct {
	Region    string
	Query     string    // empty: the region's most popular videos
	Slot      time.Time // of the pass that began it; to the second
	Arguments string    // of the request, as far as the answer depends on them
}

// A Page is one page of a chart, as upstream answered it.
type Page struct {
	Chart
	Number int               // from 1
	First  int               // the rank of its first item, from 1
	Items  []json.RawMessage // as upstream wrote them
	Found  []string          // the ids on the page by rank, of which Items has those that were new; nil: Items has all
	Next   string            // the token of the page after it; empty: it is the last
	Done   bool              // no further page is wanted
	At     time.Time         // when upstream answered
}

// Progress is how far a chart is stored.
type Progress struct {
	Began time.Time // when its first page was stored
	Pages int       // the number of the last page that is stored; 0: nothing is
	Next  string    // the token of the page after it; empty: there is none
	Done  bool      // all pages that were requested are stored
}

// Save stores a page, and with it how far the chart is. It takes the place of what that
// page held. After an error nothing is changed; after nil it is on disk.
func (s *Store) Save(p Page) error {
	items, err := readItems(p.Items)
	if err != nil {
		return err
	}
	return s.transact(func() error {
		if err := s.clear(p, max(len(items), len(p.Found))); err != nil {
			return err
		}
		for _, it := range items {
			if err := s.upsert(p.At, it); err != nil {
				return fmt.Errorf("cannot store video %q: %w", it.ID, err)
			}
		}
		if err := s.place(p, items); err != nil {
			return err
		}
		return s.advance(p)
	})
}

// perPage is how many ranks lie between the first ones of two pages.
const perPage = 50

// clear removes what the page held, and after the last page what was there when the
// chart was longer.
func (s *Store) clear(p Page, items int) error {
	to := p.First + max(perPage, items) - 1
	if p.Next == "" {
		to = 1 << 30
	}
	return s.exec("DELETE FROM appearances WHERE region = ? AND query = ? AND slot = ? AND rank BETWEEN ? AND ?", p.Region, p.Query, p.Slot, p.First, to)
}

// place records the rank of each video of a page. A video that is not stored has none: upstream
// found it, but no longer had it for the list.
func (s *Store) place(p Page, items []item) error {
	ids, views := p.Found, make(map[string]*int64, len(items))
	for _, it := range items {
		views[it.ID] = count(it.Statistics.ViewCount)
		if p.Found == nil {
			ids = append(ids, it.ID)
		}
	}
	for i, id := range ids {
		err := s.exec("INSERT INTO appearances (region, query, slot, rank, video, views) SELECT ?, ?, ?, ?, number, ? FROM videos WHERE id = ?",
			p.Region, p.Query, p.Slot, p.First+i, views[id], id)
		if err != nil {
			return fmt.Errorf("cannot store the rank of video %q: %w", id, err)
		}
	}
	return nil
}

// Unknown returns those of the ids, in their order, whose video is not stored.
func (s *Store) Unknown(ids []string) (unknown []string, err error) {
	const sql = "SELECT value FROM json_each(?) WHERE NOT EXISTS (SELECT 1 FROM videos WHERE id = value) ORDER BY key"
	if err := s.query(sql, []any{ids}, func(row *sqlite3.Stmt) { unknown = append(unknown, row.ColumnText(0)) }); err != nil {
		return nil, fmt.Errorf("cannot read what is stored: %w", err)
	}
	return unknown, nil
}

// upsert stores what upstream said at a time, unless it has said something since.
func (s *Store) upsert(at time.Time, it item) error {
	const insert = `
INSERT INTO videos (id, first_seen, last_seen, published, duration_s, views, likes, comments, category, channel_id, channel, title, tags, description)
VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13)
ON CONFLICT (id) DO UPDATE SET
	last_seen = excluded.last_seen, published = excluded.published, duration_s = excluded.duration_s,
	views = excluded.views, likes = excluded.likes, comments = excluded.comments, category = excluded.category,
	channel_id = excluded.channel_id, channel = excluded.channel, title = excluded.title, tags = excluded.tags,
	description = excluded.description
WHERE excluded.last_seen >= last_seen`
	return s.exec(insert, it.ID, at, it.Snippet.PublishedAt, seconds(it.ContentDetails.Duration),
		count(it.Statistics.ViewCount), count(it.Statistics.LikeCount), count(it.Statistics.CommentCount),
		it.Snippet.CategoryID, it.Snippet.ChannelID, it.Snippet.ChannelTitle, it.Snippet.Title,
		joinTags(it.Snippet.Tags), it.Snippet.Description)
}

// advance records how far the chart is. A chart that starts over goes back to page 1.
func (s *Store) advance(p Page) error {
	const note = `
INSERT INTO charts (region, query, slot, arguments, began_at, stored_at, pages, next, done) VALUES (?1, ?2, ?3, ?4, ?5, ?5, ?6, ?7, ?8)
ON CONFLICT (region, query, slot) DO UPDATE SET
	arguments = excluded.arguments, began_at = CASE excluded.pages WHEN 1 THEN excluded.began_at ELSE began_at END,
	stored_at = excluded.stored_at, pages = excluded.pages, next = excluded.next, done = excluded.done`
	done := 0
	if p.Done || p.Next == "" {
		done = 1
	}
	return s.exec(note, p.Region, p.Query, p.Slot, p.Arguments, p.At, p.Number, p.Next, done)
}

// Progress returns how far a chart is stored.
func (s *Store) Progress(c Chart) (Progress, error) {
	var p Progress
	err := s.query("SELECT began_at, pages, next, done FROM charts WHERE region = ? AND query = ? AND slot = ?", []any{c.Region, c.Query, c.Slot},
		func(row *sqlite3.Stmt) {
			p = Progress{timeOf(row, 0), row.ColumnInt(1), row.ColumnText(2), row.ColumnBool(3)}
		})
	return p, err
}

// Latest returns the slot of the newest chart like this one, but for its slot, that was
// fetched completely, and when that began; found is false where there is none.
func (s *Store) Latest(c Chart) (slot, began time.Time, found bool, err error) {
	err = s.query("SELECT slot, began_at FROM charts WHERE region = ? AND query = ? AND arguments = ? AND done ORDER BY slot DESC LIMIT 1",
		[]any{c.Region, c.Query, c.Arguments},
		func(row *sqlite3.Stmt) { slot, began, found = timeOf(row, 0), timeOf(row, 1), true })
	return slot, began, found, err
}

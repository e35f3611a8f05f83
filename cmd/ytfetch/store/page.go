package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
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
	Pages int    // the number of the last page that is stored; 0: nothing is
	Next  string // the token of the page after it; empty: there is none
	Done  bool   // all pages that were requested are stored
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
	err := s.query("SELECT pages, next, done FROM charts WHERE region = ? AND query = ? AND slot = ?", []any{c.Region, c.Query, c.Slot},
		func(row *sqlite3.Stmt) { p = Progress{row.ColumnInt(0), row.ColumnText(1), row.ColumnBool(2)} })
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
		err := json.Unmarshal(raw[i], &items[i])
		if err == nil && items[i].ID == "" {
			err = errors.New("it has no id")
		}
		if err != nil {
			return nil, fmt.Errorf("item %d is not a video: %w", i+1, err)
		}
	}
	return items, nil
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

// How many rows one Purge removes at most: it holds the write lock for some hundred
// milliseconds. A pass stores fewer, so what is too old goes as fast as it comes.
const (
	purgedVideos = 500
	purgedCharts = 50
)

// Purge removes the videos that upstream last answered with before a time, and the charts that
// were begun before it, with their places. It removes the oldest ones first, and returns how
// many videos those were: if more are too old, the next Purge continues. What it removes is
// overwritten, and is not in the index of words any more.
func (s *Store) Purge(before time.Time) (videos int64, err error) {
	err = s.transact(func() error {
		err := s.exec("DELETE FROM charts WHERE (region, query, slot) IN (SELECT region, query, slot FROM charts WHERE began_at < ? ORDER BY began_at LIMIT ?)", before, purgedCharts)
		if err != nil {
			return err
		}
		err = s.exec("DELETE FROM videos WHERE number IN (SELECT number FROM videos WHERE last_seen < ? ORDER BY last_seen LIMIT ?)", before, purgedVideos)
		videos = s.db.Changes()
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("cannot remove what is too old: %w", err)
	}
	return videos, nil
}

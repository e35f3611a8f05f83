package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// A Query asks for videos. Its zero value but for the words asks for all of them.
type Query struct {
	Words  string
	Region string    // that were in this region's chart, or found there
	Since  time.Time // that were in a chart since
	Limit  int       // the maximum of hits, at least 1
	Offset int       // how many of the first hits are left out
	By     Order
}

// An Order is which of what was found comes first.
type Order string

// The orders.
const (
	ByRelevance Order = "relevance" // the best first
	ByViews     Order = "views"     // the most
	ByDate      Order = "date"      // published last
)

// Found is what a search found.
type Found struct {
	Hits  []Hit `json:"hits"`
	Total int   `json:"total"`          // how many there are
	More  bool  `json:"more,omitempty"` // there may be more: not all were examined
}

// A Hit is a video that was found, and where.
type Hit struct {
	Video
	Highlight Highlight `json:"highlight"`
}

// A Highlight shows what was found in a video's texts.
type Highlight struct {
	Title       []Part `json:"title"`
	Description []Part `json:"description"` // the best of it, some words long
}

// A Part is a piece of a text.
type Part struct {
	Text  string `json:"text"`
	Match bool   `json:"match,omitempty"` // it matches the query
}

// MaxRanked is how many videos that have all words are ranked, and maxScanned how many are
// examined for a region or a time: the newest ones. What half of all videos have would take
// seconds.
const (
	MaxRanked  = 2_000
	maxScanned = 20_000
)

// The marks around what was found: noncharacters, which no text has.
const (
	markBegin = "\uFDD0"
	markEnd   = "\uFDD1"
)

// Search returns the videos that have all words of a query, and none of those after a -. The
// best come first, by bm25: a word in the title counts ten times, one in the channel's name
// or a tag five times as much as one in the description.
func (s *Store) Search(ctx context.Context, q Query) (found Found, err error) {
	defer s.db.SetInterrupt(s.db.SetInterrupt(ctx)) // it ends early when ctx does
	expr := parseExpression(q.Words)
	best, more, err := s.rank(expr, q)
	if err != nil {
		return found, fmt.Errorf("cannot search: %w", err)
	}
	found.Hits, found.Total, found.More = []Hit{}, len(best), more
	var numbers []int64
	skip := min(len(best), q.Offset)
	for _, one := range best[skip:min(len(best), skip+q.Limit)] {
		numbers = append(numbers, one.number)
	}
	highlights, err := s.highlight(expr.match(), numbers)
	if err != nil {
		return found, fmt.Errorf("cannot find the words: %w", err)
	}
	for _, number := range numbers {
		video, err := s.video(number)
		if err != nil {
			return found, err
		}
		found.Hits = append(found.Hits, Hit{video, highlights[number]})
	}
	return found, nil
}

// HasWords reports whether there is anything to search for in a text.
func HasWords(text string) bool { return len(parseExpression(text).terms) > 0 }

// rank returns the best videos in the order of the query, and whether there may be more.
func (s *Store) rank(expr expression, q Query) (best []scored, more bool, err error) {
	if len(expr.terms) == 0 {
		return nil, false, nil
	}
	filter, args := q.filter()
	score := cmp.Or(scores[q.By], scores[ByRelevance])
	sql := fmt.Sprintf("SELECT rowid, CASE WHEN %s THEN %s END FROM search WHERE search MATCH ? ORDER BY rowid DESC", filter, score)
	seen := 0
	err = s.scan(sql, append(args, expr.match()), func(row *sqlite3.Stmt) bool {
		if seen++; row.ColumnType(1) != sqlite3.NULL {
			best = append(best, scored{row.ColumnInt64(0), row.ColumnFloat(1)})
		}
		more = len(best) == MaxRanked || seen == maxScanned
		return !more
	})
	slices.SortStableFunc(best, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	return best, more, err
}

// scores are what the orders compare. What is unknown comes last.
var scores = map[Order]string{
	ByRelevance: "-rank", // the schema sets bm25 and its weights
	ByViews:     "(SELECT coalesce(views, -1) FROM videos WHERE number = search.rowid)",
	ByDate:      "(SELECT coalesce(published, -1) FROM videos WHERE number = search.rowid)",
}

type scored struct {
	number int64
	score  float64
}

// filter returns the condition on a video in addition to the words, and its arguments.
func (q Query) filter() (condition string, args []any) {
	switch {
	case q.Region != "":
		return "EXISTS (SELECT 1 FROM appearances WHERE video = search.rowid AND region = ? AND slot >= ?)", []any{q.Region, max(0, q.Since.Unix())}
	case !q.Since.IsZero():
		return "(SELECT last_seen FROM videos INDEXED BY videos_seen WHERE number = search.rowid) >= ?", []any{q.Since}
	default:
		return "true", nil
	}
}

// highlight marks what matches in these videos. It goes through those that match from the
// newest on, as rank does: FTS5 looks for a single one from its oldest on.
func (s *Store) highlight(match string, numbers []int64) (map[int64]Highlight, error) {
	const sql = `
SELECT rowid, highlight(search, 0, '` + markBegin + `', '` + markEnd + `'), snippet(search, 3, '` + markBegin + `', '` + markEnd + `', '…', 24) FROM search
WHERE search MATCH ? AND CASE WHEN rowid IN (SELECT value FROM json_each(?)) THEN true END ORDER BY rowid DESC`
	found := make(map[int64]Highlight, len(numbers))
	if len(numbers) == 0 {
		return found, nil
	}
	err := s.scan(sql, []any{match, numbers}, func(row *sqlite3.Stmt) bool {
		found[row.ColumnInt64(0)] = Highlight{Title: parts(row.ColumnText(1)), Description: parts(row.ColumnText(2))}
		return len(found) < len(numbers)
	})
	return found, err
}

// parts splits a text at its marks.
func parts(marked string) []Part {
	var list []Part
	add := func(text string, match bool) {
		if text = removeGaps(text); text != "" {
			list = append(list, Part{text, match})
		}
	}
	for marked != "" {
		before, rest, found := strings.Cut(marked, markBegin)
		add(before, false)
		if !found {
			break
		}
		match, after, _ := strings.Cut(rest, markEnd)
		add(match, true)
		marked = after
	}
	return list
}

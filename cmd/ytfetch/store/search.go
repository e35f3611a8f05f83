package store

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// A Query asks for videos. Its zero value but for the words asks for all of them.
type Query struct {
	Words  string
	Region string    // that were in this region's chart
	Since  time.Time // that were in a chart since
	Most   int       // at most so many, at least 1
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
	Match bool   `json:"match,omitempty"` // it is what was asked for
}

// ranked is how many videos that have all words are ranked, and looked is how many are
// looked at for those that a region or a time leaves: the newest ones. A search so takes
// milliseconds also for a word that is in every second of a million videos.
const (
	ranked = 2_000
	looked = 20_000
)

// The marks around what was found: noncharacters, which no text has.
const (
	markBegin = "\uFDD0"
	markEnd   = "\uFDD1"
)

// Search returns the videos that have all words of a query, the best first: ranked by
// bm25, a word in the title counts ten times, one in the channel's name or a tag five
// times as much as one in the description.
func (s *Store) Search(ctx context.Context, q Query) ([]Hit, error) {
	defer s.interruptible(ctx)()
	terms := termsOf(q.Words)
	numbers, err := s.rank(terms, q)
	if err != nil {
		return nil, fmt.Errorf("cannot search: %w", err)
	}
	highlights, err := s.highlight(strings.Join(terms, " "), numbers)
	if err != nil {
		return nil, fmt.Errorf("cannot tell where the words are: %w", err)
	}
	hits := make([]Hit, 0, len(numbers))
	for _, number := range numbers {
		video, err := s.video("number = ?", number)
		if err != nil {
			return nil, err
		}
		hits = append(hits, Hit{video, highlights[number]})
	}
	return hits, nil
}

// HasWords tells whether there is anything to search for in a text.
func HasWords(text string) bool { return len(termsOf(text)) > 0 }

// rank returns the numbers of the best videos, the best first.
func (s *Store) rank(terms []string, q Query) ([]int64, error) {
	if len(terms) == 0 {
		return nil, nil
	}
	weights, err := s.weights(terms)
	if err != nil {
		return nil, err
	}
	*s.ranking = ranking{weights: weights}
	filter, args := q.filter()
	sql := fmt.Sprintf("SELECT rowid, CASE WHEN %s THEN relevance(search) END FROM search WHERE search MATCH ? ORDER BY rowid DESC", filter)
	var best []scored
	seen := 0
	err = s.scan(sql, append(args, strings.Join(terms, " ")), func(row *sqlite3.Stmt) bool {
		if seen++; row.ColumnType(1) != sqlite3.NULL {
			best = append(best, scored{row.ColumnInt64(0), row.ColumnFloat(1)})
		}
		return len(best) < ranked && seen < looked
	})
	slices.SortStableFunc(best, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
	numbers := make([]int64, 0, q.Most)
	for _, one := range best[:min(len(best), q.Most)] {
		numbers = append(numbers, one.number)
	}
	return numbers, err
}

type scored struct {
	number int64
	score  float64
}

// filter is what a video must be, beside having the words, with its arguments.
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
	wanted, err := json.Marshal(numbers)
	if err != nil {
		return nil, err
	}
	const sql = `
SELECT rowid, highlight(search, 0, '` + markBegin + `', '` + markEnd + `'), snippet(search, 3, '` + markBegin + `', '` + markEnd + `', '…', 24) FROM search
WHERE search MATCH ? AND CASE WHEN rowid IN (SELECT value FROM json_each(?)) THEN true END ORDER BY rowid DESC`
	found := make(map[int64]Highlight, len(numbers))
	if len(numbers) == 0 {
		return found, nil
	}
	err = s.scan(sql, []any{match, string(wanted)}, func(row *sqlite3.Stmt) bool {
		found[row.ColumnInt64(0)] = Highlight{Title: parts(row.ColumnText(1)), Description: parts(row.ColumnText(2))}
		return len(found) < len(numbers)
	})
	return found, err
}

// parts splits a text at its marks.
func parts(marked string) []Part {
	var list []Part
	add := func(text string, match bool) {
		if text = together(text); text != "" {
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

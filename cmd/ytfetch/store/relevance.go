package store

import (
	"math"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/ext/fts5"
)

// What a word counts in each column of the index: title, channel, tags, description. The
// schema says the same to FTS5's own bm25, for other tools that open the file.
var columnWeights = [...]float64{10, 5, 5, 1}

// A ranking is of the search under way.
type ranking struct {
	weights []float64 // of its terms, in their order
	average float64   // words of a video; 0: not known yet
}

// register adds FTS5 to a connection, and to that the function relevance(search).
func (r *ranking) register(db *sqlite3.Conn) error {
	return fts5.RegisterCustom(db, func(api *fts5.API) error {
		return api.CreateFunction("relevance", func(row fts5.Context, result sqlite3.Context, _ ...sqlite3.Value) {
			score, err := r.relevance(row)
			if err != nil {
				result.ResultError(err)
				return
			}
			result.ResultFloat(score)
		})
	})
}

// relevance is bm25 as FTS5 has it, with its constants, but for two things: more is
// better, and what a term weighs is known. FTS5 counts all videos that have a term,
// which takes longest for the terms that matter least.
func (r *ranking) relevance(row fts5.Context) (float64, error) {
	const k1, b = 1.2, 0.75
	length, err := row.ColumnSize(-1)
	if err != nil {
		return 0, err
	}
	if err := r.setAverage(row); err != nil {
		return 0, err
	}
	found, err := row.InstCount()
	if err != nil {
		return 0, err
	}
	frequency := make([]float64, len(r.weights))
	for i := range found {
		term, column, _, err := row.Inst(i)
		if err != nil {
			return 0, err
		}
		frequency[term] += columnWeights[column]
	}
	score := 0.0
	for term, f := range frequency {
		score += r.weights[term] * f * (k1 + 1) / (f + k1*(1-b+b*float64(length)/r.average))
	}
	return score, nil
}

func (r *ranking) setAverage(row fts5.Context) error {
	if r.average > 0 {
		return nil
	}
	words, err := row.ColumnTotalSize(-1)
	if err != nil {
		return err
	}
	videos, err := row.RowCount()
	r.average = max(1, float64(words)) / max(1, float64(videos))
	return err
}

// maxSampled is how many videos with a term are counted to estimate how many have it.
const maxSampled = 1_000

// weights returns what each term weighs: the rarer, the more.
func (s *Store) weights(terms []string) ([]float64, error) {
	var newest int64
	err := s.query("SELECT max(number) FROM videos", nil, func(row *sqlite3.Stmt) { newest = row.ColumnInt64(0) })
	weights := make([]float64, 0, len(terms))
	for _, term := range terms {
		if err != nil {
			return nil, err
		}
		var share float64
		share, err = s.share(term, newest)
		weights = append(weights, math.Max(1e-6, math.Log((1-share)/share)))
	}
	return weights, err
}

// share estimates which part of all videos has a term: it counts among the newest, down to
// the thousandth that has it.
func (s *Store) share(term string, newest int64) (float64, error) {
	have, oldest := 0, newest
	err := s.scan("SELECT rowid FROM search WHERE search MATCH ? ORDER BY rowid DESC", []any{term}, func(row *sqlite3.Stmt) bool {
		have, oldest = have+1, row.ColumnInt64(0)
		return have < maxSampled
	})
	if have < maxSampled {
		oldest = 1
	}
	return (float64(have) + 0.5) / (float64(newest-oldest+1) + 1), err
}

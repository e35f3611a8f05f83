package store

import (
	"context"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// Purged counts what was removed.
type Purged struct {
	Videos int64 `json:"videos"`
	Charts int64 `json:"charts"`
}

// Purge removes the videos that upstream last told of before a time, and the charts that
// were begun before it. It does so in steps of a few rows, each a transaction of its own:
// other processes write between them, and a purge that ends early, by its context or by a
// kill, has the next one go on. What is removed is overwritten, and the file shrinks.
func (s *Store) Purge(ctx context.Context, before time.Time) (Purged, error) {
	defer s.interruptible(ctx)()
	var done Purged
	for _, part := range []struct {
		total *int64
		step  func(time.Time) (int64, error)
	}{{&done.Charts, s.purgeCharts}, {&done.Videos, s.purgeVideos}} {
		for {
			removed, err := part.step(before)
			if ctx.Err() != nil {
				return done, ctx.Err()
			}
			if err != nil {
				return done, fmt.Errorf("cannot purge: %w", err)
			}
			if removed == 0 {
				break
			}
			*part.total += removed
		}
	}
	if done == (Purged{}) {
		return done, nil
	}
	if err := s.exec("PRAGMA incremental_vacuum"); err != nil {
		return done, fmt.Errorf("cannot shrink the file: %w", err)
	}
	return done, nil
}

// A step is so many rows: some milliseconds.
const (
	chartStep = 10
	videoStep = 200
)

func (s *Store) purgeCharts(before time.Time) (removed int64, err error) {
	err = s.transact(func() error {
		var charts []Chart
		err := s.query("SELECT region, slot FROM charts WHERE began_at < ? LIMIT ?", []any{before, chartStep},
			func(row *sqlite3.Stmt) {
				charts = append(charts, Chart{Region: row.ColumnText(0), Slot: timeOf(row, 1)})
			})
		for _, c := range charts {
			if err == nil {
				err = s.exec("DELETE FROM appearances WHERE region = ? AND slot = ?", c.Region, c.Slot)
			}
			if err == nil {
				err = s.exec("DELETE FROM charts WHERE region = ? AND slot = ?", c.Region, c.Slot)
			}
		}
		removed = int64(len(charts))
		return err
	})
	return removed, err
}

func (s *Store) purgeVideos(before time.Time) (removed int64, err error) {
	err = s.transact(func() error {
		err := s.exec("DELETE FROM videos WHERE number IN (SELECT number FROM videos WHERE last_seen < ? LIMIT ?)", before, videoStep)
		removed = s.db.Changes()
		return err
	})
	return removed, err
}

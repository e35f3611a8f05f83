package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// Purged counts what was removed.
type Purged struct {
	Videos int64 `json:"videos"`
	Charts int64 `json:"charts"`
}

// Purge removes the videos that upstream last answered with before a time, and the charts that
// were begun before it. It then merges the index of words, which until then has the words of
// removed videos. Each step is a transaction of its own: other processes write between them,
// and if a purge ends early, by its context or by a kill, the next one continues. What is
// removed is overwritten, also in the log of writes, and the file shrinks.
func (s *Store) Purge(ctx context.Context, before time.Time) (Purged, error) {
	defer s.interruptible(ctx)()
	var done Purged
	var err error
	// A step takes some milliseconds.
	done.Charts, err = s.remove(ctx, before, 10, "DELETE FROM appearances WHERE "+oldCharts, "DELETE FROM charts WHERE "+oldCharts)
	if err == nil {
		done.Videos, err = s.remove(ctx, before, 200, "DELETE FROM videos WHERE number IN (SELECT number FROM videos WHERE last_seen < ?1 LIMIT ?2)")
	}
	if err != nil {
		return done, cmp.Or(ctx.Err(), fmt.Errorf("cannot purge: %w", err))
	}
	if err := s.finish(); err != nil {
		return done, errors.Join(ctx.Err(), fmt.Errorf("cannot overwrite what is removed: %w", err))
	}
	return done, nil
}

// Old counts what Purge would remove. Unfinished says that an earlier one left something of what
// it removed.
func (s *Store) Old(before time.Time) (old Purged, unfinished bool, err error) {
	const sql = `SELECT (SELECT count(*) FROM videos WHERE last_seen < ?1), (SELECT count(*) FROM charts WHERE began_at < ?1), removed > gone FROM purged`
	err = s.query(sql, []any{before}, func(row *sqlite3.Stmt) {
		old, unfinished = Purged{row.ColumnInt64(0), row.ColumnInt64(1)}, row.ColumnBool(2)
	})
	if err != nil {
		return old, false, fmt.Errorf("cannot read what to purge: %w", err)
	}
	return old, unfinished, nil
}

// oldCharts selects the oldest charts that were begun before a time: the same ones until one is
// removed.
const oldCharts = "(region, query, slot) IN (SELECT region, query, slot FROM charts WHERE began_at < ?1 ORDER BY began_at, region, query, slot LIMIT ?2)"

// remove runs statements until the last one removes nothing, in transactions of some rows each,
// and returns how many rows that one removed in all.
func (s *Store) remove(ctx context.Context, before time.Time, rows int, statements ...string) (total int64, err error) {
	for removed := int64(1); removed > 0; total += removed {
		err = s.transact(func() error {
			for _, sql := range statements {
				if err := s.exec(sql, before, rows); err != nil {
					return err
				}
			}
			if removed = s.db.Changes(); removed == 0 {
				return nil
			}
			return s.exec("UPDATE purged SET removed = removed + ?", removed)
		})
		if err = cmp.Or(ctx.Err(), err); err != nil {
			return total, err
		}
	}
	return total, nil
}

// mergeStep is how many pages of the index a step of a merge writes.
const mergeStep = 500

// finish overwrites what removed videos and charts left, and shrinks the file, unless nothing
// was removed since the last time.
func (s *Store) finish() error {
	var removed, gone int64
	err := s.query("SELECT removed, gone FROM purged", nil, func(row *sqlite3.Stmt) { removed, gone = row.ColumnInt64(0), row.ColumnInt64(1) })
	if err != nil || removed == gone {
		return err
	}
	if err := s.merge(); err != nil {
		return err
	}
	if err := s.exec("PRAGMA incremental_vacuum"); err != nil {
		return err
	}
	busy := false // another process reads the log of writes: the next purge continues
	err = s.query("PRAGMA wal_checkpoint(TRUNCATE)", nil, func(row *sqlite3.Stmt) { busy = row.ColumnBool(0) })
	if err != nil || busy {
		return err
	}
	return s.exec("UPDATE purged SET gone = max(gone, ?)", removed)
}

// merge makes one of all parts of the index. FTS5 takes a negative number for the first
// step of a merge of all parts, or for the next one where that is under way. A step that
// changes less than two rows was the last one.
func (s *Store) merge() error {
	for step := -mergeStep; ; step = mergeStep {
		before := s.db.TotalChanges()
		if err := s.exec("INSERT INTO search (search, rank) VALUES ('merge', ?)", step); err != nil {
			return err
		}
		if s.db.TotalChanges()-before < 2 {
			return nil
		}
	}
}

package store

import (
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
	for _, part := range []struct {
		total      *int64
		rows       int // of a step, which takes some milliseconds
		statements []string
	}{
		{&done.Charts, 10, []string{"DELETE FROM appearances WHERE " + oldCharts, "DELETE FROM charts WHERE " + oldCharts}},
		{&done.Videos, 200, []string{"DELETE FROM videos WHERE number IN (SELECT number FROM videos WHERE last_seen < ?1 LIMIT ?2)"}},
	} {
		for removed := int64(1); removed > 0; *part.total += removed {
			var err error
			removed, err = s.purgeStep(part.statements, before, part.rows)
			if ctx.Err() != nil {
				return done, ctx.Err()
			}
			if err != nil {
				return done, fmt.Errorf("cannot purge: %w", err)
			}
		}
	}
	if err := s.finish(); err != nil {
		return done, errors.Join(ctx.Err(), fmt.Errorf("cannot overwrite what is removed: %w", err))
	}
	return done, nil
}

// Old counts what Purge would remove.
func (s *Store) Old(before time.Time) (old Purged, err error) {
	const sql = `SELECT (SELECT count(*) FROM videos WHERE last_seen < ?1), (SELECT count(*) FROM charts WHERE began_at < ?1)`
	if err := s.query(sql, []any{before}, func(row *sqlite3.Stmt) { old = Purged{row.ColumnInt64(0), row.ColumnInt64(1)} }); err != nil {
		return old, fmt.Errorf("cannot read what to purge: %w", err)
	}
	return old, nil
}

// PurgeDue reports whether Purge has something to do.
func (s *Store) PurgeDue(before time.Time) (due bool, err error) {
	const sql = `SELECT EXISTS (SELECT 1 FROM videos WHERE last_seen < ?1) OR EXISTS (SELECT 1 FROM charts WHERE began_at < ?1) OR removed > gone FROM purged`
	if err := s.query(sql, []any{before}, func(row *sqlite3.Stmt) { due = row.ColumnBool(0) }); err != nil {
		return false, fmt.Errorf("cannot read what to purge: %w", err)
	}
	return due, nil
}

// oldCharts selects the oldest charts that were begun before a time: the same ones until one is
// removed.
const oldCharts = "(region, query, slot) IN (SELECT region, query, slot FROM charts WHERE began_at < ?1 ORDER BY began_at, region, query, slot LIMIT ?2)"

// purgeStep runs statements in one transaction, and returns how many rows the last one removed.
func (s *Store) purgeStep(statements []string, before time.Time, rows int) (removed int64, err error) {
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
	return removed, err
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

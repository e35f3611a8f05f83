package store

import (
	"fmt"
	"time"
)

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

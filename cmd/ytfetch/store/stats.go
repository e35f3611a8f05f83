package store

import (
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// Stats count what is stored.
type Stats struct {
	Path        string       `json:"path"`
	Bytes       int64        `json:"bytes"`
	Videos      int64        `json:"videos"`
	Appearances int64        `json:"appearances"`
	Oldest      *time.Time   `json:"oldest,omitempty"` // the earliest last_seen of a video
	Newest      *time.Time   `json:"newest,omitempty"`
	Regions     []RegionStat `json:"regions"`
}

// A RegionStat counts what is stored of a region's charts, or of what a query found there.
type RegionStat struct {
	Region   string    `json:"region"`
	Query    string    `json:"query,omitempty"`
	Charts   int64     `json:"charts"`
	Videos   int64     `json:"videos"`
	LastSlot time.Time `json:"last_slot"`
	StoredAt time.Time `json:"stored_at"` // the newest page
}

// Stats counts.
func (s *Store) Stats() (Stats, error) {
	stats := Stats{Path: s.path, Regions: []RegionStat{}}
	for _, suffix := range []string{"", "-wal"} {
		if info, err := os.Stat(s.path + suffix); err == nil {
			stats.Bytes += info.Size()
		}
	}
	err := s.query("SELECT (SELECT count(*) FROM videos), (SELECT count(*) FROM appearances), (SELECT min(last_seen) FROM videos), (SELECT max(last_seen) FROM videos)", nil,
		func(row *sqlite3.Stmt) {
			stats.Videos, stats.Appearances = row.ColumnInt64(0), row.ColumnInt64(1)
			if stats.Videos > 0 {
				oldest, newest := timeOf(row, 2), timeOf(row, 3)
				stats.Oldest, stats.Newest = &oldest, &newest
			}
		})
	err = errors.Join(err, s.query(`SELECT region, query, count(*), max(slot), max(stored_at), (SELECT count(DISTINCT video) FROM appearances WHERE region = charts.region AND query = charts.query)
FROM charts GROUP BY region, query ORDER BY region, query`, nil, func(row *sqlite3.Stmt) {
		stats.Regions = append(stats.Regions, RegionStat{
			Region: row.ColumnText(0), Query: row.ColumnText(1), Charts: row.ColumnInt64(2), LastSlot: timeOf(row, 3), StoredAt: timeOf(row, 4), Videos: row.ColumnInt64(5),
		})
	}))
	if err != nil {
		return stats, fmt.Errorf("cannot count: %w", err)
	}
	return stats, nil
}

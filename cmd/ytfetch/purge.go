package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"quotad/cmd/ytfetch/store"
	"quotad/quota"
)

// Removed counts what a purge removed.
type removed struct {
	store.Purged
	Files int `json:"files"` // of JSON lines
}

func (r removed) String() string {
	return strings.Join([]string{
		quota.Count(r.Videos, "video", "videos"), quota.Count(r.Charts, "chart", "charts"), quota.Count(r.Files, "file", "files"),
	}, ", ")
}

// purge removes what upstream answered before a time from a directory: rows of its file, which
// may be nil, and JSON lines. If it ends early, the next one continues. If dry, it only counts.
func purge(ctx context.Context, file *store.Store, dir string, before time.Time, dry bool) (gone removed, err error) {
	switch {
	case file == nil:
	case dry:
		gone.Purged, _, err = file.Old(before)
	default:
		gone.Purged, err = file.Purge(ctx, before)
	}
	if err == nil {
		gone.Files, err = purgeFiles(ctx, dir, before, dry)
	}
	return gone, err
}

// pageFiles is what openJSONLines and its pages are called: nothing else is removed.
const pageFiles = "[A-Z][A-Z]/[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]T[0-9][0-9][0-9][0-9][0-9][0-9]Z/page-*.jsonl"

func purgeFiles(ctx context.Context, dir string, before time.Time, dry bool) (gone int, err error) {
	pages, err := fs.Glob(os.DirFS(dir), pageFiles)
	if err != nil {
		return 0, err
	}
	for _, name := range pages {
		page := filepath.Join(dir, name)
		info, err := os.Lstat(page)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.ModTime().Before(before) {
			continue
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil && !dry {
			err = os.Remove(page)
			os.Remove(filepath.Dir(page)) // fails unless that was the last one
		}
		if err != nil {
			return gone, fmt.Errorf("cannot purge: %w", err)
		}
		gone++
	}
	return gone, nil
}

// days writes a retention as people give it.
func days(span time.Duration) string {
	const day = 24 * time.Hour
	if span%day == 0 {
		return quota.Count(int64(span/day), "day", "days")
	}
	return quota.Brief(span)
}

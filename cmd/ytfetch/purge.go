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
// may be nil, and JSON lines. If it ends early, the next one continues.
func purge(ctx context.Context, file *store.Store, dir string, before time.Time) (gone removed, err error) {
	if file != nil {
		if gone.Purged, err = file.Purge(ctx, before); err != nil {
			return gone, err
		}
	}
	gone.Files, err = purgeFiles(ctx, dir, before)
	return gone, err
}

// countOld counts what a purge would remove.
func countOld(ctx context.Context, file *store.Store, dir string, before time.Time) (old removed, err error) {
	if file != nil {
		if old.Purged, err = file.Old(before); err != nil {
			return old, err
		}
	}
	old.Files, err = eachOldFile(ctx, dir, before, func(string) error { return nil })
	return old, err
}

// due returns what a pass removes. It removes nothing from a file until something in it is too
// old, and then also what becomes too old within a day (of 30). A removal merges the whole
// index of words: that happens once a day, not in each pass.
func due(file *store.Store, now time.Time, retain time.Duration) (*store.Store, time.Duration, error) {
	if file == nil {
		return nil, retain, nil
	}
	old, err := file.PurgeDue(now.Add(-retain))
	if err != nil || !old {
		return nil, retain, err
	}
	return file, retain - retain/30, nil
}

// pageFiles is what openJSONLines and its pages are called: nothing else is removed.
const pageFiles = "[A-Z][A-Z]/[0-9][0-9][0-9][0-9][0-9][0-9][0-9][0-9]T[0-9][0-9][0-9][0-9][0-9][0-9]Z/page-*.jsonl"

func purgeFiles(ctx context.Context, dir string, before time.Time) (gone int, err error) {
	return eachOldFile(ctx, dir, before, func(page string) error {
		if err := os.Remove(page); err != nil {
			return err
		}
		os.Remove(filepath.Dir(page)) // fails unless that was the last one
		return nil
	})
}

// eachOldFile calls f with each file of JSON lines that is too old, and counts them.
func eachOldFile(ctx context.Context, dir string, before time.Time, f func(page string) error) (n int, err error) {
	pages, err := filepath.Glob(filepath.Join(globEscape(dir), pageFiles))
	if err != nil {
		return 0, err
	}
	for _, page := range pages {
		info, err := os.Lstat(page)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !info.ModTime().Before(before) {
			continue
		}
		if err == nil {
			if err = ctx.Err(); err == nil {
				err = f(page)
			}
		}
		if err != nil {
			return n, fmt.Errorf("cannot purge: %w", err)
		}
		n++
	}
	return n, nil
}

// globEscape makes a pattern that matches a directory's own name.
func globEscape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(dir)
}

// days writes a retention as people give it.
func days(span time.Duration) string {
	const day = 24 * time.Hour
	if span%day == 0 {
		return quota.Count(int64(span/day), "day", "days")
	}
	return quota.Brief(span)
}

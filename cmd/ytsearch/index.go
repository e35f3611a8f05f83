package main

import (
	"bufio"
	"context"
	"database/sql"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/ext/fts5"

	"quotad/quota"
)

//go:embed schema.sql
var schema string

const version = 7797651 // of the schema, as user_version: any other is another program's

// openIndex opens the index of a directory with all that is in its files now. In a directory that cannot be written it
// is in memory, and made each time.
func openIndex(ctx context.Context, dir string) (*sql.DB, error) {
	if err := becomeOwner(dir); err != nil {
		return nil, err
	}
	lines, err := filepath.Glob(filepath.Join(dir, "[0-9]*-[0-9]*-[0-9]*-[A-Z][A-Z].jsonl"))
	if err == nil && lines == nil {
		_, err = os.ReadDir(dir)
		err = errors.Join(err, fmt.Errorf("ytfetch wrote nothing into %s: no file such as 2026-11-28-DE.jsonl", dir))
	}
	if err != nil {
		return nil, err
	}
	path := filepath.Join(dir, "ytsearch.db")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o644)
	if file.Close(); errors.Is(err, os.ErrPermission) || errors.Is(err, syscall.EROFS) {
		path, err = ":memory:", nil
	}
	if err != nil {
		return nil, err
	}
	name := "file:" + url.PathEscape(path) + "?_txlock=immediate"
	db, err := driver.Open(name, func(c *sqlite3.Conn) error {
		return errors.Join(fts5.Register(c), c.Exec("PRAGMA busy_timeout = 60000; PRAGMA secure_delete = on"))
	})
	if err == nil {
		db.SetMaxOpenConns(1) // in memory, another connection is another index
		err = update(ctx, db, lines)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot use %s: %w", path, err)
	}
	return db, nil
}

// becomeOwner makes root the user who owns the directory, whose job could not write a file of root's.
func becomeOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	owner := info.Sys().(*syscall.Stat_t)
	if owner.Uid == 0 {
		return nil
	}
	return errors.Join(syscall.Setgroups(nil), syscall.Setegid(int(owner.Gid)), syscall.Seteuid(int(owner.Uid)))
}

// update brings in what is new in these files, and removes what was in files that are gone.
func update(ctx context.Context, db *sql.DB, paths []string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer tx.Rollback()
	var is, tables int
	row := tx.QueryRow("SELECT user_version, (SELECT count(*) FROM sqlite_schema) FROM pragma_user_version")
	if err := row.Scan(&is, &tables); err != nil {
		return err
	}
	if is != version && tables > 0 {
		return errors.New("another program or version made it: move it away, and it is made again")
	} else if is != version {
		if _, err := tx.Exec(fmt.Sprintf("%s; PRAGMA user_version = %d", schema, version)); err != nil {
			return err
		}
	}
	names := make([]string, len(paths))
	for i, path := range paths {
		names[i] = filepath.Base(path)
		if err := bring(tx, path, names[i]); err != nil {
			return err
		}
	}
	list, _ := json.Marshal(names)
	_, err = tx.Exec("DELETE FROM files WHERE name NOT IN (SELECT value FROM json_each(?))", string(list))
	if err == nil {
		_, err = tx.Exec("DELETE FROM places WHERE file NOT IN (SELECT name FROM files); " +
			"DELETE FROM videos WHERE number NOT IN (SELECT video FROM places)")
	}
	if err != nil {
		return err
	}
	return tx.Commit()
}

// A line is what is indexed of one that ytfetch wrote.
type line struct {
	At, Region string
	Video      struct {
		ID      string
		Snippet struct {
			Title, Description, ChannelTitle, PublishedAt string
			Tags                                          []string
		}
		Statistics struct{ ViewCount json.Number }
	}
}

// bring brings in the lines of a file that are new: of each video the last one. A last line without an end is being
// written, or will be cut off: it is left for later.
func bring(tx *sql.Tx, path, name string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	var at int64
	row := tx.QueryRow("SELECT ifnull(max(read), 0) FROM files WHERE name = ?", name)
	info, err := file.Stat()
	if err = errors.Join(err, row.Scan(&at)); err != nil || info.Size() == at {
		return err
	} else if info.Size() < at { // it is another file now
		at = 0
	}
	videos, odd := map[string]line{}, 0
	for reader := bufio.NewReader(io.NewSectionReader(file, at, 1<<62)); ; {
		text, err := reader.ReadBytes('\n')
		if err != nil {
			break
		}
		var one line
		if at += int64(len(text)); json.Unmarshal(text, &one) != nil || one.Video.ID == "" || one.Region == "" {
			odd++
			continue
		}
		videos[one.Video.ID] = one
	}
	if odd > 0 {
		count := quota.Count(odd, "line that is no video", "lines that are no videos")
		fmt.Fprintf(os.Stderr, "ytsearch: %s: left out %s\n", path, count)
	}
	for _, one := range videos {
		if err := put(tx, one, name); err != nil {
			return err
		}
	}
	_, err = tx.Exec("INSERT OR REPLACE INTO files VALUES (?, ?)", name, at)
	return err
}

// put stores a video in place of what is stored of it.
func put(tx *sql.Tx, one line, file string) error {
	snippet := one.Video.Snippet
	views, _ := one.Video.Statistics.ViewCount.Int64() // absent, if upstream hides it
	_, err := tx.Exec(`INSERT INTO videos (id, seen, published, views, title, channel, tags, description)
VALUES (?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET seen = max(seen, excluded.seen),
	published = excluded.published, views = excluded.views, title = excluded.title, channel = excluded.channel,
	tags = excluded.tags, description = excluded.description`, one.Video.ID, one.At, snippet.PublishedAt, views, snippet.Title,
		snippet.ChannelTitle, strings.Join(snippet.Tags, "\n"), snippet.Description)
	if err == nil {
		_, err = tx.Exec("INSERT OR REPLACE INTO places SELECT number, ?, ? FROM videos WHERE id = ?",
			one.Region, file, one.Video.ID)
	}
	return err
}

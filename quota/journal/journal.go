package journal

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
)

// A Kind says where a record comes from.
type Kind byte

// Kinds of record.
const (
	Own      Kind = 'o' // an entry that this host wrote, at the time that the log gave it
	Alone    Kind = 'a' // an entry that this host granted while the log was away, by its reckoning of the log's clock
	Mirrored Kind = 'm' // an entry that another host wrote, read from the log
	header   Kind = 'h' // of a file
)

// A Record is an entry. At is in µs, and its ID has 1 to 300 bytes.
type Record struct {
	Kind     Kind
	At       int64
	ID, Text string
}

// A Journal is open. Its methods may be called at the same time.
type Journal struct {
	Cut string // what Open has cut or set aside, as a sentence; empty: nothing

	dir, credential, id string
	fdatasync           func(*os.File) error
	newFileAt           int64        // bytes
	written, synced     atomic.Int64 // bytes, since Open

	disk sync.Mutex

	mu       sync.Mutex       // guards what follows
	current  *os.File         // the last one of files; changed with disk held, too
	files    []file           // oldest first
	ids      map[string]place // of each entry
	unsynced []byte           // the end of current that may not be on disk
	failed   bool             // the last sync
	torn     bool             // a failed write may have left bytes after the last line
}

// A file is a numbered file up to its last whole line.
type file struct {
	number int
	header Record // as it was read
	size   int64
	sum    uint32
	newest int64 // time of an entry
}

// A place is that of the newest entry of an id: a log that has forgotten an id may have another entry under it.
type place struct {
	number int // of the file
	at     int64
}

// Has reports whether the journal has an entry of an id that is later than a time.
func (j *Journal) Has(id string, after int64) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ids[id].at > after
}

// Append writes entries by one write(2), but for those whose ID the journal has last from that time. If it returns an
// error, none counts.
func (j *Journal) Append(records ...Record) error {
	j.mu.Lock()
	for j.failed || j.files[len(j.files)-1].size >= j.newFileAt {
		j.mu.Unlock()
		if err := j.prepare(); err != nil {
			return err
		}
		j.mu.Lock()
	}
	defer j.mu.Unlock()
	f := &j.files[len(j.files)-1]
	sum, lines, err := f.sum, []byte(nil), error(nil)
	for _, r := range records {
		if !j.knows(r) {
			lines, sum = r.appendLine(lines, sum)
		}
	}
	if j.torn {
		err = j.current.Truncate(f.size)
	}
	if err == nil {
		_, err = j.current.WriteAt(lines, f.size)
	}
	if j.torn = err != nil; j.torn {
		return fmt.Errorf("cannot write journal: %w", err)
	}
	for _, r := range records {
		j.note(f, r)
	}
	f.size, f.sum, j.unsynced = f.size+int64(len(lines)), sum, append(j.unsynced, lines...)
	j.written.Add(int64(len(lines)))
	return nil
}

// knows reports whether the journal has an entry. mu is held.
func (j *Journal) knows(r Record) bool { return j.ids[r.ID].number > 0 && r.At == j.ids[r.ID].at }

// note records that a file has an entry.
func (j *Journal) note(f *file, r Record) {
	if !j.knows(r) {
		j.ids[r.ID], f.newest = place{f.number, r.At}, max(f.newest, r.At)
	}
}

// prepare repairs a failed sync, and begins a new file after a full one. No Append writes to either meanwhile. All of
// the full one is on disk before: so only the last file can be incomplete.
func (j *Journal) prepare() error {
	j.disk.Lock()
	defer j.disk.Unlock()
	err := j.flush()
	j.mu.Lock()
	f := j.files[len(j.files)-1]
	j.mu.Unlock()
	if err != nil || f.size < j.newFileAt {
		return err
	}
	if err = j.begin(f.number+1, f.sum); err == nil {
		j.position(f.number+1, 0) // else an older one is right, too
	}
	return err
}

// Sync returns when what was appended before is on disk. One caller at a time syncs, for all that wait meanwhile.
func (j *Journal) Sync() error {
	upTo := j.written.Load()
	if j.synced.Load() >= upTo {
		return nil
	}
	j.disk.Lock()
	defer j.disk.Unlock()
	if j.synced.Load() >= upTo { // by the one before
		return nil
	}
	return j.flush()
}

// flush syncs what is written by now. A sync that failed may have marked pages as clean that are not on disk, so that
// the next one returns nil (fsync(2); Rebello et al., "Can Applications Recover from fsync Failures?", 2020). So flush
// writes the same bytes to the same place again before it syncs again: that makes the pages dirty, and keeps each record
// in one place. disk is held.
func (j *Journal) flush() (err error) {
	j.mu.Lock()
	f, lines, again := j.files[len(j.files)-1], j.unsynced, j.failed
	j.mu.Unlock()
	if again {
		_, err = j.current.WriteAt(lines, f.size-int64(len(lines)))
	}
	if err == nil {
		err = j.fdatasync(j.current)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.failed = err != nil; j.failed {
		return fmt.Errorf("cannot sync journal %q: %w", j.dir, err)
	}
	j.unsynced = j.unsynced[len(lines):]
	j.synced.Add(int64(len(lines)))
	return nil
}

// position writes up to where the journal is on disk.
func (j *Journal) position(number int, size int64) error {
	line, _ := j.header(number, size).appendLine(nil, 0)
	return replace(j.dir+".position", line)
}

// begin begins a file. disk is held, or no other goroutine has the journal.
func (j *Journal) begin(number int, before uint32) error {
	line, sum := j.header(number, int64(before)).appendLine(nil, 0)
	if err := replace(j.path(number), line); err != nil {
		return err
	}
	opened, err := os.OpenFile(j.path(number), os.O_RDWR, 0)
	if err != nil {
		return err
	}
	j.mu.Lock()
	j.current.Close() // nil, or all of it is on disk
	j.current, j.files = opened, append(j.files, file{number: number, size: int64(len(line)), sum: sum})
	j.mu.Unlock()
	return nil
}

// Read calls each with all entries after a time, oldest file first. It reads without a lock; a file that Drop has
// deleted meanwhile it leaves out.
func (j *Journal) Read(after int64, each func(Record) error) error {
	j.mu.Lock()
	files := slices.Clone(j.files)
	j.mu.Unlock()
	for _, f := range files {
		if f.newest <= after {
			continue
		}
		got := file{}
		_, err := got.scan(j.path(f.number), f.size, func(r Record) error {
			if r.At <= after {
				return nil
			}
			return each(r)
		})
		switch {
		case errors.Is(err, fs.ErrNotExist) && j.dropped(f):
		case err != nil:
			return err
		case got.size < f.size:
			return damaged(j.path(f.number), got.size, "its end is missing")
		}
	}
	return nil
}

func (j *Journal) dropped(f file) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return f.number < j.files[0].number
}

// Drop deletes the oldest files while all entries of them are older than before, but never the one being written.
func (j *Journal) Drop(before int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.files) > 1 && j.files[0].newest < before {
		oldest := j.files[0].number
		if err := os.Remove(j.path(oldest)); err != nil {
			return fmt.Errorf("cannot delete journal file: %w", err)
		}
		maps.DeleteFunc(j.ids, func(_ string, p place) bool { return p.number == oldest })
		j.files = j.files[1:]
	}
	return nil
}

// Close returns when all is on disk.
func (j *Journal) Close() error {
	j.disk.Lock()
	defer j.disk.Unlock()
	j.mu.Lock()
	f := j.files[len(j.files)-1] // what is written now is synced, whatever a late caller appends
	j.mu.Unlock()
	err := j.flush()
	if err == nil {
		err = j.position(f.number, f.size)
	}
	return errors.Join(err, j.current.Close())
}

package journal

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// A Kind says where a record comes from.
type Kind byte

// Kinds of record.
const (
	Own      Kind = 'o' // an entry that this host wrote, at the time that the log gave it
	Alone    Kind = 'a' // an entry that this host granted while the log was away, by its reckoning of the log's clock
	Mirrored Kind = 'm' // an entry that another host wrote, read from the log
	began    Kind = 'b' // a start
	ended    Kind = 'e' // a clean stop
	header   Kind = 'h' // of a file
	tried    Kind = 't' // that the disk takes a record again
)

// A Record is an entry. At is in µs, and its ID has 1 to 300 bytes.
type Record struct {
	Kind     Kind
	At       int64
	ID, Text string // empty for a start or a stop
}

// A Journal is open. Its methods may be called at the same time.
type Journal struct {
	dir, credential, id, cut string
	killed                   int
	previous                 Kind // of the record that Open read before
	fdatasync                func(*os.File) error
	newFileAt                int64        // bytes
	written, synced          atomic.Int64 // bytes, since Open
	dropped                  atomic.Int64 // the number of a file

	disk       sync.Mutex // guards positioned
	positioned time.Time

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
	size   int64
	sum    uint32
	newest int64 // time of an entry
}

// A place is that of the newest entry of an id: a log that has forgotten an id may have another entry under it.
type place struct {
	number int // of the file
	at     int64
}

// Cut returns what Open has cut or set aside, as a sentence; "" if nothing.
func (j *Journal) Cut() string { return j.cut }

// Killed returns how many starts found no clean stop before them, in the files that there were at Open.
func (j *Journal) Killed() int { return j.killed }

// Has reports whether the journal has an entry.
func (j *Journal) Has(id string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.ids[id].number > 0
}

// Append writes entries by one write(2), but for those whose ID the journal has last from that time. If it returns an
// error, none counts.
func (j *Journal) Append(records ...Record) error {
	for _, r := range records {
		if r.Kind != Own && r.Kind != Alone && r.Kind != Mirrored || r.ID == "" || len(r.ID) > 300 {
			return fmt.Errorf("an entry has a kind, and an id of 1 to 300 bytes: %q %.310q", r.Kind, r.ID)
		}
	}
	return j.write(records...)
}

// Try writes a record that says nothing, of the size of a large entry: after a failure it shows that entries are taken
// again.
func (j *Journal) Try() error {
	return j.write(Record{Kind: tried, At: micros(), Text: strings.Repeat(" ", 400)})
}

func (j *Journal) write(records ...Record) (err error) {
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
	sum, lines, fresh := f.sum, []byte(nil), make(map[string]bool)
	for _, r := range records {
		if !j.knows(r) && !fresh[r.ID] {
			lines, sum = r.appendLine(lines, sum)
			fresh[r.ID] = true
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
	if r.ID == "" || j.knows(r) {
		return
	}
	// The id may be a part of a whole line.
	j.ids[strings.Clone(r.ID)], f.newest = place{f.number, r.At}, max(f.newest, r.At)
}

// prepare repairs a failed sync, and begins a new file after a full one. No Append writes to either meanwhile. All of
// the full one is on disk before: so only the last file can be incomplete.
func (j *Journal) prepare() error {
	j.disk.Lock()
	defer j.disk.Unlock()
	err := j.flush(false)
	j.mu.Lock()
	f := j.files[len(j.files)-1]
	j.mu.Unlock()
	if err != nil || f.size < j.newFileAt {
		return err
	}
	return j.begin(f.number+1, f.sum)
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
	return j.flush(false)
}

// flush syncs what is written by now, and writes the position if it must, or if it is old. A sync that failed may have
// marked pages as clean that are not on disk, so that the next one returns nil (fsync(2); Rebello et al., "Can
// Applications Recover from fsync Failures?", 2020). So flush writes the same bytes to the same place again before it
// syncs again: that makes the pages dirty, and keeps each record in one place.
func (j *Journal) flush(must bool) (err error) {
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
	if j.failed = err != nil; !j.failed {
		j.unsynced = j.unsynced[len(lines):]
		j.synced.Add(int64(len(lines)))
	}
	j.mu.Unlock()
	if err == nil && (must || time.Since(j.positioned) > time.Minute) {
		position, _ := j.header(f.number, f.size).appendLine(nil, 0)
		if err = replace(j.dir+".position", position); err == nil {
			j.positioned = time.Now()
		} else if !must {
			return nil // an older position is right, too
		}
	}
	if err != nil {
		return fmt.Errorf("cannot sync journal %q: %w", j.dir, err)
	}
	return nil
}

// Drop deletes the oldest files while all entries of them are older than before, but never the one being written.
func (j *Journal) Drop(before int64) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.files) > 1 && j.files[0].newest < before {
		if err := os.Remove(j.path(j.files[0].number)); err != nil {
			return fmt.Errorf("cannot delete journal file: %w", err)
		}
		j.dropped.Store(int64(j.files[0].number))
		maps.DeleteFunc(j.ids, func(_ string, p place) bool { return p.number == j.files[0].number })
		j.files = j.files[1:]
	}
	return nil
}

// Close records a clean stop, and returns when all is on disk.
func (j *Journal) Close() error {
	err := j.write(Record{Kind: ended, At: micros()})
	j.disk.Lock()
	defer j.disk.Unlock()
	return errors.Join(err, j.flush(true), j.current.Close())
}

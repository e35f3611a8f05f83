package outage

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"quotad/quota"
)

// A Journal is this daemon's own record of what it was granted: lines of JSON in
// files that are only appended to. What is written survives the daemon at once,
// and the machine where it was synced.
type Journal struct {
	dir  string
	keep time.Duration

	mu       sync.Mutex // guards what follows
	file     *os.File   // the newest segment
	size     int64
	segments []string // paths, oldest first
	marks    map[string]quota.Mark
	unbooked map[string]bool // credentials that were granted alone since they were booked back
}

// A line of the journal is one of: a grant, a settlement, a mark, or that what
// was granted alone up to it has been booked back.
type line struct {
	Credential string      `json:"c"`
	Kind       lineKind    `json:"kind"`
	ID         string      `json:"id,omitempty"`
	Operation  string      `json:"op,omitempty"`
	Count      quota.Units `json:"n,omitempty"`
	By         string      `json:"by,omitempty"`
	Region     string      `json:"region,omitempty"`
	Note       string      `json:"note,omitempty"`
	Key        string      `json:"key,omitempty"`
	Charges    []charge    `json:"u,omitempty"`
	Settled    quota.Units `json:"settled,omitempty"`
	Epoch      string      `json:"epoch,omitempty"`
}

type charge struct {
	Limit string      `json:"l"`
	Units quota.Units `json:"u"`
}

type lineKind string

const (
	granted lineKind = "grant"  // by the ledger
	alone   lineKind = "alone"  // by this daemon, during an outage
	settled lineKind = "settle" // ID to Settled
	booked  lineKind = "booked" // every earlier line of kind alone
	marked  lineKind = "mark"   // Epoch and the newest ID known
	emptied lineKind = "reset"  // the log, up to ID
)

// segmentSize is where a segment ends and the next one begins.
const segmentSize = 8 << 20

// OpenJournal opens the journal in a directory, which it makes. Lines older than
// keep may be dropped.
func OpenJournal(dir string, keep time.Duration) (*Journal, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("cannot make the journal's directory: %w", err)
	}
	segments, err := filepath.Glob(filepath.Join(dir, "journal-*.jsonl"))
	if err != nil {
		return nil, err
	}
	slices.Sort(segments)
	j := &Journal{dir: dir, keep: keep, segments: segments, marks: make(map[string]quota.Mark), unbooked: make(map[string]bool)}
	if err := replay(j.segments, nil, j.note); err != nil {
		return nil, err
	}
	return j, j.open()
}

// open continues the newest segment, behind its last whole line: a line that a
// crash cut short was never answered for.
func (j *Journal) open() error {
	if len(j.segments) == 0 {
		return j.begin()
	}
	path := j.segments[len(j.segments)-1]
	content, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("cannot read the journal: %w", err)
	}
	whole := int64(bytes.LastIndexByte(content, '\n') + 1)
	if err := os.Truncate(path, whole); err != nil {
		return fmt.Errorf("cannot mend the journal: %w", err)
	}
	j.file, err = os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot open the journal: %w", err)
	}
	j.size = whole
	return nil
}

// begin starts the next segment.
func (j *Journal) begin() error {
	path := filepath.Join(j.dir, fmt.Sprintf("journal-%020d.jsonl", time.Now().UnixNano()))
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("cannot begin a segment of the journal: %w", err)
	}
	if j.file != nil {
		if err := errors.Join(j.file.Sync(), j.file.Close()); err != nil {
			return fmt.Errorf("cannot end a segment of the journal: %w", err)
		}
	}
	j.file, j.size, j.segments = file, 0, append(j.segments, path)
	return nil
}

// Close closes the journal.
func (j *Journal) Close() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return errors.Join(j.file.Sync(), j.file.Close())
}

// Marks returns what the journal knows of each credential's log.
func (j *Journal) Marks() map[string]quota.Mark {
	j.mu.Lock()
	defer j.mu.Unlock()
	marks := make(map[string]quota.Mark, len(j.marks))
	for name, m := range j.marks {
		marks[name] = m
	}
	return marks
}

// owes tells whether something that was granted alone is not booked back yet.
func (j *Journal) owes(credential string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.unbooked[credential]
}

// append writes lines with one call, and when sync is set returns only once the
// disk has them.
func (j *Journal) append(sync bool, lines ...line) error {
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	for _, l := range lines {
		if err := encoder.Encode(l); err != nil {
			return err
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := j.write(buffer.Bytes()); err != nil {
		return err
	}
	for _, l := range lines {
		j.note(l)
	}
	if sync {
		if err := j.file.Sync(); err != nil {
			return fmt.Errorf("cannot write the journal: %w", err)
		}
	}
	if j.size >= segmentSize {
		// The lines are written; a segment that cannot begin now begins after the
		// next ones, and what keeps it from that keeps them from being written.
		_ = j.rotate()
	}
	return nil
}

// write appends whole lines or nothing.
func (j *Journal) write(content []byte) error {
	n, err := j.file.Write(content)
	if err == nil {
		j.size += int64(n)
		return nil
	}
	if n > 0 {
		err = errors.Join(err, j.file.Truncate(j.size))
	}
	return fmt.Errorf("cannot write the journal: %w", err)
}

// note takes in what a line says of its log.
func (j *Journal) note(l line) {
	switch l.Kind {
	case alone:
		j.unbooked[l.Credential] = true
	case booked, emptied:
		delete(j.unbooked, l.Credential)
	}
	id, err := quota.ParseID(l.ID)
	if err != nil || l.Epoch == "" {
		return
	}
	j.marks[l.Credential] = quota.Mark{Epoch: l.Epoch, Newest: id}
}

// rotate begins a segment with what is known of every log, and drops those that
// are older than anything kept.
func (j *Journal) rotate() error {
	if err := j.begin(); err != nil {
		return err
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	for name, m := range j.marks {
		if err := encoder.Encode(line{Credential: name, Kind: marked, Epoch: m.Epoch, ID: m.Newest.String()}); err != nil {
			return err
		}
	}
	if err := j.write(buffer.Bytes()); err != nil {
		return err
	}
	for len(j.segments) > 1 && j.outdated(j.segments[0]) {
		if err := os.Remove(j.segments[0]); err != nil {
			return fmt.Errorf("cannot drop a segment of the journal: %w", err)
		}
		j.segments = j.segments[1:]
	}
	return nil
}

func (j *Journal) outdated(path string) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()) > j.keep
}

// replay hands over every line of segments that begins with a prefix, oldest first. A
// segment's last line may have been cut short by a crash, or is being written, and was
// never answered for.
func replay(segments []string, prefix []byte, take func(line)) error {
	for _, path := range segments {
		file, err := os.Open(path)
		if err != nil {
			return fmt.Errorf("cannot read the journal: %w", err)
		}
		err = replayFile(file, prefix, take)
		file.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func replayFile(file *os.File, prefix []byte, take func(line)) error {
	reader := bufio.NewReader(file)
	for number := 1; ; number++ {
		text, err := reader.ReadBytes('\n')
		if err != nil {
			return nil
		}
		if !bytes.HasPrefix(text, prefix) {
			continue
		}
		var l line
		if err := json.Unmarshal(text, &l); err != nil {
			return fmt.Errorf("journal %q, line %d: %w; move the file away to go on without what it knows", file.Name(), number, err)
		}
		take(l)
	}
}

// A memory is what the journal knows of one credential.
type memory struct {
	records  []quota.Entry // granted, in the order they were
	unbooked []quota.Entry // of these, granted alone and not booked back yet, however long ago
}

// recall reads what is known of a credential since a time. What is not booked back
// yet is among it: some may be, if more was granted alone in the meantime.
func (j *Journal) recall(credential string, since time.Time) (memory, error) {
	j.mu.Lock()
	segments := slices.Clone(j.segments)
	j.mu.Unlock()
	var m memory
	at := make(map[string]int) // of records, by id
	unbooked := make(map[string]bool)
	// A name is letters, digits and a few signs, none of which JSON writes differently.
	err := replay(segments, []byte(`{"c":"`+credential+`"`), func(l line) {
		switch l.Kind {
		case granted, alone:
			if _, twice := at[l.ID]; twice { // a replay was written down again
				return
			}
			at[l.ID] = len(m.records)
			m.records = append(m.records, l.record())
			if l.Kind == alone {
				unbooked[l.ID] = true
			}
		case settled:
			if i, ok := at[l.ID]; ok {
				m.records[i].Settled, m.records[i].SettledTo = true, l.Settled
			}
		case booked:
			clear(unbooked)
		case emptied:
			m.records = nil
			clear(at)
			clear(unbooked)
		}
	})
	for _, r := range m.records {
		if unbooked[r.ID.String()] {
			m.unbooked = append(m.unbooked, r)
		}
	}
	m.records = slices.DeleteFunc(m.records, func(r quota.Entry) bool { return r.ID.Time().Before(since) })
	return m, err
}

func (l line) record() quota.Entry {
	id, _ := quota.ParseID(l.ID)
	r := quota.Entry{
		ID: id, Kind: quota.KindGrant, Operation: l.Operation, Count: l.Count,
		By: l.By, Region: l.Region, Key: l.Key, Note: l.Note,
	}
	for _, c := range l.Charges {
		r.Charges = append(r.Charges, quota.Charge{Limit: c.Limit, Units: c.Units})
	}
	if r.Operation == "" {
		r.Kind, r.Asked = quota.KindAdjustment, int64(quota.Max(r.Charges))
	}
	return r
}

func lineOf(credential string, kind lineKind, epoch string, r quota.Entry) line {
	l := line{
		Credential: credential, Kind: kind, ID: r.ID.String(), Operation: r.Operation, Count: r.Count,
		By: r.By, Region: r.Region, Key: r.Key, Note: r.Note, Epoch: epoch,
	}
	for _, c := range r.Charges {
		l.Charges = append(l.Charges, charge{Limit: c.Limit, Units: c.Units})
	}
	return l
}

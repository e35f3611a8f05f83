package ledgertest

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A MemFile is a slidinglog.File in memory, for simulations: it can crash, lose what was not
// synced, be copied, and be full. It is not safe for concurrent use.
type MemFile struct {
	Full bool // there is no room

	head   []byte
	tables map[string]*memTables
	frames []memFrame
	cut    int // how many frames were written before the last Cut
	dead   bool
}

type memFrame struct {
	credential string
	body       []byte
	synced     bool
}

type memTables struct {
	rows  [slidinglog.TableCount]map[string][]byte
	keys  [slidinglog.TableCount][]string // of rows, sorted
	facts []byte
}

var _ slidinglog.File = (*MemFile)(nil)

// NewMemFile returns a new file.
func NewMemFile() *MemFile { return &MemFile{tables: make(map[string]*memTables)} }

// Crash ends the process that has the file, whatever it still writes, and returns the file as
// the next one finds it. A crash of the machine loses the frames that were not synced, but
// for the first few.
func (m *MemFile) Crash(machine bool, few int) *MemFile {
	m.dead = true
	next := &MemFile{head: m.head, tables: m.tables, frames: slices.Clone(m.frames)}
	if machine {
		last := 0
		for i, f := range next.frames {
			if f.synced {
				last = i + 1
			}
		}
		next.frames = next.frames[:min(len(next.frames), last+few)]
	}
	return next
}

// Clone returns a copy of the file, as a snapshot of a virtual machine has one.
func (m *MemFile) Clone() *MemFile {
	clone := &MemFile{head: slices.Clone(m.head), tables: make(map[string]*memTables), frames: slices.Clone(m.frames)}
	maps.Copy(clone.tables, m.tables) // they never change
	return clone
}

// View implements slidinglog.File.
func (m *MemFile) View(credential string, f func(slidinglog.Tables) error) error {
	t := m.tables[credential]
	if t == nil {
		t = &memTables{}
	}
	return f(t)
}

// Head implements slidinglog.File.
func (m *MemFile) Head() ([]byte, error) { return m.head, nil }

// SetHead implements slidinglog.File.
func (m *MemFile) SetHead(head []byte) error {
	if !m.dead {
		m.head = head
	}
	return nil
}

// Tail implements slidinglog.File.
func (m *MemFile) Tail(f func(credential string, frame []byte) error) error {
	for _, frame := range m.frames {
		if err := f(frame.credential, frame.body); err != nil {
			return err
		}
	}
	return nil
}

// Room implements slidinglog.File.
func (m *MemFile) Room(string, int) error {
	if m.Full {
		return fmt.Errorf("%w: no room", quota.ErrUnavailable)
	}
	return nil
}

// Append implements slidinglog.File.
func (m *MemFile) Append(credential string, frame []byte, sync bool) error {
	if m.dead {
		return nil
	}
	m.frames = append(m.frames, memFrame{credential, slices.Clone(frame), false})
	for i := len(m.frames) - 1; sync && i >= 0 && !m.frames[i].synced; i-- {
		m.frames[i].synced = true
	}
	return nil
}

// Cut implements slidinglog.File.
func (m *MemFile) Cut() { m.cut = len(m.frames) }

// Fold implements slidinglog.File.
func (m *MemFile) Fold(changes []slidinglog.TableChange) error {
	if m.dead {
		return nil
	}
	if m.Full {
		return fmt.Errorf("%w: no room", quota.ErrUnavailable)
	}
	tables := maps.Clone(m.tables) // a file that was opened after a crash has the old ones
	for _, change := range changes {
		tables[change.Credential] = tables[change.Credential].changed(change)
	}
	m.tables, m.frames, m.cut = tables, slices.Clone(m.frames[m.cut:]), 0
	return nil
}

func (t *memTables) changed(change slidinglog.TableChange) *memTables {
	n := &memTables{facts: change.Facts}
	for i := range n.rows {
		n.rows[i] = make(map[string][]byte)
		if t != nil && !change.Empty {
			maps.Copy(n.rows[i], t.rows[i])
		}
	}
	for _, row := range change.Rows {
		if row.Value == nil {
			delete(n.rows[row.Table], string(row.Key))
		} else {
			n.rows[row.Table][string(row.Key)] = row.Value
		}
	}
	for i := range n.keys {
		n.keys[i] = slices.Sorted(maps.Keys(n.rows[i]))
	}
	return n
}

// Get implements slidinglog.Tables.
func (t *memTables) Get(table slidinglog.Table, key []byte) []byte {
	return t.rows[table][string(key)]
}

// Rows implements slidinglog.Tables.
func (t *memTables) Rows(table slidinglog.Table, after []byte, back bool) iter.Seq2[[]byte, []byte] {
	return func(yield func(key, value []byte) bool) {
		keys := t.keys[table]
		n, found := slices.BinarySearch(keys, string(after))
		switch {
		case back && len(after) == 0:
			n = len(keys)
		case !back && found:
			n++
		}
		if keys = keys[n:]; back {
			keys = slices.Clone(t.keys[table][:n])
			slices.Reverse(keys)
		}
		for _, key := range keys {
			if !yield([]byte(key), t.rows[table][key]) {
				return
			}
		}
	}
}

// Facts implements slidinglog.Tables.
func (t *memTables) Facts() []byte { return t.facts }

// Health implements slidinglog.File.
func (m *MemFile) Health() (unwritten []string, err error) { return nil, nil }

// Close implements slidinglog.File.
func (m *MemFile) Close() error { return nil }

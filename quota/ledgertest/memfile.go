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
	ids     []quota.ID // sorted
	entries map[quota.ID][]byte
	names   map[string]quota.ID
	marks   []quota.ID // sorted
	facts   []byte
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
	for name, t := range m.tables {
		clone.tables[name] = &memTables{
			ids: slices.Clone(t.ids), entries: maps.Clone(t.entries), names: maps.Clone(t.names),
			marks: slices.Clone(t.marks), facts: t.facts,
		}
	}
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
	n := &memTables{entries: make(map[quota.ID][]byte), names: make(map[string]quota.ID), facts: change.Facts}
	marks := make(map[quota.ID]bool)
	if t != nil && !change.Empty {
		maps.Copy(n.entries, t.entries)
		maps.Copy(n.names, t.names)
		for _, id := range t.marks {
			marks[id] = true
		}
	}
	for _, id := range change.Delete {
		delete(n.entries, id)
	}
	for _, item := range change.Put {
		n.entries[item.ID] = item.Value
	}
	for key, id := range change.Name {
		if n.names[key] = id; id.IsZero() {
			delete(n.names, key)
		}
	}
	for id, set := range change.Mark {
		if marks[id] = set; !set {
			delete(marks, id)
		}
	}
	n.ids = slices.SortedFunc(maps.Keys(n.entries), quota.ID.Compare)
	n.marks = slices.SortedFunc(maps.Keys(marks), quota.ID.Compare)
	return n
}

// Entry implements slidinglog.Tables.
func (t *memTables) Entry(id quota.ID) ([]byte, error) { return t.entries[id], nil }

// Entries implements slidinglog.Tables.
func (t *memTables) Entries(after quota.ID, back bool) iter.Seq2[slidinglog.Item, error] {
	return func(yield func(slidinglog.Item, error) bool) {
		n, found := slices.BinarySearchFunc(t.ids, after, quota.ID.Compare)
		switch {
		case back && after.IsZero():
			n = len(t.ids)
		case !back && found:
			n++
		}
		for back && n > 0 || !back && n < len(t.ids) {
			if back {
				n--
			}
			if !yield(slidinglog.Item{ID: t.ids[n], Value: t.entries[t.ids[n]]}, nil) {
				return
			}
			if !back {
				n++
			}
		}
	}
}

// Named implements slidinglog.Tables.
func (t *memTables) Named(key string) (quota.ID, bool) {
	id, ok := t.names[key]
	return id, ok
}

// Marked implements slidinglog.Tables.
func (t *memTables) Marked(after quota.ID) iter.Seq[quota.ID] {
	n, found := slices.BinarySearchFunc(t.marks, after, quota.ID.Compare)
	if found {
		n++
	}
	return slices.Values(t.marks[n:])
}

// Facts implements slidinglog.Tables.
func (t *memTables) Facts() ([]byte, error) { return t.facts, nil }

// Health implements slidinglog.File.
func (m *MemFile) Health() (warnings []string, err error) { return nil, nil }

// Close implements slidinglog.File.
func (m *MemFile) Close() error { return nil }

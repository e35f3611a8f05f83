package slidinglog

import (
	"iter"

	"quotad/quota"
)

// An overlay holds what has changed since the tables were written, until a fold has written
// that too. Each change carries a stamp, so that the end of a fold drops just what it wrote.
type overlay[K comparable, V any] map[K]stamped[V]

type stamped[V any] struct {
	value V
	stamp uint64
}

// settle drops the changes that a fold has written.
func (o overlay[K, V]) settle(stamp uint64) {
	for k, v := range o {
		if v.stamp <= stamp {
			delete(o, k)
		}
	}
}

// values returns all changes.
func (o overlay[K, V]) values() map[K]V {
	all := make(map[K]V, len(o))
	for k, v := range o {
		all[k] = v.value
	}
	return all
}

// noTables are those of a credential of which nothing was written, or of which all is void.
type noTables struct{}

func (noTables) Entry(quota.ID) ([]byte, error) { return nil, nil }
func (noTables) Entries(quota.ID, bool) iter.Seq2[Item, error] {
	return func(func(Item, error) bool) {}
}
func (noTables) Named(string) (quota.ID, bool)      { return quota.ID{}, false }
func (noTables) Marked(quota.ID) iter.Seq[quota.ID] { return func(func(quota.ID) bool) {} }
func (noTables) Facts() ([]byte, error)             { return nil, nil }

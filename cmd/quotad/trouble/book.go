package trouble

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// over is for how long a trouble must be absent to be over.
const over = time.Minute

// A Book knows which troubles there are, and since when. What its first list has may have been reported before a restart,
// unless it is known to be newer than that: than Began. It is not safe for concurrent use.
type Book struct {
	Began time.Time
	known map[name]*incident
}

// A name is what makes two troubles the same one: another cause is another trouble.
type name struct {
	Kind
	of, cause string
}

func (t *Trouble) name() name { return name{t.Kind, t.Of, t.Cause} }

type incident struct {
	Trouble
	seen time.Time // when it was there last
}

// A Change is the beginning or the end of a trouble.
type Change struct {
	Trouble
	Ended, Again bool
}

// Update compares the list with what is known, and returns what began and what is over.
func (b *Book) Update(list []Trouble, now time.Time) (changes []Change) {
	first := b.known == nil
	if first {
		b.known = map[name]*incident{}
	}
	for i, t := range b.Dated(list, now) {
		if b.known[t.name()] == nil {
			since := list[i].Since
			changes = append(changes, Change{Trouble: t, Again: first && (since.IsZero() || since.Before(b.Began))})
		}
		b.known[t.name()] = &incident{t, now}
	}
	began := len(changes)
	for of, e := range b.known {
		if e.seen.After(now) { // the clock was set back
			e.seen = now
		}
		if now.Sub(e.seen) >= over {
			delete(b.known, of)
			changes = append(changes, Change{Trouble: e.Trouble, Ended: true})
		}
	}
	slices.SortFunc(changes[began:], func(a, b Change) int {
		return cmp.Or(a.Since.Compare(b.Since), strings.Compare(a.Of, b.Of), strings.Compare(a.Cause, b.Cause))
	})
	return changes
}

// Dated returns a list with the times since when each trouble is known.
func (b *Book) Dated(list []Trouble, now time.Time) []Trouble {
	list = slices.Clone(list)
	for i := range list {
		t := &list[i]
		if e := b.known[t.name()]; e != nil {
			t.Since = e.Since
		} else if t.Since.IsZero() {
			t.Since = now
		}
	}
	return list
}

// Has returns whether a trouble is known.
func (b *Book) Has(kind Kind, of, cause string) bool { return b.known[name{kind, of, cause}] != nil }

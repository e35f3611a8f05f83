package trouble

import (
	"slices"
	"time"
)

// over is for how long a trouble must be absent to be over.
const over = time.Minute

// A Book knows which troubles there are, and of which beginnings and ends the commands have run. Its zero value knows
// none. It holds one entry for each name, however often a trouble comes and goes. It is not safe for concurrent use.
type Book struct {
	// Entries are kept in a file, so that a restart repeats nothing.
	Entries []Incident
	at      map[name]int // the index of each
}

type name struct {
	kind Kind
	of   string
}

// An Incident is a trouble that was there a minute ago, or whose end is not reported yet.
type Incident struct {
	Trouble
	Reported bool      `json:"reported,omitempty"` // its beginning
	Over     bool      `json:"over,omitempty"`     // its end is to be reported
	seen     time.Time // when it was there last
}

// A Change is the beginning or the end of a trouble, which is to be reported.
type Change struct {
	Trouble
	Ended bool
}

// Resume begins with the entries, as a file had them: what is absent has a minute. It returns what is not reported
// yet.
func (b *Book) Resume(now time.Time) (unreported []Change) {
	b.index()
	for i := range b.Entries {
		e := &b.Entries[i]
		e.seen = now
		if !e.Reported {
			unreported = append(unreported, Change{e.Trouble, false})
		}
		if e.Over {
			unreported = append(unreported, Change{e.Trouble, true})
		}
	}
	return unreported
}

func (b *Book) index() {
	b.at = make(map[name]int, len(b.Entries))
	for i, e := range b.Entries {
		b.at[name{e.Kind, e.Of}] = i
	}
}

// Update compares the list with what is known, and returns what began and what is over.
func (b *Book) Update(list []Trouble, now time.Time) (changes []Change) {
	if b.at == nil {
		b.index()
	}
	for _, t := range b.Dated(list, now) {
		of := name{t.Kind, t.Of}
		i, known := b.at[of]
		if !known {
			i = len(b.Entries)
			b.at[of] = i
			b.Entries = append(b.Entries, Incident{Trouble: t})
		}
		e := &b.Entries[i]
		e.Trouble, e.seen = t, now
		if !known || e.Over { // it is back before its end was reported
			e.Over = false
			changes = append(changes, Change{t, false})
		}
	}
	for i := range b.Entries {
		e := &b.Entries[i]
		if e.seen.After(now) { // the clock was set back
			e.seen = now
		}
		if !e.Over && now.Sub(e.seen) >= over {
			e.Over = true
			changes = append(changes, Change{e.Trouble, true})
		}
	}
	return changes
}

// Reported records that the command for a change has run, or that there is none.
func (b *Book) Reported(c Change) {
	i, known := b.at[name{c.Kind, c.Of}]
	switch {
	case !known:
	case !c.Ended:
		b.Entries[i].Reported = true
	case b.Entries[i].Over:
		b.Entries = slices.Delete(b.Entries, i, i+1)
		b.index()
	}
}

// Dated returns a list with the times since when each trouble is known.
func (b *Book) Dated(list []Trouble, now time.Time) []Trouble {
	list = slices.Clone(list)
	for i := range list {
		t := &list[i]
		if n, known := b.at[name{t.Kind, t.Of}]; known && !b.Entries[n].Over {
			t.Since = b.Entries[n].Since
		} else if t.Since.IsZero() {
			t.Since = now
		}
	}
	return list
}

// Has returns whether a trouble is known.
func (b *Book) Has(kind Kind, of string) bool {
	_, known := b.at[name{kind, of}]
	return known
}

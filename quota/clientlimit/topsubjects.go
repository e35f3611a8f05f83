package clientlimit

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"
)

// topSubjects are those that were denied most in the current span of time and in the one before.
// Each span counts up to topCounted subjects. A further one replaces the one that was denied least
// and continues its number (the space-saving algorithm of Metwally, Agrawal and El Abbadi): a
// subject that is denied often is among them, with a number that is never too small. The zero
// value is empty.
type topSubjects struct {
	mu sync.Mutex // guards what follows
	spans[map[Key]*Denied]
}

const (
	topCounted = 64 // in each span
	topListed  = 20
)

// Denied is how often a subject was denied.
type Denied struct {
	Subject Key
	Denials int64 // at most
	Last    time.Time
}

// record counts a denial.
func (t *topSubjects) record(subject Key, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now)
	if t.current == nil {
		t.current = make(map[Key]*Denied)
	}
	one := t.current[subject]
	if one == nil {
		one = &Denied{Subject: subject}
		if len(t.current) == topCounted {
			replaced := slices.MinFunc(slices.Collect(maps.Values(t.current)), func(a, b *Denied) int {
				return cmp.Or(cmp.Compare(a.Denials, b.Denials), a.Last.Compare(b.Last))
			})
			one.Denials = replaced.Denials
			delete(t.current, replaced.Subject)
		}
		t.current[subject] = one
	}
	one.Denials++
	one.Last = now
}

// list returns the subjects of both spans, those with the most denials first.
func (t *topSubjects) list(now time.Time) []Denied {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now)
	sums := make(map[Key]Denied, len(t.current)+len(t.before))
	for _, span := range []map[Key]*Denied{t.before, t.current} {
		for key, one := range span {
			sums[key] = Denied{Subject: key, Denials: sums[key].Denials + one.Denials, Last: one.Last}
		}
	}
	list := slices.SortedFunc(maps.Values(sums), func(a, b Denied) int {
		return cmp.Or(cmp.Compare(b.Denials, a.Denials), b.Last.Compare(a.Last), cmp.Compare(a.Subject, b.Subject))
	})
	return list[:min(len(list), topListed)]
}

package clientlimit

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// TopSubjects are those that were denied most of late: in the current span of time and in
// the one before. Each span remembers so many subjects; another one takes the place of the
// one that was denied least, and its number (the space-saving algorithm of Metwally,
// Agrawal and El Abbadi), so that whoever is denied often is among them, with a number
// that is never too small. The zero value is empty.
type topSubjects struct {
	mu sync.Mutex // guards what follows
	spans[map[Key]*Denied]
}

const (
	topCounted = 64 // in each span
	topTold    = 20
)

// Denied is how often a subject was denied.
type Denied struct {
	Subject Key
	Denials int64 // at most
	Last    time.Time
}

// note counts a denial.
func (t *topSubjects) note(subject Key, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(now)
	if t.current == nil {
		t.current = make(map[Key]*Denied)
	}
	one := t.current[subject]
	if one == nil {
		one = &Denied{Subject: subject}
		if len(t.current) == topCounted {
			least := t.least()
			one.Denials = least.Denials
			delete(t.current, least.Subject)
		}
		t.current[subject] = one
	}
	one.Denials++
	one.Last = now
}

// least is the subject that was denied least, of those the one that was so last the longest
// ago.
func (t *topSubjects) least() *Denied {
	var least *Denied
	for _, one := range t.current {
		if least == nil || cmp.Or(cmp.Compare(one.Denials, least.Denials), one.Last.Compare(least.Last)) < 0 {
			least = one
		}
	}
	return least
}

// list returns the subjects of both spans, who was denied most first.
func (t *topSubjects) list(now time.Time) []Denied {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.turn(now)
	list := make([]Denied, 0, len(t.current)+len(t.before))
	for key, one := range t.current {
		sum := *one
		if earlier := t.before[key]; earlier != nil {
			sum.Denials += earlier.Denials
		}
		list = append(list, sum)
	}
	for key, one := range t.before {
		if t.current[key] == nil {
			list = append(list, *one)
		}
	}
	slices.SortFunc(list, func(a, b Denied) int {
		return cmp.Or(cmp.Compare(b.Denials, a.Denials), b.Last.Compare(a.Last), cmp.Compare(a.Subject, b.Subject))
	})
	return list[:min(len(list), topTold)]
}

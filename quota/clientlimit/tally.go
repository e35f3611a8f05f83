package clientlimit

import (
	"cmp"
	"context"
	"errors"
	"hash/maphash"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"quotad/quota"
)

// A tally counts what became of the requests of clients since the daemon started, and of the current
// hour and the one before, which subjects asked. It survives a change of the configuration.
type tally struct {
	seed maphash.Seed

	mu              sync.Mutex // guards what follows
	stats           Stats
	begun           time.Time // the current hour
	current, before hour
}

// Stats are the outcomes of requests since the daemon started.
type Stats struct {
	Granted      int64 // with those of OutageGrants
	Denied       int64
	OutageGrants int64 // without the ledger
	Undecided    int64
}

// An hour is what is known of the subjects of one.
type hour struct {
	// smallest are the smallest hashes of the subjects that asked, in their order, at most crowdSize.
	smallest []uint64
	// denied are at most topCounted subjects. A further one replaces the one that was denied least and
	// continues its number (the space-saving algorithm of Metwally, Agrawal and El Abbadi): a subject
	// that is denied often is among them, with a number that is never too small.
	denied map[Key]*Denied
}

const (
	span       = time.Hour
	crowdSize  = 1024
	topCounted = 64
	topListed  = 20
)

// Denied is how often a subject was denied.
type Denied struct {
	Subject Key
	Denials int64 // at most
	Last    time.Time
}

// Stats returns the outcomes of requests.
func (t *tally) Stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.stats
}

// count counts a decision.
func (t *tally) count(d quota.Decision) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case errors.Is(d.Err, context.Canceled):
	case d.Err != nil:
		t.stats.Undecided++
	case !d.Granted():
		t.stats.Denied++
	default:
		t.stats.Granted++
		if d.Outage {
			t.stats.OutageGrants++
		}
	}
}

// advance begins another hour when the current one is over.
func (t *tally) advance(now time.Time) {
	over := now.Sub(t.begun)
	if over < span {
		return
	}
	if t.before = t.current; over >= 2*span {
		t.before = hour{}
	}
	t.begun, t.current = now, hour{denied: make(map[Key]*Denied)}
}

// asked records the subjects of some asks.
func (t *tally) asked(asks []priced, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now)
	smallest := t.current.smallest
	for _, ask := range asks {
		hash := maphash.String(t.seed, ask.subject.text)
		if len(smallest) == crowdSize && hash >= smallest[crowdSize-1] {
			continue
		}
		if at, known := slices.BinarySearch(smallest, hash); !known {
			smallest = slices.Insert(smallest[:min(len(smallest), crowdSize-1)], at, hash)
		}
	}
	t.current.smallest = smallest
}

// Subjects returns about how many subjects asked in the last hour or two, within some 3 %: all, or as many as fit among all
// hashes if the smallest ones are as close everywhere (the k minimum values of Bar-Yossef et al.).
func (g *Group) Subjects() int { return g.subjects(time.Now()) }

func (t *tally) subjects(now time.Time) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now)
	both := slices.Concat(t.before.smallest, t.current.smallest)
	slices.Sort(both)
	if both = slices.Compact(both); len(both) < crowdSize {
		return len(both)
	}
	return int(math.Round((crowdSize - 1) / math.Ldexp(float64(both[crowdSize-1]), -64)))
}

// deny records the denial of a subject.
func (t *tally) deny(subject Key, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now)
	denied := t.current.denied
	one := denied[subject]
	if one == nil {
		one = &Denied{Subject: subject}
		if len(denied) == topCounted {
			replaced := slices.MinFunc(slices.Collect(maps.Values(denied)), func(a, b *Denied) int {
				return cmp.Or(cmp.Compare(a.Denials, b.Denials), a.Last.Compare(b.Last))
			})
			one.Denials = replaced.Denials
			delete(denied, replaced.Subject)
		}
		denied[subject] = one
	}
	one.Denials++
	one.Last = now
}

// Top returns the subjects that were denied most in the last hour or two.
func (g *Group) Top() []Denied { return g.top(time.Now()) }

func (t *tally) top(now time.Time) []Denied {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.advance(now)
	sums := make(map[Key]Denied)
	for _, hour := range []hour{t.before, t.current} {
		for key, one := range hour.denied {
			sums[key] = Denied{Subject: key, Denials: sums[key].Denials + one.Denials, Last: one.Last}
		}
	}
	list := slices.SortedFunc(maps.Values(sums), func(a, b Denied) int {
		return cmp.Or(cmp.Compare(b.Denials, a.Denials), b.Last.Compare(a.Last), cmp.Compare(a.Subject, b.Subject))
	})
	return list[:min(len(list), topListed)]
}

package quota

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// A Dimension is what spending is grouped by.
type Dimension string

// The dimensions of a Breakdown, with the names of their shares.
const (
	ByJob       Dimension = "job"       // "" outside a pass
	ByRegion    Dimension = "region"    // "" outside a pass
	ByOperation Dimension = "operation" // "" of a booking
	ByCaller    Dimension = "caller"    // Caller.By: the job, or "@" and the uid
	ByHour      Dimension = "hour"      // when the hour began: "2026-03-14T09:00:00Z"
)

// Dimensions returns all there are.
func Dimensions() []Dimension {
	return []Dimension{ByJob, ByRegion, ByOperation, ByCaller, ByHour}
}

// of returns the name of the share that an entry belongs to.
func (d Dimension) of(e *Entry) string {
	switch d {
	case ByRegion:
		return e.Region
	case ByOperation:
		g, _ := e.Grant()
		return g.Operation
	case ByCaller:
		return e.By
	case ByHour:
		return e.At.UTC().Truncate(time.Hour).Format(time.RFC3339)
	}
	return jobNamed(e.By)
}

// SpentBy is what entries of one name spent, as they count after settling.
type SpentBy struct {
	Name  string
	Calls Units   // upstream; those of released grants were never made, those that cost nothing are this host's
	Units Units   // of each entry the greatest of its charges
	In    []Units // each limit of the credential, in its order
}

// A BreakdownQuery says which entries are summed, and how they are grouped.
type BreakdownQuery struct {
	By    Dimension // empty: ByJob
	Since time.Time // nothing older; zero: the whole log
	Max   int       // read at most this number of entries, the newest; 0: all
	// Now, if not zero, has each limit count what its window holds at that instant,
	// and leaves out what no window holds. Since is then not used.
	Now time.Time
}

// A Breakdown sums entries of a log by a dimension.
type Breakdown struct {
	Credential *Credential
	By         Dimension
	Total      SpentBy
	Partial    bool // there are more entries than the query reads

	shares map[string]*SpentBy
	after  []time.Time // each limit counts only what is later; nil: all
	reset  bool        // entries come newest first: what follows was before a reset
}

// newBreakdown returns an empty breakdown of entries of c.
func newBreakdown(c *Credential, by Dimension) *Breakdown {
	return &Breakdown{Credential: c, By: by, Total: SpentBy{In: make([]Units, len(c.Limits))}, shares: make(map[string]*SpentBy)}
}

// limitTo has each limit count only what its window holds at now, and returns the oldest
// beginning of a window.
func (b *Breakdown) limitTo(now time.Time) (oldest time.Time) {
	oldest = now
	for _, limit := range b.Credential.Limits {
		after, _ := limit.Window.Bounds(now)
		b.after = append(b.after, after)
		oldest = Earlier(oldest, after)
	}
	return oldest
}

// add counts an entry, unless it is the trace of a correction, which spent nothing.
func (b *Breakdown) add(e Entry) {
	kind := e.Kind()
	b.reset = b.reset || b.after != nil && kind == KindReset
	if b.reset || kind != KindGrant && kind != KindBooking {
		return
	}
	in, held := b.counts(&e)
	if !held {
		return
	}
	units := slices.Max(append(in, 0))
	if b.after == nil {
		units = max(units, Max(e.Charges)) // also in limits that are not configured any more
	}
	b.share(&e).add(&e, in, units)
	b.Total.add(&e, in, units)
}

// share returns the share that an entry belongs to.
func (b *Breakdown) share(e *Entry) *SpentBy {
	name := b.By.of(e)
	s := b.shares[name]
	if s == nil {
		s = &SpentBy{Name: name, In: make([]Units, len(b.Credential.Limits))}
		b.shares[name] = s
	}
	return s
}

// counts returns what an entry counts in each limit, and whether any window holds it: always,
// where all entries count.
func (b *Breakdown) counts(e *Entry) (in []Units, held bool) {
	in, held = make([]Units, len(b.Credential.Limits)), b.after == nil
	for i, limit := range b.Credential.Limits {
		if b.after == nil || e.At.After(b.after[i]) {
			in[i], _ = ChargeIn(e.Charges, limit.Name)
			was, charged := ChargeIn(e.Asked(), limit.Name)
			held = held || charged && max(was, in[i]) > 0
		}
	}
	return in, held
}

func (s *SpentBy) add(e *Entry, in []Units, units Units) {
	for i := range in {
		s.In[i] = add(s.In[i], in[i])
	}
	s.Units = add(s.Units, units)
	if units > 0 || e.wasMade() {
		g, _ := e.Grant()
		s.Calls = add(s.Calls, g.Count)
	}
}

// Shares returns the greatest share first, and hours in their order.
func (b *Breakdown) Shares() []SpentBy {
	shares := make([]SpentBy, 0, len(b.shares))
	for _, s := range b.shares {
		shares = append(shares, *s)
	}
	slices.SortFunc(shares, func(x, y SpentBy) int {
		if b.By == ByHour {
			return cmp.Compare(x.Name, y.Name)
		}
		return cmp.Or(cmp.Compare(y.Units, x.Units), cmp.Compare(x.Name, y.Name))
	})
	return shares
}

// A Holder is a share of what one limit holds.
type Holder struct {
	Name  string `json:"name"`
	Units Units  `json:"units"`
}

// in returns the shares of one limit alone, those that hold something, the greatest first.
func (b *Breakdown) in(limit string) []Holder {
	i := b.Credential.Index(limit)
	var holders []Holder
	for _, s := range b.shares {
		if s.In[i] > 0 {
			holders = append(holders, Holder{Name: s.Name, Units: s.In[i]})
		}
	}
	slices.SortFunc(holders, func(x, y Holder) int {
		return cmp.Or(cmp.Compare(y.Units, x.Units), cmp.Compare(x.Name, y.Name))
	})
	return holders
}

// Breakdown sums what the log of a credential holds, and the calls of this host that cost
// nothing, of at most a day. It reads as long as ctx lives.
func (s *Service) Breakdown(ctx context.Context, credential string, q BreakdownQuery) (*Breakdown, error) {
	c, err := s.configured(credential)
	if err != nil {
		return nil, err
	}
	b := newBreakdown(c, q.By)
	if !q.Now.IsZero() {
		q.Since = b.limitTo(q.Now)
	}
	read := 0
	err = s.Walk(ctx, credential, q.Since, func(e Entry) bool {
		if b.Partial = q.Max > 0 && read == q.Max; b.Partial {
			return false
		}
		read++
		b.add(e)
		return true
	})
	s.free.addTo(b, q.Since)
	return b, err
}

// A Spent is what was granted to a job for one region.
type Spent struct {
	Units Units            // debited, after settling
	Calls int64            // grants
	Made  map[string]Units // calls by operation
}

// Spent returns what a job was granted since an instant of the ledger's clock, by region. It
// reads as long as ctx lives.
func (s *Service) Spent(ctx context.Context, credential, job string, since time.Time) (map[string]Spent, error) {
	spent := map[string]Spent{}
	err := s.Walk(ctx, credential, since, func(e Entry) bool {
		g, ok := e.Grant()
		if !ok || e.By != job {
			return true
		}
		one := spent[e.Region]
		if one.Made == nil {
			one.Made = map[string]Units{}
		}
		one.Units = add(one.Units, Max(e.Charges))
		one.Calls++
		one.Made[g.Operation] = add(one.Made[g.Operation], g.Count)
		spent[e.Region] = one
		return true
	})
	return spent, err
}

package slidinglog

import (
	"context"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

// Follow polls each log that is due, and follows those with news, as the ledger does by itself. It starts
// no goroutine.
func (l *Ledger) Follow(ctx context.Context) {
	due := l.due()
	slices.SortFunc(due, func(x, y *replica) int { return strings.Compare(x.name, y.name) })
	for _, r := range due {
		if r.lock(ctx) != nil {
			continue
		}
		known, err := false, error(nil)
		if r.idle() {
			if out := r.poll(ctx); out.Result != Lost {
				known, err = r.update(ctx, out)
			}
		}
		if err == nil && !(known && r.idle()) {
			r.follow(ctx)
		}
		r.unlock()
	}
}

// Poll polls the logs that are due, as the ledger does by itself.
func (l *Ledger) Poll() {
	l.pollAll()
	l.workers.Wait()
}

// SetMaxUnfolded has reading wait for a fold when more than n rows are in memory only.
func (l *Ledger) SetMaxUnfolded(n int) { l.maxUnfolded = n }

// SetMaxLate has the host put back n entries in a record.
func (l *Ledger) SetMaxLate(n int) { l.maxLate = n }

// SetAwait has calls wait for a lock by await, which reports whether they have it, and whether ctx has ended first.
func (l *Ledger) SetAwait(await func(ctx context.Context, lock, decided chan struct{}) (locked, ends bool)) {
	l.await = await
}

// SetWithin has a call that was frozen be made again by what within returns.
func (l *Ledger) SetWithin(within func(context.Context, time.Duration) (context.Context, context.CancelFunc)) {
	l.within = within
}

// Waiting returns how many calls of a credential wait to be decided.
func (l *Ledger) Waiting(c *quota.Credential) int {
	r, err := l.replica(c.Name)
	if err != nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// Run returns which run of its host the ledger is.
func (l *Ledger) Run() uint32 {
	_, run := l.self()
	return run
}

// Serves tells whether the ledger decides about a credential.
func (l *Ledger) Serves(c *quota.Credential) bool {
	r, err := l.replica(c.Name)
	return err == nil && r.serving() == nil
}

// Settled tells whether the ledger serves, owes the log nothing, and knows it up to a place.
func (l *Ledger) Settled(c *quota.Credential, end Position) bool {
	r, err := l.replica(c.Name)
	if err != nil || r.copy.facts.Position != end || r.refused != nil || r.ready() != nil || len(r.maybe) > 0 {
		return false
	}
	owed, hello := r.pending()
	return len(owed) == 0 && hello == nil
}

// At returns up to where the host knows the log.
func (l *Ledger) At(c *quota.Credential) Position {
	r, err := l.replica(c.Name)
	if err != nil {
		return Position{}
	}
	return r.copy.facts.Position
}

// Holds tells whether calls count as granted whose outcome is unknown.
func (l *Ledger) Holds(c *quota.Credential) bool {
	r, err := l.replica(c.Name)
	return err == nil && len(r.maybe) > 0
}

// Hole tells whether the host has noticed that the log of a credential lacks records.
func (l *Ledger) Hole(c *quota.Credential) bool {
	r, err := l.replica(c.Name)
	return err == nil && r.copy.facts.Hole > 0
}

// Knows tells whether a host is known to write to the log of a credential.
func (l *Ledger) Knows(c *quota.Credential, host HostID) bool {
	r, err := l.replica(c.Name)
	if err != nil {
		return false
	}
	h, ok := r.copy.facts.Hosts[host]
	return ok && !h.Left && h.Last > r.copy.oldest()
}

// DecodeRecord reads a record as it stands in a log.
func DecodeRecord(p Placed) (Record, error) { return decodeRecord(p) }

// Fresh tells whether a record brings entries that its writer has just decided.
func Fresh(p Placed) bool {
	here, err := decodeRecord(p)
	p.At.Ms++
	later, _ := decodeRecord(p)
	return err == nil && len(here.Entries) > 0 && here.Entries[0].ID != later.Entries[0].ID
}

// Entries returns what a host's copy has of the log of a credential.
func (l *Ledger) Entries(c *quota.Credential) (all []quota.Entry) {
	r, _ := l.replica(c.Name)
	r.copy.view(func() {
		for e := range r.copy.After(quota.ID{}) {
			all = append(all, e)
		}
	})
	return all
}

// Views returns what the account of a host's copy holds.
func (l *Ledger) Views(c *quota.Credential) []quota.Units {
	r, _ := l.replica(c.Name)
	return r.copy.account.Used()
}

// A Set is a copy of a log in which entries are put one by one.
type Set struct{ *Copy }

// OpenSet opens a copy of the log of a credential.
func OpenSet(file File, c *quota.Credential) (Set, error) {
	opened, err := openCopy(file, c.Name)
	if err == nil {
		opened.credential = c
	}
	return Set{opened}, err
}

// Put puts entries of one record, which stands at a place.
func (s Set) Put(at quota.ID, entries ...quota.Entry) error {
	return s.view(func() {
		s.apply(&Record{Entries: entries, at: Placed{At: at}})
	})
}

// Fold writes what has changed, all or none, into the tables.
func (s Set) Fold() error {
	var snapshot *snapshot
	err := s.view(func() { snapshot = s.snapshot() })
	if err != nil {
		return err
	}
	err = s.file.Fold([]TableChange{snapshot.encode()})
	s.folded(snapshot.stamp)
	return err
}

// Read returns what the limits hold at a time, which of them are closed, and the log.
func (s Set) Read(clock time.Time) (used []quota.Units, closed map[string]quota.Closed, log []quota.Entry, err error) {
	err = s.view(func() {
		s.advance(clock)
		used = s.account.Used()
		closed, log = s.account.Closed, s.page(quota.LogQuery{Max: 1000}).Entries
	})
	return used, closed, log, err
}

// Miscount has the first view count more in a block, or, behind the last one, in all.
func (l *Ledger) Miscount(c *quota.Credential, block int, by quota.Units) {
	r, _ := l.replica(c.Name)
	v := r.copy.account.views[0]
	v.used += by
	if block < len(v.blocks) {
		v.blocks[block].units += by
	}
}

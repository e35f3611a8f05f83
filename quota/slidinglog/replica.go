package slidinglog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"quotad/quota"
)

// A replica is this host's copy of the log of a credential, and its state.
type replica struct {
	ledger *Ledger
	name   string

	// locked is a mutex that is held from a decision until its record is in the copy, and while the
	// log is followed. It guards the next six fields.
	locked chan struct{}

	outrun    int                      // the records of others that came before its own while it followed the log
	begins    int64                    // the place, in ms, of a log's first record if it says that another one was near before it; 0: none
	waitedFor Tag                      // the quiet period that this host waits for
	waited    time.Duration            // how long it has waited, counted by its own polls
	written   map[HostID]time.Duration // how long it had waited when it read the last record of a host
	polledAt  time.Time                // when it polled last

	mu           sync.Mutex // guards the rest; never held during a call or a sync
	copy         *Copy
	waiting      []*waiter         // to be decided, by whichever of them has the lock first
	maybe        []*attempt        // the calls whose outcome is unknown, of which one at most is carried out
	unanswered   []*attempt        // earlier ones, which the log lacked
	unwritten    bool              // the store did not take the last record, or would not have
	revoked      []quota.Entry     // settlements of grants whose callers got no answer
	booked       quota.Units       // offline grants that the log got since the replica served last
	configured   *quota.Credential // nil until SetCredentials
	policy       Policy
	refused      error             // why it does not serve; nil: it serves
	reported     EventKind         // the last edge that was reported, Down or LostLog; "": none, or Up
	served       bool              // it has served before
	terms        []string          // what configured counts, in words
	summed       *quota.Credential // whose terms sum is of
	sum          [4]byte
	recent       [][4]byte // checksums of the last positions, as far as they were read since the start
	since        time.Time // when refused was set
	followedAt   time.Time // when it followed the log last
	storeClock   int64     // the store's clock, in ms, in its last answer
	storeClockAt time.Time // when that answer came
	yieldTo      HostID    // the host that may go first
	yieldUntil   time.Time
}

var (
	errJoining   error = catchingUp("its log is being read")
	errLost            = fmt.Errorf("%w: it was flushed, evicted or replaced by an older copy", quota.ErrLost)
	errReplaying error = catchingUp("grants of an outage are being booked")
)

// A catchingUp is a quota.ErrRecovering without a loss: this host and the log lack something of
// each other.
type catchingUp string

func (e catchingUp) Error() string { return fmt.Sprintf("%v: %s", quota.ErrUnavailable, string(e)) }
func (catchingUp) Unwrap() error   { return quota.ErrRecovering }

// isQuiet reports whether an error is the quiet period after a loss, or of a new log.
func isQuiet(err error) bool {
	return errors.Is(err, quota.ErrRecovering) && !errors.As(err, new(catchingUp))
}

// lock locks the replica. It fails when ctx ends.
func (r *replica) lock(ctx context.Context) error {
	_, err := r.await(ctx, nil)
	return err
}

// await waits for the lock, or until another call has decided this one. It fails when ctx ends, which says nothing
// about the store: other calls of this host were first, or the caller is gone.
func (r *replica) await(ctx context.Context, decided chan struct{}) (locked bool, err error) {
	if r.tryLock() {
		return true, nil
	}
	if locked, ends := r.ledger.await(ctx, r.locked, decided); !ends {
		return locked, nil
	}
	if err := r.serving(); err != nil {
		return false, err
	}
	if errors.Is(ctx.Err(), context.Canceled) {
		return false, context.Cause(ctx)
	}
	return false, r.contended()
}

// await waits for a lock, or for what makes it unnecessary. It reports whether it has the lock, and whether ctx has
// ended first.
func await(ctx context.Context, lock, decided chan struct{}) (locked, ends bool) {
	select {
	case <-decided:
		return false, false
	default:
	}
	select {
	case lock <- struct{}{}:
		return true, false
	case <-decided:
		return false, false
	case <-ctx.Done():
		return false, true
	}
}

// contended returns the error of a call that other calls were before, until its deadline.
func (r *replica) contended() error {
	return fmt.Errorf("credential %q: %w", r.name, quota.ErrContended)
}

func (r *replica) tryLock() bool {
	select {
	case r.locked <- struct{}{}:
		return true
	default:
		return false
	}
}

func (r *replica) unlock() { <-r.locked }

// serving returns why the replica does not serve.
func (r *replica) serving() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// joining reports whether the log is still being read, or in a quiet period.
func (r *replica) joining() bool {
	return errors.Is(r.serving(), quota.ErrRecovering)
}

// ready returns why the copy grants nothing: the log is in a quiet period, or was lost and is still being
// read, or lacks entries of this host. mu is held.
func (r *replica) ready() error {
	f := &r.copy.facts
	switch {
	case f.Quiet != nil, f.Loss != nil && f.Loss.Quiet:
		return quota.ErrRecovering
	case f.Loss != nil: // other hosts may not know of the loss yet
		return errJoining
	case r.ledger.config.Store != nil && f.Unplaced > 0:
		return errReplaying
	}
	return nil
}

// setDown records why the replica does not serve.
func (r *replica) setDown(err error) {
	r.mu.Lock()
	was := r.refused
	if was == nil {
		r.since = r.ledger.config.Clock()
	}
	if !errors.Is(err, errJoining) || was == nil { // the first reason stays
		r.refused = err
	}
	starts := !r.served && isQuiet(err) // the quiet period of a new log is no event
	news := !errors.Is(err, errJoining) && !starts && r.reported != kindOf(err)
	if news {
		r.reported = kindOf(err)
	}
	r.mu.Unlock()
	if !news {
		return
	}
	r.ledger.config.OnEvent(Event{Credential: r.name, Kind: kindOf(err), Err: err})
	r.ledger.wake()
}

func kindOf(err error) EventKind {
	if errors.Is(err, quota.ErrLost) || isQuiet(err) {
		return LostLog
	}
	return Down
}

// setUp records that the replica serves.
func (r *replica) setUp() {
	r.mu.Lock()
	told, took, units := r.reported, r.ledger.config.Clock().Sub(r.since), r.booked
	r.refused, r.reported, r.booked, r.served = nil, "", 0, true
	if name := r.ledger.config.Store.Name(); r.copy.facts.Store != name {
		r.copy.facts.Store = name
		r.copy.change()
	}
	r.mu.Unlock()
	if told != "" {
		r.ledger.config.OnEvent(Event{Credential: r.name, Kind: Up, Took: took, Units: units})
	}
}

// estimate returns the store's time without a call. It is never later than the real one.
func (r *replica) estimate() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.estimated()
}

// estimated is estimate with mu held.
func (r *replica) estimated() time.Time {
	now := r.ledger.config.Clock()
	if r.storeClockAt.IsZero() {
		return now
	}
	return time.UnixMilli(r.storeClock).UTC().Add(max(0, now.Sub(r.storeClockAt)))
}

// onCopy calls f with mu held, while the tables can be read.
func (r *replica) onCopy(f func(*Copy)) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.unavailable(r.copy.view(func() { f(r.copy) }))
}

// unavailable wraps an error of the file: nothing was decided.
func (r *replica) unavailable(err error) error {
	switch {
	case err == nil:
		return nil
	case !errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, quota.ErrOutcomeUnknown):
		err = fmt.Errorf("%w: credential %q: %w", quota.ErrUnavailable, r.name, err)
	}
	return fileError{err}
}

// A fileError is an error of the file, which says nothing about the store.
type fileError struct{ error }

func (e fileError) Unwrap() error { return e.error }

// refresh polls the log, unless another call does. It waits for the first reading.
func (r *replica) refresh(ctx context.Context) {
	err := r.serving()
	switch {
	case r.ledger.config.Store == nil || err != nil && !errors.Is(err, errJoining):
		return
	case err == nil && !r.tryLock(), err != nil && r.lock(ctx) != nil:
		return
	}
	defer r.unlock()
	if r.join(ctx) != nil {
		return
	}
	for known, err := false, error(nil); !known && err == nil; {
		known, err = r.update(ctx, r.poll(ctx))
	}
}

// health adds the state of the replica, and its warnings.
func (r *replica) health(h *quota.Health) {
	r.mu.Lock()
	defer r.mu.Unlock()
	f := &r.copy.facts
	if by := f.Position.ID.Time().Sub(r.estimated()); by > ahead {
		h.Clock = append(h.Clock, fmt.Sprintf("credential %q: the newest entry of its log is %v ahead of the clock, so nothing leaves a window until %s: set the clock right, or quotactl reset %s",
			r.name, by.Round(time.Second), f.Position.ID.Time().Format(time.RFC3339), r.name))
	}
	if r.ledger.config.Store == nil {
		return
	}
	if f.Hole > max(0, r.copy.oldest()) { // the clock may not be known yet
		h.Warnings = append(h.Warnings, fmt.Sprintf("credential %q: records before %s are missing from its log, which Redis does not lose by itself (XDEL or XTRIM removes them): "+
			"hosts that have read them count them, and this one does not; if one of those runs, delete the log's key, and it puts them back",
			r.name, time.UnixMilli(f.Hole).UTC().Format(time.RFC3339)))
	}
	h.Hosts = append(h.Hosts, f.differences(r.ledger.Host(), r.name)...)
	if r.refused == nil || r.configured == nil {
		return
	}
	h.State, h.Reachable = fmt.Sprintf("%s: %v", r.name, r.refused), false
	if isQuiet(r.refused) {
		h.Recovering = append(h.Recovering, r.name)
	}
	if spent := f.offlineUnits(r.copy.oldest()); spent > 0 && f.Unplaced > 0 {
		h.State += fmt.Sprintf("; %s of %s are granted without it", quota.Thousands(spent), r.policy.Units.Text())
	}
}

package redisledger

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"quotad/quota"
)

// An account is what is known here of a credential's log in Redis. Its state is one of
// three: Redis decides (down is nil); Redis cannot be reached, so that requests are decided
// by policy; or Redis has lost entries of the log and is recovering, so that nothing is
// granted (down is a quota.ErrLost or quota.ErrRecovering). A failed call leads out of the
// first state, and only the account's watcher leads back into it.
type account struct {
	ledger *Ledger
	name   string

	// turn is held over each call that writes: Redis remembers only a daemon's last one.
	// It guards unanswered.
	turn       chan struct{}
	unanswered *unanswered

	kick chan struct{} // wakes the watcher

	mu         sync.Mutex        // guards what follows; nobody waits with it held
	credential *quota.Credential // nil until SetCredentials: then it has a watcher
	policy     Policy
	down       error     // why Redis does not decide; nil while it does
	since      time.Time // of down
	position   position
	skew       time.Duration           // the log's time less the host's
	ahead      time.Duration           // the log's newest entry less Redis' clock
	used       map[string]quota.Units  // per limit, when Redis was last heard
	closed     map[string]quota.Closed // limits, when Redis was last heard; replaced, never changed
	daemons    map[string]time.Time    // that wrote to the log, or put back what it lost, and when, by the log's time
	marked     time.Time               // when the journal was last told of them
	offline    []*offlineGrant         // in the longest window, or not replayed yet
	lastID     quota.ID                // of what was granted offline
	quiet      quietPeriod

	differences []string // who counts the credential otherwise, and what

	// Of the watcher alone: when it last said how the credential is counted, and which.
	agreed    time.Time
	agreedFor *quota.Credential
}

// A position is what is known of a log: which one it is, and how far it goes.
type position struct {
	epoch  string // drawn when the log was begun; empty if unknown
	newest quota.ID
}

func newAccount(l *Ledger, name string) *account {
	return &account{
		ledger: l, name: name,
		turn: make(chan struct{}, 1), kick: make(chan struct{}, 1),
		used: make(map[string]quota.Units), daemons: make(map[string]time.Time),
	}
}

// begin takes the turn, unless Redis is known not to decide.
func (a *account) begin(ctx context.Context) error {
	if down := a.whyDown(); down != nil {
		return down
	}
	if err := a.take(ctx); err != nil {
		return err
	}
	if down := a.whyDown(); down != nil { // since then
		a.end()
		return down
	}
	return nil
}

func (a *account) take(ctx context.Context) error {
	select {
	case a.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return failure(false, ctx.Err())
	}
}

func (a *account) end() { <-a.turn }

func (a *account) whyDown() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.down
}

// known returns the position, and the log's time as far as it is known without asking.
func (a *account) known() (position, time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.position, time.Now().Add(a.skew)
}

// hear takes in the front of an answer to a call that was sent as the position sent was
// known. Answers of calls at the same time may come in any order: of one epoch the newest
// entry counts, and another epoch only if none was learnt in the meantime.
func (a *account) hear(r reply, sent position, learn bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.skew = time.Until(r.now)
	a.ahead = r.newest.Time().Sub(r.clock)
	a.closed = r.closed
	switch {
	case !learn:
	case a.position.epoch == r.epoch && !a.position.newest.Less(r.newest):
	case a.position.epoch != r.epoch && a.position.epoch != sent.epoch:
	default:
		a.position = r.position
	}
}

// expect says which log is known from now on.
func (a *account) expect(p position) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.position = p
}

// hearDecisions takes in what the limits hold.
func (a *account) hearDecisions(decisions []quota.Decision) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range decisions {
		for _, limit := range d.Limits {
			a.used[limit.Name] = limit.Used
		}
	}
}

// hearUsage takes in what the limits hold, and which daemons wrote to the log: after a loss
// they are waited for, also by a daemon that has been started again since.
func (a *account) hearUsage(c *quota.Credential, u quota.Usage, daemons map[string]time.Time) {
	a.mu.Lock()
	for _, limit := range u.Limits {
		a.used[limit.Name] = limit.Used
	}
	told := time.Since(a.marked) < markTime
	for name, wrote := range daemons {
		_, known := a.daemons[name]
		told = told && known
		a.daemons[name] = wrote
	}
	maps.DeleteFunc(a.daemons, func(_ string, wrote time.Time) bool { return u.Now.Sub(wrote) > remembered(c) })
	if !told {
		a.marked = time.Now()
	}
	mark := a.mark()
	a.mu.Unlock()
	if !told && a.ledger.journal != nil {
		a.ledger.noteJournal(a.ledger.journal.mark(mark))
	}
}

// markTime is how often the journal is told of a log that is decided about.
const markTime = 10 * time.Minute

// remembered is how long a daemon is known after it wrote to a log: as long as that counts,
// and the journal may not have been told.
func remembered(c *quota.Credential) time.Duration { return span(c) + time.Hour }

// record writes entries into the journal. A journal that cannot be written takes nothing
// from what the ledger has; the health says so.
func (a *account) record(epoch string, entries ...logLine) {
	if a.ledger.journal != nil && len(entries) > 0 {
		a.ledger.noteJournal(a.ledger.journal.log(a.name, epoch, entries...))
	}
}

// fail takes in that Redis could not decide.
func (a *account) fail(err error) {
	a.mu.Lock()
	first := a.down == nil && a.credential != nil
	if first {
		a.down, a.since = unavailable(err), time.Now()
	}
	mark := a.mark()
	a.mu.Unlock()
	if !first {
		return
	}
	kind := Down
	if recovering(err) {
		kind = Lost
	}
	if a.ledger.journal != nil {
		a.ledger.noteJournal(a.ledger.journal.mark(mark))
	}
	a.ledger.observe(Event{Credential: a.name, Kind: kind, Err: err})
	a.wake()
}

func recovering(err error) bool {
	return errors.Is(err, quota.ErrLost) || errors.Is(err, quota.ErrRecovering)
}

// setDown replaces the reason for which Redis does not decide.
func (a *account) setDown(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.down != nil {
		a.down = unavailable(err)
	}
}

// unavailable is what others are told of a call that failed: of theirs nothing was debited.
func unavailable(err error) error {
	if errors.Is(err, quota.ErrUnavailable) && !errors.Is(err, quota.ErrOutcomeUnknown) {
		return err
	}
	return fmt.Errorf("%w: %v", quota.ErrUnavailable, err)
}

// mark returns what the journal is to remember of the log.
func (a *account) mark() mark {
	return mark{credential: a.name, position: a.position, used: maps.Clone(a.used), daemons: maps.Clone(a.daemons)}
}

func (a *account) wake() {
	select {
	case a.kick <- struct{}{}:
	default:
	}
}

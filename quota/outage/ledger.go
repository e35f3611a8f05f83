package outage

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"sync"
	"sync/atomic"
	"time"

	"quotad/quota"
)

// A Config says what a Ledger stands in front of.
type Config struct {
	Ledger   quota.Restorer
	Journal  *Journal
	Daemon   string        // tells this host's grants from others' of the same millisecond
	Deadline time.Duration // of one call, while it is found out how the ledger is
	Observe  func(Event)   // nil: nobody is told
}

// A Ledger is a shared ledger with an answer for the time in which it cannot be
// reached, or lacks what it was told. It decides nothing while the ledger does.
type Ledger struct {
	quota.Restorer
	journal  *Journal
	deadline time.Duration
	observe  func(Event)
	seq      int64 // of ids that are granted alone, the same for this daemon only

	mu     sync.Mutex // guards states; a state's own lock may be taken under it, never the other way round
	states map[string]*state
	// failing is why the journal could not be written, nil when it can.
	failing atomic.Pointer[error]

	watchers sync.WaitGroup // one for each state
	ctx      context.Context
	end      context.CancelFunc // of ctx, and of the watchers with it
}

var _ quota.Ledger = (*Ledger)(nil)

// A state is how a credential's ledger is.
type state struct {
	credential *quota.Credential
	policy     Policy

	kick chan struct{} // wakes its watcher
	// writing is read-locked from a call until its answer is in the journal, which
	// is not read meanwhile: what was granted just before a loss is put back too.
	writing sync.RWMutex

	mu       sync.Mutex // guards what follows
	down     error      // why it does not decide; nil while it does
	since    time.Time  // of down
	spent    quota.Units
	unbooked []quota.Entry
	last     quota.ID // of what was granted alone
}

// Open returns a ledger that knows what the journal does.
func Open(config Config) (*Ledger, error) {
	ctx, end := context.WithCancel(context.Background())
	l := &Ledger{
		ctx: ctx, end: end,
		Restorer: config.Ledger,
		journal:  config.Journal,
		deadline: config.Deadline,
		observe:  config.Observe,
		seq:      sequenceOf(config.Daemon),
		states:   make(map[string]*state),
	}
	if l.observe == nil {
		l.observe = func(Event) {}
	}
	for name, mark := range l.journal.Marks() {
		l.Restorer.Expect(name, mark)
	}
	return l, nil
}

// sequenceOf draws from a daemon's name where the sequence numbers of its own ids
// begin: from 2^16 to 2^48, where a ledger draws none, and away from other daemons'.
func sequenceOf(daemon string) int64 {
	hash := fnv.New32a()
	hash.Write([]byte(daemon))
	return int64(max(1, hash.Sum32())) << 16
}

// SetCredentials says which credentials there are, with their policies by name. From
// then on their ledger is watched.
func (l *Ledger) SetCredentials(credentials []*quota.Credential, policies map[string]Policy) error {
	for _, c := range credentials {
		if err := l.setCredential(c, policies[c.Name]); err != nil {
			return err
		}
	}
	return nil
}

func (l *Ledger) setCredential(c *quota.Credential, policy Policy) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.states[c.Name]; s != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.credential, s.policy = c, policy
		s.wake()
		return nil
	}
	s := &state{credential: c, policy: policy, kick: make(chan struct{}, 1)}
	if l.journal.owes(c.Name) {
		memory, err := l.journal.recall(c.Name, time.Time{})
		if err != nil {
			return err
		}
		s.owe(memory.unbooked)
	}
	l.states[c.Name] = s
	l.watchers.Go(func() { l.watch(s) })
	return nil
}

// owe begins with what an earlier process granted alone: the outage goes on until
// it is booked back.
func (s *state) owe(records []quota.Entry) {
	s.down, s.since = errors.New("what was granted during an outage is being booked back"), time.Now()
	s.unbooked = records
	for _, r := range records {
		s.spent += quota.Max(r.Charges)
		s.last = r.ID
	}
}

// Close ends the watch, and closes the ledger and the journal.
func (l *Ledger) Close() error {
	l.end()
	l.watchers.Wait()
	return errors.Join(l.Restorer.Close(), l.journal.Close())
}

func (l *Ledger) state(credential string) *state {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.states[credential]
}

// Acquire implements quota.Ledger. While the ledger cannot decide, each ask is
// decided by its operation's policy, at once.
func (l *Ledger) Acquire(ctx context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	s := l.state(c.Name)
	if s == nil {
		return l.Restorer.Acquire(ctx, c, asks)
	}
	if down := s.whyDown(); down != nil {
		return l.decideAlone(s, c, asks, down), nil
	}
	s.writing.RLock()
	defer s.writing.RUnlock()
	decisions, err := l.Restorer.Acquire(ctx, c, asks)
	if err != nil {
		l.fail(s, err)
		return l.decideAlone(s, c, asks, err), nil
	}
	l.record(c, asks, decisions)
	return decisions, nil
}

// Peek implements quota.Ledger.
func (l *Ledger) Peek(ctx context.Context, c *quota.Credential, operations []string, charges []quota.Charge) (quota.Decision, error) {
	s := l.state(c.Name)
	if s == nil {
		return l.Restorer.Peek(ctx, c, operations, charges)
	}
	down := s.whyDown()
	if down == nil {
		d, err := l.Restorer.Peek(ctx, c, operations, charges)
		if err == nil {
			return d, nil
		}
		l.fail(s, err)
		down = err
	}
	return s.peekAlone(operations, charges, down)
}

// record writes down what was granted. A journal that cannot be written takes
// nothing from a grant that the ledger has; the health says so.
func (l *Ledger) record(c *quota.Credential, asks []quota.Ask, decisions []quota.Decision) {
	var lines []line
	for i, d := range decisions {
		if d.GrantID == "" {
			continue
		}
		if _, id, err := quota.ParseGrantID(d.GrantID); err == nil {
			lines = append(lines, lineOf(c.Name, granted, l.Known(c.Name).Epoch, quota.NewEntry(asks[i], id)))
		}
	}
	if len(lines) > 0 {
		l.noteJournal(l.journal.append(false, lines...))
	}
}

// noteJournal takes in whether the journal could be written. It takes no lock: it is
// called with a state's lock held, too.
func (l *Ledger) noteJournal(err error) {
	if err == nil {
		l.failing.Store(nil)
		return
	}
	l.failing.Store(&err)
}

// Settle implements quota.Ledger.
func (l *Ledger) Settle(ctx context.Context, c *quota.Credential, s quota.Settlement) (quota.Decision, error) {
	if st := l.state(c.Name); st != nil {
		if d, own := l.settleAlone(st, s); own {
			return d, d.Err
		}
		st.writing.RLock()
		defer st.writing.RUnlock()
	}
	d, err := l.Restorer.Settle(ctx, c, s)
	if err == nil && d.Reason == "" {
		l.noteJournal(l.journal.append(false, line{Credential: c.Name, Kind: settled, ID: s.Grant.String(), Settled: s.Units}))
	}
	return d, err
}

// Adjust implements quota.Ledger. What it books is written down as what is
// granted is: a lost ledger would forget it too.
func (l *Ledger) Adjust(ctx context.Context, c *quota.Credential, a quota.Adjustment) (quota.Decision, error) {
	if s := l.state(c.Name); s != nil {
		s.writing.RLock()
		defer s.writing.RUnlock()
	}
	d, err := l.Restorer.Adjust(ctx, c, a)
	if err != nil || d.Reason != "" || a.Units < 0 {
		return d, err
	}
	r := quota.Entry{
		ID: d.Trace, Kind: quota.KindAdjustment, By: a.Caller.By(), Note: a.Note,
		Asked: a.Units, Charges: []quota.Charge{{Limit: a.Limit, Units: d.Units}},
	}
	l.noteJournal(l.journal.append(false, lineOf(c.Name, granted, l.Known(c.Name).Epoch, r)))
	return d, nil
}

// Reset implements quota.Ledger.
func (l *Ledger) Reset(ctx context.Context, c *quota.Credential, by quota.Caller, note string) error {
	if err := l.Restorer.Reset(ctx, c, by, note); err != nil {
		return err
	}
	m := l.Known(c.Name)
	return l.journal.append(true, line{Credential: c.Name, Kind: emptied, ID: m.Newest.String(), Epoch: m.Epoch})
}

// Health implements quota.Ledger.
func (l *Ledger) Health(ctx context.Context) quota.Health {
	h := l.Restorer.Health(ctx)
	if failing := l.failing.Load(); failing != nil {
		h.Warnings = append(h.Warnings, fmt.Sprintf("%v: if the ledger lost its log now, grants would be forgotten", *failing))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, s := range l.states {
		spent, down := s.alone()
		if down == nil {
			continue
		}
		h.Reachable = false
		h.State = fmt.Sprintf("%s: %v", name, down)
		if spent > 0 {
			h.Warnings = append(h.Warnings, fmt.Sprintf("%s: %s of %s granted without the ledger", name, quota.Thousands(spent), s.policy.Units.Text()))
		}
	}
	return h
}

func (s *state) whyDown() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.down
}

// alone returns what was granted without the ledger, and why it was.
func (s *state) alone() (quota.Units, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spent, s.down
}

// fail takes in that the ledger could not decide.
func (l *Ledger) fail(s *state, err error) {
	s.mu.Lock()
	first := s.down == nil
	if first {
		s.down, s.since = err, time.Now()
	}
	name := s.credential.Name
	s.mu.Unlock()
	if !first {
		return
	}
	kind := Down
	if isLost(err) {
		kind = Lost
	}
	l.observe(Event{Credential: name, Kind: kind, Err: err})
	s.wake()
}

func (s *state) wake() {
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

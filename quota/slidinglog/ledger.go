package slidinglog

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"quotad/quota"
)

// A Config says what a ledger works on.
type Config struct {
	File  File
	Store Store // that hosts share; nil: the file is all there is
	// Credentials are those that there are at first, as SetCredentials takes them: what was
	// written before is read as they count it.
	Credentials []*quota.Credential
	Policies    map[string]Policy
	// Label is what people call this host.
	Label string
	Clock func() time.Time // nil: time.Now. The ledger's clock where there is no Store.
	// Deadline bounds what the ledger does by itself; 0 is 250 ms.
	Deadline time.Duration
	// Quiet is how long nothing is granted after a loss of the log, while each host puts back
	// what it has; 0 is 3 s. A host that stays away is waited for ten times as long, and how
	// often a log is looked at follows from it, too.
	Quiet time.Duration
	// OnEvent is called at edges; nil: nobody is interested.
	OnEvent func(Event)
	// Manual leaves it to the caller to call Follow and Fold, for tests.
	Manual bool
	// Pause waits between two tries, until ctx ends at the latest; nil: by a timer.
	Pause func(ctx context.Context, d time.Duration)
	// Random is where names of hosts, runs and records are drawn from; nil: crypto/rand.
	Random io.Reader
}

// A Policy says what becomes of a credential's operations while the store cannot be reached.
type Policy struct {
	// Open operations are granted from the host's copy; all others are refused.
	Open map[string]bool
	// Units is the most that open operations may cost in any window, on this host.
	Units quota.Units
}

// An Event is an edge in the life of a credential's log, to be reported.
type Event struct {
	Credential string
	Kind       EventKind
	Err        error         // of Down, LostLog and Refused: why
	Took       time.Duration // of Up: how long it was down
	Units      quota.Units   // of Up: granted meanwhile, and booked
	Records    int           // of Restored: entries that are to be put back
}

// An EventKind says what an Event is about.
type EventKind string

// The kinds of events.
const (
	Down     EventKind = "down"     // the store cannot be reached, or cannot be understood
	LostLog  EventKind = "lost"     // it can, but lacks entries
	Restored EventKind = "restored" // what the log lacked is being put back
	Up       EventKind = "up"       // it decides again
	Renamed  EventKind = "renamed"  // another host went on with a copy of this host's state
)

// A Ledger is a quota.Ledger: it decides on this host's copy of each log, and appends what
// it decided to the log if nobody else has written since.
type Ledger struct {
	config  Config        // with what it leaves out filled in
	numbers atomic.Uint64 // of entries that have no place

	identity sync.Mutex // guards head
	head     head

	// gate is held for reading from the write of a frame until the copy has its entries, and
	// for writing while a fold begins.
	gate    sync.RWMutex
	folding sync.Mutex // held while Fold runs

	mu       sync.Mutex // guards replicas
	replicas map[string]*replica

	wakeup  chan struct{} // has logs followed at once
	ctx     context.Context
	stop    context.CancelFunc
	workers sync.WaitGroup
}

var _ quota.Ledger = (*Ledger)(nil)

// Open returns a ledger, which owns the file and the store from then on. A store that cannot
// be reached delays nothing.
func Open(config Config) (*Ledger, error) {
	config.Deadline = cmp.Or(config.Deadline, 250*time.Millisecond)
	config.Quiet = cmp.Or(config.Quiet, 3*time.Second)
	config.Random = cmp.Or(config.Random, rand.Reader)
	if config.Clock == nil {
		config.Clock = time.Now
	}
	if config.OnEvent == nil {
		config.OnEvent = func(Event) {}
	}
	if config.Pause == nil {
		config.Pause = wait
	}
	l := &Ledger{config: config, replicas: make(map[string]*replica), wakeup: make(chan struct{}, 1)}
	if err := l.openHead(); err != nil {
		return nil, err
	}
	if err := l.SetCredentials(config.Credentials, config.Policies); err != nil {
		return nil, err
	}
	if err := l.replay(); err != nil {
		return nil, err
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	if !config.Manual {
		l.workers.Go(l.work)
	}
	return l, nil
}

// wait waits, until ctx ends at the latest.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// replica returns the copy of a credential's log, with how it stands.
func (l *Ledger) replica(name string) (*replica, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r := l.replicas[name]; r != nil {
		return r, nil
	}
	c, err := openCopy(l.config.File, name)
	if err != nil {
		return nil, err
	}
	r := &replica{ledger: l, name: name, locked: make(chan struct{}, 1), copy: c}
	if l.config.Store != nil {
		r.refused, r.since = errJoining, l.config.Clock()
	}
	l.replicas[name] = r
	return r, nil
}

func (l *Ledger) all() []*replica {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.replicas))
}

// SetCredentials says which credentials there are, with their policies by name. From then on
// their logs are followed.
func (l *Ledger) SetCredentials(credentials []*quota.Credential, policies map[string]Policy) error {
	for _, c := range credentials {
		r, err := l.replica(c.Name)
		if err != nil {
			return err
		}
		r.mu.Lock()
		r.configured, r.policy, r.copy.credential, r.terms = c, policies[c.Name], c, termsOf(c)
		r.mu.Unlock()
	}
	l.wake()
	return nil
}

// wake has the logs followed at once.
func (l *Ledger) wake() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// Await returns when every log has been read to its end, or cannot be: a log that nobody wrote
// to before is not decided about for as long as its loss would take.
func (l *Ledger) Await(ctx context.Context) {
	ctx, stop := context.WithTimeout(ctx, 2*l.config.Quiet)
	defer stop()
	for ctx.Err() == nil && slices.ContainsFunc(l.all(), (*replica).joining) {
		l.config.Pause(ctx, l.retry()/10)
	}
}

// Usage implements quota.Ledger.
func (l *Ledger) Usage(ctx context.Context, c *quota.Credential) (u quota.Usage, err error) {
	err = l.read(ctx, c, func(r *replica, now time.Time) {
		u.Now = now
		if r.refused != nil {
			u.AsOf = time.UnixMilli(r.storeClock).UTC()
		}
		for i := range c.Limits {
			u.Limits = append(u.Limits, r.copy.account.State(i, now, r.copy))
		}
	})
	return u, err
}

// Log implements quota.Ledger.
func (l *Ledger) Log(ctx context.Context, c *quota.Credential, q quota.LogQuery) (page quota.LogPage, err error) {
	err = l.read(ctx, c, func(r *replica, _ time.Time) { page = r.copy.page(q) })
	return page, err
}

// read calls f on the copy of a log, as of the account's time, after a look at the log if that
// can be had. While the store cannot be reached, the copy is as it was.
func (l *Ledger) read(ctx context.Context, c *quota.Credential, f func(r *replica, now time.Time)) error {
	r, err := l.replica(c.Name)
	if err != nil {
		return err
	}
	r.refresh(ctx)
	if err := r.serving(); errors.Is(err, ErrVersion) {
		return err
	}
	return r.onCopy(func(copied *Copy) {
		copied.credential = c
		f(r, copied.advance(r.estimated()))
	})
}

// ahead is by how much a log may be ahead of the clock before an operator is told.
const ahead = 10 * time.Second

// Health implements quota.Ledger.
func (l *Ledger) Health(ctx context.Context) quota.Health {
	h := quota.Health{Backend: "embedded", State: "ok", Reachable: true}
	warnings, err := l.config.File.Health()
	h.Warnings = warnings
	if err != nil {
		h.State, h.Reachable = err.Error(), false
	}
	if l.config.Store != nil {
		h.Backend = "redis"
		warnings, err := l.config.Store.Health(ctx)
		h.Warnings = append(h.Warnings, warnings...)
		if err != nil {
			h.State, h.Reachable = fmt.Sprint("unreachable: ", err), false
		}
	}
	replicas := l.all()
	slices.SortFunc(replicas, func(x, y *replica) int { return strings.Compare(x.name, y.name) })
	for _, r := range replicas {
		r.health(&h)
	}
	return h
}

// Close ends what the ledger does by itself, writes its tables, and closes store and file.
func (l *Ledger) Close() error {
	l.stop()
	l.workers.Wait()
	l.bye()
	err := l.Fold()
	if l.config.Store != nil {
		err = errors.Join(err, l.config.Store.Close())
	}
	return errors.Join(err, l.config.File.Close())
}

package slidinglog

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
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
	// Credentials and Policies are those of SetCredentials at the start. The file is read with
	// them.
	Credentials []*quota.Credential
	Policies    map[string]Policy
	// Label is this host's name for people.
	Label string
	Clock func() time.Time // nil: time.Now. The ledger's clock where there is no Store.
	// Deadline bounds the ledger's own calls; 0 is 250 ms.
	Deadline time.Duration
	// Quiet is how long nothing is granted after a loss of the log, while the hosts put entries
	// back; 0 is 3 s. They wait ten times as long for the next record of a missing host. How often a log is polled
	// follows from it, too.
	Quiet time.Duration
	// OnEvent is called with each event; nil: none.
	OnEvent func(Event)
	// Manual leaves following and folding to the caller, for tests.
	Manual bool
	// Pause waits between two tries, at most until ctx ends; nil: by a timer.
	Pause func(ctx context.Context, d time.Duration)
	// Random is the source of the ids of hosts, runs and records; nil: crypto/rand.
	Random io.Reader
}

// A Policy decides about a credential's operations while the store cannot be reached.
type Policy struct {
	// Open operations are granted on the host's copy; all others are refused.
	Open map[string]bool
	// Units is the most that this host grants offline in any window.
	Units quota.Units
}

// An Event is a change in the state of a credential's log, to be reported.
type Event struct {
	Credential string
	Kind       EventKind
	Err        error         // of Down and LostLog: why
	Took       time.Duration // of Up: how long it was down
	Units      quota.Units   // of Up: granted offline meanwhile, and booked
	Records    int           // of Restored: entries to be put back
}

// An EventKind is what happened.
type EventKind string

// The kinds of events.
const (
	Down     EventKind = "down"     // the store cannot be reached, or has records of another version
	LostLog  EventKind = "lost"     // the log lacks entries
	Restored EventKind = "restored" // the missing entries are being put back
	Up       EventKind = "up"       // the ledger decides again
	Renamed  EventKind = "renamed"  // another host runs with a copy of this host's state
)

// A Ledger is a quota.Ledger. It decides on this host's copy of each log, and appends a decision
// to the log if no other host has written since.
type Ledger struct {
	config  Config        // with its defaults
	numbers atomic.Uint64 // of offline entries

	renaming sync.Mutex // held while another id of this host is written
	identity sync.Mutex // guards head
	head     head

	// gate is read-locked from the write of a frame with a placed record until the copy has it, and
	// locked while a fold begins.
	gate    sync.RWMutex
	folding sync.Mutex // held while Fold runs

	maxUnfolded, maxLate int // the constants, or fewer in tests
	await                func(ctx context.Context, lock, decided chan struct{}) (locked, ends bool)
	within               func(context.Context, time.Duration) (context.Context, context.CancelFunc) // context.WithTimeout

	mu       sync.Mutex // guards replicas
	replicas map[string]*replica

	wakeup  chan struct{} // polls the logs at once
	ctx     context.Context
	stop    context.CancelFunc
	workers sync.WaitGroup
}

var _ quota.Ledger = (*Ledger)(nil)

// Open returns a ledger, which owns the file and the store from then on. It does not wait for the
// store.
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
		config.Pause = func(ctx context.Context, d time.Duration) { quota.Sleep(ctx, d) }
	}
	l := &Ledger{config: config, maxUnfolded: maxUnfolded, maxLate: maxLate, await: await, within: context.WithTimeout, replicas: make(map[string]*replica), wakeup: make(chan struct{}, 1)}
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

// replica returns the replica of a credential's log.
func (l *Ledger) replica(name string) (*replica, error) {
	l.mu.Lock()
	r := l.replicas[name]
	l.mu.Unlock()
	if r != nil {
		return r, nil
	}
	c, err := openCopy(l.config.File, name)
	if err != nil {
		return nil, err
	}
	r = &replica{ledger: l, name: name, locked: make(chan struct{}, 1), written: make(map[HostID]time.Duration), copy: c}
	if l.config.Store != nil {
		r.refused, r.since = errJoining, l.config.Clock()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if first := l.replicas[name]; first != nil { // another call was first
		return first, nil
	}
	l.replicas[name] = r
	return r, nil
}

func (l *Ledger) all() []*replica {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Collect(maps.Values(l.replicas))
}

// SetCredentials sets the credentials, and their policies by name. The ledger follows their logs
// from then on.
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

// wake polls the logs at once.
func (l *Ledger) wake() {
	select {
	case l.wakeup <- struct{}{}:
	default:
	}
}

// Await waits until every log has been read to its end, or cannot be read. A new log has a quiet
// period first, like a lost one.
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

// read polls the log and calls f on its copy, as of the account's time. While the store cannot be
// reached, the copy is the last state.
func (l *Ledger) read(ctx context.Context, c *quota.Credential, f func(r *replica, now time.Time)) error {
	defer quota.EndOnPanic()
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

// ahead is by how much a log may be ahead of the clock without a warning.
const ahead = 10 * time.Second

// Health implements quota.Ledger.
func (l *Ledger) Health(ctx context.Context) quota.Health {
	defer quota.EndOnPanic()
	h := quota.Health{Backend: "embedded", State: "ok", Reachable: true}
	unwritten, err := l.config.File.Health()
	h.Unwritten = unwritten
	if err != nil {
		h.State, h.Reachable = err.Error(), false
	}
	if l.config.Store != nil {
		h.Backend = "redis"
		warnings, err := l.config.Store.Health(ctx)
		h.Warnings = append(h.Warnings, warnings...)
		if err != nil {
			h.State, h.Reachable = err.Error(), false
		}
	}
	replicas := l.all()
	slices.SortFunc(replicas, func(x, y *replica) int { return strings.Compare(x.name, y.name) })
	for _, r := range replicas {
		r.health(&h)
	}
	return h
}

// Close stops the goroutines, folds, and closes the store and the file.
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

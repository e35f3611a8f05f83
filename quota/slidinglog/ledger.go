package slidinglog

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"quotad/quota"
	"quotad/quota/journal"
)

// A Config says what a ledger works on.
type Config struct {
	Engine Engine
	Dir    string // of the journals
	// Accept has an empty journal begin in place of one that is missing, older than it was, damaged or another's.
	Accept bool
	Name   string // this host's, for people
	// Terms returns more of what decides about a credential's calls, such as routes; Jobs those that this host
	// schedules. Both are for other hosts; nil: nothing.
	Terms func(credential string) string
	Jobs  func() []string
	// Deadline bounds the ledger's own calls; 0 is 250 ms.
	Deadline time.Duration
	// OnEvent is called with each event; nil: none.
	OnEvent func(Event)
	// Manual leaves polling to the caller, for tests.
	Manual bool
}

// An Event is a change in the state of a credential's log, to be reported.
type Event struct {
	Credential string
	Kind       EventKind
	Err        error         // of Down and LostLog: why
	Took       time.Duration // of Up: how long it was down
	Units      quota.Units   // of Up: granted by this host meanwhile, and to be put back
	Records    int           // of Restored: entries that were put back
	Text       string        // of Cut: what was done to the journal
}

// An EventKind is what happened.
type EventKind string

// The kinds of events.
const (
	Down     EventKind = "down"     // the engine cannot be reached
	LostLog  EventKind = "lost"     // the log lacks entries
	Restored EventKind = "restored" // entries were put back
	Up       EventKind = "up"       // the ledger decides again
	Cut      EventKind = "cut"      // a journal's incomplete last record was cut, or an empty one begins
)

// A Ledger is a quota.Ledger. An engine decides; the ledger keeps journals, and puts back what the engine has lost.
type Ledger struct {
	config Config // with its defaults
	id     string // of this daemon: of two the one that began later has the greater one
	began  time.Time

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	workers sync.WaitGroup

	mu     sync.Mutex // guards what follows
	logs   map[string]*log
	rows   []Daemon  // the daemons on this ledger, as they last described themselves
	polled time.Time // when
}

var _ quota.Ledger = (*Ledger)(nil)

// Open returns a ledger without credentials, which owns the engine from then on.
func Open(config Config) *Ledger {
	config.Deadline = cmp.Or(config.Deadline, 250*time.Millisecond)
	if config.OnEvent == nil {
		config.OnEvent = func(Event) {}
	}
	l := &Ledger{config: config, began: time.Now(), logs: map[string]*log{}}
	l.id = l.began.UTC().Format("20060102150405.000 ") + string(quota.NewID())
	l.ctx, l.stop = context.WithCancel(context.Background())
	if config.Engine.Shared() && !config.Manual {
		l.workers.Go(func() { eachPoll(l.ctx, func(int) { l.pollHosts(l.ctx) }) })
	}
	return l
}

// SetCredentials sets the credentials, and their policies by name: it opens the journals of those that are new, and
// closes those of the ones that left. After an error nothing has changed. It does not wait for the engine.
func (l *Ledger) SetCredentials(credentials []*quota.Credential, policies map[string]Policy) error {
	l.mu.Lock()
	before := l.logs
	l.mu.Unlock()
	logs, opened := map[string]*log{}, []*log(nil)
	for _, c := range credentials {
		if logs[c.Name] = before[c.Name]; logs[c.Name] != nil {
			continue
		}
		one, err := l.open(c)
		if err != nil {
			for _, o := range opened {
				err = errors.Join(err, o.journal.Close())
			}
			return err
		}
		logs[c.Name], opened = one, append(opened, one)
	}
	for _, c := range credentials {
		one := logs[c.Name]
		one.mu.Lock()
		one.credential, one.policy = c, policies[c.Name]
		one.keep = max(one.keep, c.Keeps().Microseconds())
		one.mu.Unlock()
	}
	l.mu.Lock()
	l.logs = logs
	l.mu.Unlock()
	for _, one := range opened {
		if text := one.journal.Cut; text != "" {
			l.config.OnEvent(Event{Credential: one.name, Kind: Cut, Text: text})
		}
		ctx, stop := context.WithCancel(l.ctx)
		if one.stop = stop; !l.config.Manual {
			l.workers.Go(func() { eachPoll(ctx, func(n int) { one.poll(ctx, n%60 == 0) }) })
		}
	}
	for name, one := range before {
		if logs[name] == nil {
			one.stop()
			if err := one.journal.Close(); err != nil {
				return err
			}
		}
	}
	return nil
}

// open opens a credential's journal. On one host alone the engine then has what the journal has.
func (l *Ledger) open(c *quota.Credential) (*log, error) {
	j, err := journal.Open(l.config.Dir, c.Name, l.config.Accept)
	if err != nil {
		return nil, err
	}
	one := &log{ledger: l, engine: l.config.Engine, name: c.Name, journal: j, restoring: make(chan struct{}, 1), credential: c}
	one.holds, one.keep = map[string]quota.LimitState{}, c.Keeps().Microseconds()
	if memory, alone := l.config.Engine.(*Memory); alone {
		var back putBack
		if back, err = one.load(l.ctx, memory, nil); err == nil {
			one.restored("", back, nil, true)
		}
	} else {
		err = one.readJournal()
	}
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return one, nil
}

// find returns the log of a credential. One that is not configured any more decides nothing.
func (l *Ledger) find(c *quota.Credential) *log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return cmp.Or(l.logs[c.Name], &log{ledger: l, engine: l.config.Engine, name: c.Name})
}

func (l *Ledger) all() []*log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.logs), func(a, b *log) int { return cmp.Compare(a.name, b.name) })
}

// mostAwait is for longer than hosts take to put back a long log.
const mostAwait = 10 * time.Second

// Await waits until each log decides, or cannot be reached: a new log grants nothing for two seconds.
func (l *Ledger) Await(ctx context.Context) {
	if !l.config.Engine.Shared() {
		return // no other host has anything to put back
	}
	ctx, stop := context.WithTimeout(ctx, mostAwait)
	defer stop()
	for _, one := range l.all() {
		for ctx.Err() == nil {
			asking, cancel := context.WithTimeout(ctx, max(l.config.Deadline, pollEvery))
			c, _ := one.current()
			_, _, err := one.look(asking, c)
			cancel()
			if !errors.Is(err, quota.ErrRecovering) {
				break
			}
			quota.Sleep(ctx, pollEvery/20)
		}
	}
}

// What Health warns of: a log that is so far ahead of the clock, and a journal so far behind the log.
const (
	aheadOf = time.Minute
	mostLag = 5 * time.Second
)

// Health implements quota.Ledger.
func (l *Ledger) Health(ctx context.Context) quota.Health {
	h := quota.Health{Backend: "embedded", State: "ok", Reachable: true, Hosts: l.differing()}
	if l.config.Engine.Shared() {
		h.Backend = "redis"
	}
	warnings, err := l.config.Engine.Health(ctx)
	if h.Warnings = warnings; err != nil {
		h.State, h.Reachable = err.Error(), false
	}
	for _, one := range l.all() {
		one.health(&h)
	}
	return h
}

// Close stops what follows the logs, and closes the journals and the engine.
func (l *Ledger) Close() error {
	l.stop()
	l.workers.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), l.config.Deadline)
	defer cancel()
	if l.config.Engine.Shared() {
		l.hosts(ctx, "") // a host that is away cannot say that it stops
	}
	var err error
	for _, one := range l.all() {
		one.writeAgain(ctx)
		err = errors.Join(err, one.journal.Close())
	}
	return errors.Join(err, l.config.Engine.Close())
}

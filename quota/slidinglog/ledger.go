package slidinglog

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
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
	// Unsynced leaves writing to disk to the operating system, on one host alone: a crash of the machine, not of the
	// daemon, then loses the grants of the last seconds.
	Unsynced bool
	// ID is drawn by each daemon; Name is this host's, for people.
	ID, Name string
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

	ctx     context.Context // ends with Close
	stop    context.CancelFunc
	workers sync.WaitGroup

	together map[string]time.Time // pollHosts' alone: since when another daemon has this name, by id

	mu      sync.Mutex // guards what follows
	logs    map[string]*log
	rows    []hostRow // what the daemons on this ledger last said of themselves
	polled  time.Time // when
	differs []string
	lives   int
}

var _ quota.Ledger = (*Ledger)(nil)

// Open returns a ledger without credentials, which owns the engine from then on.
func Open(config Config) *Ledger {
	config.Deadline = cmp.Or(config.Deadline, 250*time.Millisecond)
	config.ID = cmp.Or(config.ID, string(quota.NewID()))
	if config.OnEvent == nil {
		config.OnEvent = func(Event) {}
	}
	l := &Ledger{config: config, logs: map[string]*log{}}
	l.ctx, l.stop = context.WithCancel(context.Background())
	if config.Engine.Shared() && !config.Manual {
		l.workers.Go(func() { l.followHosts(l.ctx) })
	}
	return l
}

// SetCredentials sets the credentials, and their policies by name: it opens the journals of those that are new, and
// closes those of the ones that left. After an error nothing has changed. It does not wait for the engine.
func (l *Ledger) SetCredentials(credentials []*quota.Credential, policies map[string]Policy) error {
	opened := map[string]*log{}
	for _, c := range credentials {
		if l.log(c.Name) != nil || opened[c.Name] != nil {
			continue
		}
		one, err := l.open(c)
		if err != nil {
			for _, o := range opened {
				err = errors.Join(err, o.journal.Close())
			}
			return err
		}
		opened[c.Name] = one
	}
	for name, one := range opened {
		if text := one.journal.Cut(); text != "" {
			l.config.OnEvent(Event{Credential: name, Kind: Cut, Text: text})
		}
	}
	kept := map[string]bool{}
	for _, c := range credentials {
		kept[c.Name] = true
		one := cmp.Or(opened[c.Name], l.log(c.Name))
		one.mu.Lock()
		one.credential, one.policy = c, policies[c.Name]
		one.keep = max(one.keep, c.Keeps().Microseconds())
		one.mu.Unlock()
	}
	var left []*log
	l.mu.Lock()
	maps.Copy(l.logs, opened)
	for name, one := range l.logs {
		if !kept[name] {
			delete(l.logs, name)
			left = append(left, one)
		}
	}
	l.mu.Unlock()
	for _, one := range opened {
		ctx, stop := context.WithCancel(l.ctx)
		one.stop = stop
		if !l.config.Manual {
			l.workers.Go(func() { one.follow(ctx) })
		}
	}
	for _, one := range left {
		one.stop()
		if err := one.journal.Close(); err != nil {
			return err
		}
	}
	return nil
}

// open opens a credential's journal. On one host alone the engine then has what the journal has.
func (l *Ledger) open(c *quota.Credential) (*log, error) {
	j, err := journal.Open(l.config.Dir, c.Name, journal.Options{Accept: l.config.Accept})
	if err != nil {
		return nil, err
	}
	one := &log{ledger: l, engine: l.config.Engine, name: c.Name, journal: j, restoring: make(chan struct{}, 1), credential: c}
	one.keep = c.Keeps().Microseconds()
	if memory, alone := l.config.Engine.(*Memory); alone {
		err = one.replay(l.ctx, memory)
	} else {
		err = one.readJournal()
	}
	if err != nil {
		return nil, errors.Join(err, j.Close())
	}
	return one, nil
}

// log returns the log of a credential, nil if it is not configured.
func (l *Ledger) log(name string) *log {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.logs[name]
}

func (l *Ledger) all() []*log {
	l.mu.Lock()
	defer l.mu.Unlock()
	logs := slices.Collect(maps.Values(l.logs))
	slices.SortFunc(logs, func(a, b *log) int { return strings.Compare(a.name, b.name) })
	return logs
}

// find returns the log of a credential.
func (l *Ledger) find(c *quota.Credential) (*log, error) {
	if one := l.log(c.Name); one != nil {
		return one, nil
	}
	return nil, fmt.Errorf("%w: credential %q is not configured any more", quota.ErrUnavailable, c.Name)
}

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
			_, _, err := one.look(asking, one.current())
			cancel()
			if !errors.Is(err, quota.ErrRecovering) {
				break
			}
			quota.Sleep(ctx, pollEvery/20)
		}
	}
}

// mostAwait is for longer than hosts take to put back a long log.
const mostAwait = 10 * time.Second

// Acquire implements quota.Ledger.
func (l *Ledger) Acquire(ctx context.Context, c *quota.Credential, ask quota.Ask) (quota.Decision, error) {
	one, err := l.find(c)
	if err != nil {
		return quota.Decision{}, err
	}
	if err := one.writable(); err != nil {
		return quota.Decision{}, err
	}
	id := ask.ID()
	asks := call{id: string(id), text: textOf(entryOf(ask))}
	asks.at = func(now time.Time) []quota.Check { return c.Checks(ask.Charges, ask.UseReserve, now) }
	r, err := one.ask(ctx, &asks)
	if err != nil {
		if one.engine.Shared() && outage(err) {
			return one.acquireOffline(c, ask, id, err)
		}
		return quota.Decision{}, err
	}
	if r.word == again {
		return one.again(ctx, c, ask, id, r)
	}
	d := decide(c, asks.checks, r)
	if r.word == granted {
		one.fresh(asks.checks, r)
		e, _ := parse(asks.id, r.at, r.text)
		d.GrantID, d.Would = quota.GrantID(c.Name, id), e.Would
	}
	return d, nil
}

// entryOf returns the entry of a grant.
func entryOf(ask quota.Ask) quota.Entry {
	return quota.Entry{By: ask.Caller.By(), Region: ask.Caller.Region, Charges: ask.Charges,
		Body: quota.Grant{Operation: ask.Operation, Count: ask.Count}}
}

// writable returns why the journal takes nothing, on one host alone: what it would lose is not granted.
func (l *log) writable() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing != nil && !l.engine.Shared() {
		return fmt.Errorf("%w: %w", quota.ErrUnavailable, l.failing)
	}
	return nil
}

// refusesWrites returns why an engine that can be read would not grant anything.
func (l *log) refusesWrites() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readOnly {
		return l.down
	}
	return nil
}

// again answers a request that was granted before, or refuses another one under its id.
func (l *log) again(ctx context.Context, c *quota.Credential, ask quota.Ask, id quota.ID, r reply) (quota.Decision, error) {
	e, _ := parse(string(id), r.at, r.text)
	if g, _ := e.Grant(); !sameRequest(e, ask) {
		return quota.Conflict(g.Operation, g.Count), nil
	}
	d := quota.Decision{GrantID: quota.GrantID(c.Name, id), Replayed: true, Outage: e.Outage, Units: quota.Max(e.Asked())}
	d, _ = l.withLimits(ctx, c, d, ask.Charges)
	return d, nil
}

// withLimits adds the state of the limits of some charges. After an error the decision stands, without them.
func (l *log) withLimits(ctx context.Context, c *quota.Credential, d quota.Decision, charges []quota.Charge) (quota.Decision, error) {
	looks := call{at: func(now time.Time) []quota.Check {
		checks := c.Checks(charges, false, now)
		for i := range checks {
			checks[i].Max, checks[i].Cost = quota.MaxUnits-1, 0
		}
		return checks
	}}
	r, err := l.ask(ctx, &looks)
	if err != nil {
		return d, err
	}
	d.Limits = states(c, looks.checks, r)
	for i := range d.Limits {
		d.Limits[i].Cost, _ = quota.ChargeIn(charges, d.Limits[i].Name)
	}
	return d, nil
}

// states are the limits of some checks, by an answer about them.
func states(c *quota.Credential, checks []quota.Check, r reply) []quota.LimitState {
	list := make([]quota.LimitState, 0, len(checks))
	for i, k := range checks {
		limit, _ := c.Limit(k.Limit)
		if i < len(r.limits) {
			list = append(list, quota.LimitState{Limit: limit, Used: r.limits[i].used, Cost: k.Cost, Closed: r.limits[i].closed})
		}
	}
	return list
}

// decide words an answer: granted, fits or denied.
func decide(c *quota.Credential, checks []quota.Check, r reply) quota.Decision {
	d := quota.Decision{Limits: states(c, checks, r), Now: r.now()}
	for _, k := range checks {
		d.Units = max(d.Units, k.Cost)
	}
	if r.word != denied {
		return d
	}
	retry, longest := int64(0), int64(0)
	for i, k := range checks {
		limit := r.limits[i]
		if k.Observes || limit.retry == 0 {
			continue
		}
		retry = max(retry, limit.retry)
		closed := limit.closed.Until
		switch {
		case !closed.IsZero() && (d.Reason != quota.LimitClosed || closed.UnixMicro() > longest):
			d.Reason, d.Limit, longest = quota.LimitClosed, k.Limit, closed.UnixMicro()
		case closed.IsZero() && d.Reason != quota.LimitClosed && limit.retry > longest:
			d.Reason, d.Limit, longest = quota.LimitExceeded, k.Limit, limit.retry
		}
	}
	d.Now = atMicros(r.at)
	d.RetryAt = upToMillis(retry)
	wait := max(d.RetryAt.Sub(atMicros(r.time)), 1) // a log that is ahead of its clock waits for that
	d.RetryAfter = (wait + time.Millisecond - 1).Truncate(time.Millisecond)
	return d
}

// Peek implements quota.Ledger.
func (l *Ledger) Peek(ctx context.Context, c *quota.Credential, operations []string, charges []quota.Charge, useReserve bool) (quota.Decision, error) {
	one, err := l.find(c)
	if err != nil {
		return quota.Decision{}, err
	}
	looks := call{at: func(now time.Time) []quota.Check { return c.Checks(charges, useReserve, now) }}
	r, err := one.ask(ctx, &looks)
	if err == nil {
		err = one.refusesWrites()
	}
	if err != nil {
		if one.engine.Shared() && outage(err) {
			return one.peekOffline(c, operations, charges, useReserve, err)
		}
		return quota.Decision{}, err
	}
	return decide(c, looks.checks, r), nil
}

// Usage implements quota.Ledger.
func (l *Ledger) Usage(ctx context.Context, c *quota.Credential) (quota.Usage, error) {
	one, err := l.find(c)
	if err != nil {
		return quota.Usage{}, err
	}
	u, r, err := one.look(ctx, c)
	if err == nil {
		err = one.next(ctx, &u, r)
	}
	if err != nil && (outage(err) || errors.Is(err, quota.ErrRecovering)) {
		return one.usageOffline(c, err)
	}
	return u, err
}

// Log implements quota.Ledger. While the engine is away it is this host's journal.
func (l *Ledger) Log(ctx context.Context, c *quota.Credential, q quota.LogQuery) (page quota.LogPage, err error) {
	one, err := l.find(c)
	if err != nil {
		return page, err
	}
	engine, err := one.reading(ctx)
	if err != nil {
		return page, err
	}
	since, max := int64(0), cmp.Or(q.Max, quota.MaxLogPage)
	if !q.Since.IsZero() {
		since = q.Since.UnixMicro() - 1 // nothing older
	}
	args := []any{since, "", max + 1} // one more, to know whether others follow
	switch {
	case q.Newest && q.After.IsZero():
		args[1] = int64(quota.MaxUnits)
	case q.Newest:
		args[1] = q.After.UnixMicro()
	case !q.After.IsZero() && q.After.UnixMicro() > since:
		args[0] = q.After.UnixMicro()
	}
	_, _, records, err := readPage(ctx, engine, c.Name, args)
	if err != nil {
		return page, err
	}
	if len(records) > max {
		records = records[:max]
		page.Next = atMicros(records[max-1].At)
	}
	for _, r := range records {
		if e, ok := parse(r.ID, r.At, r.Text); ok {
			page.Entries = append(page.Entries, e)
		}
	}
	return page, nil
}

// Entry implements quota.Ledger.
func (l *Ledger) Entry(ctx context.Context, c *quota.Credential, id quota.ID) (e quota.Entry, ok bool, err error) {
	one, err := l.find(c)
	if err != nil {
		return e, false, err
	}
	engine, err := one.reading(ctx)
	if err != nil {
		return e, false, err
	}
	_, _, records, err := readPage(ctx, engine, c.Name, []any{0, "", 1, string(id)})
	if err != nil || len(records) == 0 {
		return e, false, err
	}
	e, ok = parse(records[0].ID, records[0].At, records[0].Text)
	return e, ok, nil
}

// Killed returns how often a start found that the ledger before it had not been closed, in what the journals have.
func (l *Ledger) Killed() (n int) {
	for _, one := range l.all() {
		n = max(n, one.journal.Killed())
	}
	return n
}

// A log may be ahead of the clock by that much, and a journal behind the log.
const (
	aheadOf = time.Minute
	mostLag = 5 * time.Second
)

// Health implements quota.Ledger.
func (l *Ledger) Health(ctx context.Context) quota.Health {
	h := quota.Health{Backend: "embedded", State: "ok", Reachable: true}
	if l.config.Engine.Shared() {
		h.Backend = "redis"
	}
	warnings, err := l.config.Engine.Health(ctx)
	if h.Warnings = warnings; err != nil {
		h.State, h.Reachable = err.Error(), false
	}
	l.mu.Lock()
	h.Hosts = slices.Clone(l.differs)
	l.mu.Unlock()
	for _, one := range l.all() {
		one.health(&h)
	}
	return h
}

// health adds the state of one log.
func (l *log) health(h *quota.Health) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing != nil {
		h.Unwritten = append(h.Unwritten, l.failing.Error())
		if !l.engine.Shared() {
			h.State, h.Reachable = l.failing.Error(), false
		}
	}
	if time.Now().Before(l.quietUntil) {
		h.Recovering = append(h.Recovering, l.name)
	}
	if l.ahead > aheadOf {
		h.Clock = append(h.Clock, fmt.Sprintf("the log of %s is %s ahead of the clock: what it holds leaves late, "+
			"by as much; quotactl reset %[1]s --yes begins another one", l.name, quota.Brief(l.ahead.Truncate(time.Second))))
	}
	if lag := time.Since(l.mirrored.whole); l.down == nil && !l.mirrored.whole.IsZero() && lag > mostLag {
		h.Warnings = append(h.Warnings, fmt.Sprintf("the journal of %s lags behind the log by %s: what others wrote since is on no disk of this host",
			l.name, quota.Brief(lag.Truncate(time.Second))))
	}
	if l.losses = l.lately(); len(l.losses) >= manyLosses {
		h.Warnings = append(h.Warnings, fmt.Sprintf("the log of %s was lost %d times within 10 minutes: do two masters answer?", l.name, len(l.losses)))
	}
	if l.down != nil && h.Reachable {
		h.State, h.Reachable = l.down.Error(), false
	}
}

// Close stops what follows the logs, and closes the journals and the engine.
func (l *Ledger) Close() error {
	l.stop()
	l.workers.Wait()
	var err error
	if l.config.Engine.Shared() {
		ctx, cancel := context.WithTimeout(context.Background(), l.config.Deadline)
		l.hosts(ctx, "") // a host that is away cannot say that it stops
		cancel()
	}
	for _, one := range l.all() {
		one.writeAgain()
		err = errors.Join(err, one.journal.Close())
	}
	return errors.Join(err, l.config.Engine.Close())
}

package quota

import (
	"context"
	"sync"
	"time"
)

// An account is a configured credential with the denial cache of its requests.
type account struct {
	service    *Service
	credential *Credential
	denied     denialCache
}

// acquire returns a cached denial, or has the ledger decide.
func (a *account) acquire(ctx context.Context, ask Ask) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	begun := time.Now()
	d, cached, generation := a.denied.find(ask, begun)
	if cached {
		return d, nil
	}
	ctx, cancel := a.service.Within(ctx)
	defer cancel()
	decisions, err := a.service.ledger.Acquire(ctx, a.credential, []Ask{ask})
	if a.service.Called != nil {
		a.service.Called(time.Since(begun))
	}
	if err != nil {
		return Decision{}, err
	}
	d = decisions[0]
	a.denied.record(ask, d, begun, generation)
	return d, d.Err
}

// denialTTL bounds how long a denial may be answered from the cache: units freed on other
// hosts are seen after at most this long.
const denialTTL = time.Second

// maxDenials bounds how many different denials an account caches.
const maxDenials = 256

// A denialKey is what a denial depends on: a request of the same job, operation, count
// and rights would be denied alike. A request id belongs to it, because another one may have been
// granted before.
type denialKey struct {
	job        string
	operation  string
	count      Units
	useReserve bool
	key        string
}

func keyOf(ask Ask) denialKey {
	return denialKey{ask.Caller.CountedAs(), ask.Operation, ask.Count, ask.UseReserve, ask.Key()}
}

// A denialCache holds denials that cannot change before a known time unless units are freed.
type denialCache struct {
	mu         sync.Mutex // guards what follows
	generation int        // counts how often the cache was dropped
	byKey      map[denialKey]denial
}

type denial struct {
	decision Decision
	begun    time.Time // when the call that was denied began: it is as stale as that
	answered time.Time // when its answer came: from then on its caller waits
}

// find returns a cached denial as it reads now, and else the generation that a call begins in.
func (c *denialCache) find(ask Ask, now time.Time) (d Decision, cached bool, generation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byKey) == 0 { // the key need not be made
		return d, false, c.generation
	}
	found, ok := c.byKey[keyOf(ask)]
	d = found.decision
	d.RetryAfter -= now.Sub(found.answered).Truncate(time.Millisecond)
	return d, ok && now.Sub(found.begun) < denialTTL && d.RetryAfter > 0, c.generation
}

// record caches a denial of a call that began at a time, in a generation. A new grant drops the cache.
func (c *denialCache) record(ask Ask, d Decision, begun time.Time, generation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case d.GrantID != "" && !d.Replayed:
		c.drop()
	case d.Denied() && c.generation == generation:
		if c.byKey == nil || len(c.byKey) >= maxDenials {
			c.byKey = make(map[denialKey]denial)
		}
		c.byKey[keyOf(ask)] = denial{decision: d, begun: begun, answered: time.Now()}
	}
}

// forget drops every denial, also those of calls that are in flight.
func (c *denialCache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.drop()
}

func (c *denialCache) drop() {
	c.generation++
	c.byKey = nil
}

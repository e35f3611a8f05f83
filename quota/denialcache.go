package quota

import (
	"sync"
	"time"
)

// denialTTL bounds how long a denial may be answered from the cache: what other
// hosts give back is heard of no later.
const denialTTL = time.Second

// maxDenials bounds how many different denials an account remembers.
const maxDenials = 256

// A denialKey is what a denial depends on: a request of the same job, operation, count
// and rights would be denied alike. The request id belongs to it unless it is fresh,
// because another id may have been granted before.
type denialKey struct {
	job        string
	operation  string
	count      Units
	atMost     bool
	useReserve bool
	key        string
}

func keyOf(ask Ask) denialKey {
	k := denialKey{job: ask.Caller.CountedAs(), operation: ask.Operation, count: ask.Count, atMost: ask.AtMost, useReserve: ask.UseReserve}
	if !ask.Fresh {
		k.key = ask.Key()
	}
	return k
}

// A denialCache remembers denials that cannot change before a known time unless
// something is given back.
type denialCache struct {
	mu         sync.Mutex // guards what follows
	generation int        // counts the reasons to forget
	byKey      map[denialKey]denial
}

type denial struct {
	decision Decision
	begun    time.Time // when the call that was denied began: it is as stale as that
	heard    time.Time // when its answer came: from then on its caller waits
}

// find returns a remembered denial as it reads now.
func (c *denialCache) find(ask Ask, now time.Time) (Decision, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.byKey) == 0 {
		return Decision{}, false
	}
	found, ok := c.byKey[keyOf(ask)]
	if !ok {
		return Decision{}, false
	}
	d := found.decision
	d.RetryAfter -= now.Sub(found.heard).Truncate(time.Millisecond)
	if now.Sub(found.begun) >= denialTTL || d.RetryAfter <= 0 {
		return Decision{}, false
	}
	return d, true
}

// current returns the generation that a batch begins in.
func (c *denialCache) current() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.generation
}

// learn takes in what a batch was decided that began at a time, in a generation.
func (c *denialCache) learn(asks []Ask, decisions []Decision, begun time.Time, generation int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, d := range decisions {
		if d.GrantID != "" && !d.Replayed {
			c.drop()
			return
		}
	}
	if c.generation != generation {
		return
	}
	for i, d := range decisions {
		if !d.Denied() {
			continue
		}
		if c.byKey == nil || len(c.byKey) >= maxDenials {
			c.byKey = make(map[denialKey]denial)
		}
		c.byKey[keyOf(asks[i])] = denial{decision: d, begun: begun, heard: time.Now()}
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

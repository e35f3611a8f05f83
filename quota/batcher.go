package quota

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A batcher leads the requests of one credential to the ledger, one batch at a
// time. Requests that arrive while a batch is in flight share the next one. The
// request that finds none in flight leads a batch itself: handing it over to
// another goroutine would cost more than the decision.
type batcher struct {
	credential *Credential
	ledger     Ledger
	deadline   time.Duration

	mu      sync.Mutex // guards what follows
	busy    bool       // a batch is in flight
	waiting []*call    // in the order of arrival, for the next batch
	denied  denialCache
}

// maxBatch bounds how many requests share one batch, and with it how long one
// keeps the ledger busy.
const maxBatch = 128

// A call is one request at a batcher.
type call struct {
	ask  Ask
	done chan handoff // of capacity 1; receives exactly once, unless withdrawn
}

// A handoff tells a waiting call either what was decided, or that it is to lead
// the next batch, of which it is the first.
type handoff struct {
	decision Decision
	err      error
	lead     []*call
}

func (b *batcher) acquire(ctx context.Context, ask Ask) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	c := &call{ask: ask}
	d, cached, leads := b.enter(c)
	switch {
	case cached:
		return d, nil
	case leads:
		return b.lead(ctx, []*call{c})
	}
	select {
	case h := <-c.done:
		return b.take(ctx, h)
	case <-ctx.Done():
		if b.withdraw(c) {
			return Decision{}, context.Cause(ctx)
		}
		// Too late: a batch with this request in it has begun, or this call is to
		// lead one. Either is bounded by the deadline.
		return b.take(ctx, <-c.done)
	}
}

// enter answers from the cache what was just denied; otherwise it reports whether c
// is to lead a batch of its own, or waits for one to share.
func (b *batcher) enter(c *call) (d Decision, cached, leads bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if d, cached = b.denied.find(c.ask, time.Now()); cached {
		return d, true, false
	}
	if !b.busy {
		b.busy = true
		return d, false, true
	}
	c.done = make(chan handoff, 1)
	b.waiting = append(b.waiting, c)
	return d, false, false
}

// withdraw takes a call out of the queue and reports whether it still stood there.
func (b *batcher) withdraw(c *call) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, c)
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return true
}

func (b *batcher) take(ctx context.Context, h handoff) (Decision, error) {
	if h.lead != nil {
		return b.lead(ctx, h.lead)
	}
	return h.decision, h.err
}

// lead has the ledger decide a batch, hands the next one over, and returns what was
// decided for the batch's first request.
func (b *batcher) lead(ctx context.Context, batch []*call) (Decision, error) {
	asks := make([]Ask, len(batch))
	for i, c := range batch {
		asks[i] = c.ask
	}
	begun, generation := b.begin()
	// The leader decides for others too: its own cancellation must not reach a
	// debit that has begun.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.deadline)
	decisions, err := b.decide(ctx, asks)
	cancel()
	if err != nil {
		decisions = slices.Repeat([]Decision{{Err: err}}, len(batch))
	}
	b.leave(func() { b.denied.learn(batch, decisions, begun, generation) })
	for i, c := range batch[1:] {
		d, err := split(decisions[i+1])
		c.done <- handoff{decision: d, err: err}
	}
	return split(decisions[0])
}

// split takes a decision's error out of it.
func split(d Decision) (Decision, error) {
	if d.Err != nil {
		return Decision{}, d.Err
	}
	return d, nil
}

// decide asks the ledger. If it panics, nobody knows what became of the asks, but
// the batcher must go on.
func (b *batcher) decide(ctx context.Context, asks []Ask) (decisions []Decision, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrOutcomeUnknown, r)
		}
	}()
	return b.ledger.Acquire(ctx, b.credential, asks)
}

func (b *batcher) begin() (time.Time, int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return time.Now(), b.denied.generation
}

// correct carries out a correction within the deadline. What was denied before may
// fit after it, whatever became of it.
func (b *batcher) correct(ctx context.Context, f func(context.Context) (Decision, error)) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, b.deadline)
	defer cancel()
	defer func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.denied.forget()
	}()
	return f(ctx)
}

// leave takes in what was learnt, and hands the next batch over or frees the batcher.
func (b *batcher) leave(learn func()) {
	b.mu.Lock()
	learn()
	n := min(len(b.waiting), maxBatch)
	if n == 0 {
		b.busy = false
		b.mu.Unlock()
		return
	}
	next := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	b.mu.Unlock()
	next[0].done <- handoff{lead: next}
}

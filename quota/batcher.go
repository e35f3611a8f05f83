package quota

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Batcher leads asks to whoever answers them, one batch at a time. Asks that arrive
// while a batch is in flight share the next one. The ask that finds none in flight leads
// a batch itself: handing it over to another goroutine would cost more than the answer.
type Batcher[T, R any] struct {
	// Do answers a batch, one result for each ask, in order. An error is that of every ask
	// of the batch. It is never called while a call of it is under way, and its context is
	// cancelled by the deadline alone: whoever leads asks for others too.
	Do       func(context.Context, []T) ([]R, error)
	Deadline time.Duration // of one call of Do
	Most     int           // how many asks share one batch; 0 means 128

	mu      sync.Mutex // guards what follows; it is not held while Do is under way
	busy    bool       // a batch is in flight
	waiting []*call[T, R]
}

// defaultBatch bounds how many asks share one batch, and with it how long one keeps those
// who wait.
const defaultBatch = 128

// A call is one ask that waits at a batcher.
type call[T, R any] struct {
	ask  T
	done chan handoff[T, R] // of capacity 1; receives exactly once, unless withdrawn
}

// A handoff tells a waiting call either its answer, or that it is to lead the next batch,
// of which it is the first.
type handoff[T, R any] struct {
	result R
	err    error
	lead   []*call[T, R]
}

// Ask has an ask answered. The errors are those of Do, and the context's own while the
// ask still waits for its turn. Where Do panics, nobody knows what became of the asks:
// the error is an ErrOutcomeUnknown.
func (b *Batcher[T, R]) Ask(ctx context.Context, ask T) (result R, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	c := b.enter(ask)
	if c == nil {
		return b.lead(ctx, []T{ask}, nil)
	}
	select {
	case h := <-c.done:
		return b.take(ctx, h)
	case <-ctx.Done():
		if b.withdraw(c) {
			return result, context.Cause(ctx)
		}
		// Too late: a batch with this ask in it has begun, or this call is to lead one.
		// Either is bounded by the deadline.
		return b.take(ctx, <-c.done)
	}
}

// Waiting returns how many asks wait for a batch in flight to end.
func (b *Batcher[T, R]) Waiting() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}

// enter returns the call that waits for a batch to share, or nil where the ask is to lead
// one.
func (b *Batcher[T, R]) enter(ask T) *call[T, R] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.busy {
		b.busy = true
		return nil
	}
	c := &call[T, R]{ask: ask, done: make(chan handoff[T, R], 1)}
	b.waiting = append(b.waiting, c)
	return c
}

// withdraw takes a call out of the queue and reports whether it still stood there.
func (b *Batcher[T, R]) withdraw(c *call[T, R]) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.waiting, c)
	if i < 0 {
		return false
	}
	b.waiting = slices.Delete(b.waiting, i, i+1)
	return true
}

func (b *Batcher[T, R]) take(ctx context.Context, h handoff[T, R]) (R, error) {
	if h.lead == nil {
		return h.result, h.err
	}
	asks := make([]T, len(h.lead))
	for i, c := range h.lead {
		asks[i] = c.ask
	}
	return b.lead(ctx, asks, h.lead[1:])
}

// lead has a batch answered, hands the next one over, and returns the answer to the
// batch's first ask. The others are those of the calls that wait for it.
func (b *Batcher[T, R]) lead(ctx context.Context, asks []T, others []*call[T, R]) (first R, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), b.Deadline)
	results, err := b.do(ctx, asks)
	cancel()
	b.leave()
	for i, c := range others {
		h := handoff[T, R]{err: err}
		if err == nil {
			h.result = results[i+1]
		}
		c.done <- h
	}
	if err != nil {
		return first, err
	}
	return results[0], nil
}

// do calls Do. Whatever becomes of that, the batcher goes on.
func (b *Batcher[T, R]) do(ctx context.Context, asks []T) (results []R, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrOutcomeUnknown, r)
		}
	}()
	results, err = b.Do(ctx, asks)
	if err == nil && len(results) != len(asks) {
		err = fmt.Errorf("%w: %d answers to %d asks", ErrOutcomeUnknown, len(results), len(asks))
	}
	return results, err
}

// leave hands the next batch over, or frees the batcher.
func (b *Batcher[T, R]) leave() {
	b.mu.Lock()
	most := b.Most
	if most == 0 {
		most = defaultBatch
	}
	n := min(len(b.waiting), most)
	if n == 0 {
		b.busy = false
		b.mu.Unlock()
		return
	}
	next := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	b.mu.Unlock()
	next[0].done <- handoff[T, R]{lead: next}
}

package quota

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Batcher has asks answered in batches, one at a time. Asks that arrive while a batch is in
// flight share the next one. The ask that finds none in flight leads a batch itself: handing
// it over to another goroutine would cost more than the answer.
type Batcher[T, R any] struct {
	// Do answers a batch, one result for each ask, in order. An error is that of every ask
	// of the batch. It is never called while a call of it is under way, and its context is
	// cancelled by the deadline alone, because the leader asks for others too.
	Do       func(context.Context, []T) ([]R, error)
	Deadline time.Duration // of one ask: that of a batch is its oldest ask's
	Max      int           // how many asks share one batch; 0 means 128

	mu      sync.Mutex // guards what follows; it is not held while Do is under way
	busy    bool       // a batch is in flight
	waiting []*call[T, R]
}

// defaultBatch bounds how many asks share one batch, and with it how long one takes.
const defaultBatch = 128

// A call is one ask that waits at a batcher. The fields below ready are set before it is closed.
type call[T, R any] struct {
	ask    T
	ready  chan struct{}
	batch  []*call[T, R] // that it leads, of which it is the first; nil: it has its answer
	result R
	err    error
}

// Ask has an ask answered. The errors are those of Do, and the context's own while the
// ask still waits for a batch. Where Do panics, so does the call that leads the batch; the others
// get an ErrOutcomeUnknown.
func (b *Batcher[T, R]) Ask(ctx context.Context, ask T) (result R, err error) {
	if err := ctx.Err(); err != nil {
		return result, err
	}
	end := time.Now().Add(b.Deadline)
	c := b.enter(ask)
	if c == nil {
		return b.lead(ctx, end, []T{ask}, nil)
	}
	select {
	case <-c.ready:
	case <-ctx.Done():
		if b.withdraw(c) {
			return result, context.Cause(ctx)
		}
		// Too late: a batch with this ask in it has begun, or this call is to lead one.
		// Either is bounded by the deadline.
		<-c.ready
	}
	if c.batch == nil {
		return c.result, c.err
	}
	asks := make([]T, len(c.batch))
	for i, each := range c.batch {
		asks[i] = each.ask
	}
	return b.lead(ctx, end, asks, c.batch[1:])
}

// enter returns the call that waits for a batch to share, or nil where the ask is to lead one.
func (b *Batcher[T, R]) enter(ask T) *call[T, R] {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.busy {
		b.busy = true
		return nil
	}
	c := &call[T, R]{ask: ask, ready: make(chan struct{})}
	b.waiting = append(b.waiting, c)
	return c
}

// withdraw removes a call from the queue and reports whether it was still there.
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

// lead has a batch answered by the deadline of its oldest ask, and hands the next one over. It returns
// the answer to the first ask; the others are those of the calls that wait for it.
func (b *Batcher[T, R]) lead(ctx context.Context, end time.Time, asks []T, others []*call[T, R]) (first R, err error) {
	ctx, cancel := context.WithDeadline(context.WithoutCancel(ctx), end)
	var results []R
	err = ErrOutcomeUnknown
	defer func() { // also if Do panics
		cancel()
		b.leave()
		for i, c := range others {
			if c.err = err; err == nil {
				c.result = results[i+1]
			}
			close(c.ready)
		}
	}()
	results, err = b.Do(ctx, asks)
	if err == nil && len(results) != len(asks) {
		err = fmt.Errorf("%w: %d answers to %d asks", ErrOutcomeUnknown, len(results), len(asks))
	}
	if err != nil {
		return first, err
	}
	return results[0], nil
}

// leave hands the next batch over, or frees the batcher.
func (b *Batcher[T, R]) leave() {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), cmp.Or(b.Max, defaultBatch))
	if n == 0 {
		b.busy = false
		return
	}
	next := slices.Clone(b.waiting[:n])
	b.waiting = slices.Delete(b.waiting, 0, n)
	next[0].batch = next
	close(next[0].ready)
}

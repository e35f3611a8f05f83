package quota

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A lane leads the requests of one credential to the ledger, one call at a
// time. Requests that arrive while a call is in flight share the next one. The
// request that finds nobody in flight carries the call itself: a goroutine
// handed over to would cost more than the decision.
type lane struct {
	credential *Credential
	ledger     Ledger
	deadline   time.Duration

	mu      sync.Mutex // guards what follows
	busy    bool       // somebody carries a call
	waiting []*waiter  // in the order of arrival, for the next call
	refused refusals
}

// maxShared bounds how many requests share one call, and with it how long one
// call keeps the ledger busy.
const maxShared = 128

// A waiter is one request in a lane.
type waiter struct {
	ask  Ask
	turn chan turn // of capacity 1; receives exactly once, unless withdrawn
}

// A turn tells a waiter either what was decided, or that it is to carry the
// next call for a whole batch, of which it is the first.
type turn struct {
	decision Decision
	err      error
	carry    []*waiter
}

func (l *lane) acquire(ctx context.Context, ask Ask) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	w := &waiter{ask: ask}
	d, refused, carries := l.enter(w)
	if refused {
		return d, nil
	}
	if !carries {
		select {
		case t := <-w.turn:
			return l.take(ctx, t)
		case <-ctx.Done():
			if l.withdraw(w) {
				return Decision{}, context.Cause(ctx)
			}
			// Too late: a call with this request in it has begun, or this
			// waiter is to carry one. Either is bounded by the deadline.
			return l.take(ctx, <-w.turn)
		}
	}
	return l.carry(ctx, []*waiter{w})
}

// enter answers from memory what was just refused; otherwise it reports whether w
// is to carry a call of its own, or waits for one to share.
func (l *lane) enter(w *waiter) (d Decision, refused, carries bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if d, refused = l.refused.find(w.ask, time.Now()); refused {
		return d, true, false
	}
	if !l.busy {
		l.busy = true
		return d, false, true
	}
	w.turn = make(chan turn, 1)
	l.waiting = append(l.waiting, w)
	return d, false, false
}

// withdraw takes a waiter out of the queue and reports whether it still stood there.
func (l *lane) withdraw(w *waiter) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	i := slices.Index(l.waiting, w)
	if i < 0 {
		return false
	}
	l.waiting = slices.Delete(l.waiting, i, i+1)
	return true
}

func (l *lane) take(ctx context.Context, t turn) (Decision, error) {
	if t.carry != nil {
		return l.carry(ctx, t.carry)
	}
	return t.decision, t.err
}

// carry makes the call for a batch, passes the lane on, and returns what was
// decided for the batch's first request.
func (l *lane) carry(ctx context.Context, batch []*waiter) (Decision, error) {
	asks := make([]Ask, len(batch))
	for i, w := range batch {
		asks[i] = w.ask
	}
	begun, generation := l.begin()
	// Whoever carries decides for others too: its own cancellation must not
	// reach a debit that has begun.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.deadline)
	decisions, err := l.call(ctx, asks)
	cancel()
	if err != nil {
		decisions = make([]Decision, len(batch))
	}
	l.leave(func() { l.refused.learn(batch, decisions, begun, generation) })
	for i, w := range batch[1:] {
		w.turn <- turn{decision: decisions[i+1], err: err}
	}
	return decisions[0], err
}

// call asks the ledger. If it panics, nobody knows what became of the asks, but
// the lane must go on.
func (l *lane) call(ctx context.Context, asks []Ask) (decisions []Decision, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", ErrOutcomeUnknown, r)
		}
	}()
	return l.ledger.Acquire(ctx, l.credential, asks)
}

func (l *lane) begin() (time.Time, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now(), l.refused.generation
}

// forget has every refusal asked about anew: something may have been given back.
func (l *lane) forget() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refused.forget()
}

// correct carries out a correction within the deadline. What was refused before
// may fit after it, whatever became of it.
func (l *lane) correct(ctx context.Context, f func(context.Context) (Decision, error)) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, l.deadline)
	defer cancel()
	defer l.forget()
	return f(ctx)
}

// leave takes in what was learnt, and hands the lane to those who wait or frees it.
func (l *lane) leave(learn func()) {
	l.mu.Lock()
	learn()
	n := min(len(l.waiting), maxShared)
	if n == 0 {
		l.busy = false
		l.mu.Unlock()
		return
	}
	next := slices.Clone(l.waiting[:n])
	l.waiting = slices.Delete(l.waiting, 0, n)
	l.mu.Unlock()
	next[0].turn <- turn{carry: next}
}

package quota

import (
	"cmp"
	"context"
	"time"
)

// An account is a configured credential with what leads its requests to the ledger.
type account struct {
	credential *Credential
	ledger     Ledger
	deadline   time.Duration
	asks       Batcher[Ask, Decision]
	denied     denialCache
}

func newAccount(c *Credential, ledger Ledger, deadline time.Duration) *account {
	a := &account{credential: c, ledger: ledger, deadline: deadline}
	a.asks.Do, a.asks.Deadline = a.decide, deadline
	return a
}

// acquire answers from the cache what was just denied, and has the ledger decide the rest.
func (a *account) acquire(ctx context.Context, ask Ask) (Decision, error) {
	if err := ctx.Err(); err != nil {
		return Decision{}, err
	}
	if d, cached := a.denied.find(ask, time.Now()); cached {
		return d, nil
	}
	d, err := a.asks.Ask(ctx, ask)
	if err != nil || d.Err != nil {
		return Decision{}, cmp.Or(err, d.Err)
	}
	return d, nil
}

// decide has the ledger decide a batch. What was denied is remembered before the next
// batch begins.
func (a *account) decide(ctx context.Context, asks []Ask) ([]Decision, error) {
	begun, generation := time.Now(), a.denied.current()
	decisions, err := a.ledger.Acquire(ctx, a.credential, asks)
	if err == nil {
		a.denied.learn(asks, decisions, begun, generation)
	}
	return decisions, err
}

// correct carries out a correction within the deadline. What was denied before may
// fit after it, whatever became of it.
func (a *account) correct(ctx context.Context, f func(context.Context) (Decision, error)) (Decision, error) {
	ctx, cancel := context.WithTimeout(ctx, a.deadline)
	defer cancel()
	defer a.denied.forget()
	return f(ctx)
}

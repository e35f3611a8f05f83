package ledgertest

import (
	"context"
	"sync/atomic"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// A ClientOutage is a ledger of client limits that can be away.
type ClientOutage struct {
	clientlimit.Ledger
	err atomic.Pointer[error]
}

// Fail has every call from now on return an error; nil ends that.
func (o *ClientOutage) Fail(err error) { o.err.Store(&err) }

func (o *ClientOutage) failure() error {
	if err := o.err.Load(); err != nil {
		return *err
	}
	return nil
}

// DecideClients implements clientlimit.Ledger.
func (o *ClientOutage) DecideClients(ctx context.Context, c *clientlimit.Clients, asks []clientlimit.Ask) ([]quota.Decision, error) {
	if err := o.failure(); err != nil {
		return nil, err
	}
	return o.Ledger.DecideClients(ctx, c, asks)
}

// ClientUsage implements clientlimit.Ledger.
func (o *ClientOutage) ClientUsage(ctx context.Context, c *clientlimit.Clients, of clientlimit.Ask) (quota.Usage, error) {
	if err := o.failure(); err != nil {
		return quota.Usage{}, err
	}
	return o.Ledger.ClientUsage(ctx, c, of)
}

// ResetClient implements clientlimit.Ledger.
func (o *ClientOutage) ResetClient(ctx context.Context, c *clientlimit.Clients, of clientlimit.Ask) error {
	if err := o.failure(); err != nil {
		return err
	}
	return o.Ledger.ResetClient(ctx, c, of)
}

// ReadHead implements clientlimit.Ledger.
func (o *ClientOutage) ReadHead(ctx context.Context) ([]byte, int64, error) {
	if err := o.failure(); err != nil {
		return nil, 0, err
	}
	return o.Ledger.ReadHead(ctx)
}

// SwapHead implements clientlimit.Ledger.
func (o *ClientOutage) SwapHead(ctx context.Context, read []byte, readMs int64, next []byte, endsMs int64) (bool, error) {
	if err := o.failure(); err != nil {
		return false, err
	}
	return o.Ledger.SwapHead(ctx, read, readMs, next, endsMs)
}

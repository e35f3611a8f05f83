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
func (o *ClientOutage) ClientUsage(ctx context.Context, c *clientlimit.Clients, subject clientlimit.Key) (quota.Usage, error) {
	if err := o.failure(); err != nil {
		return quota.Usage{}, err
	}
	return o.Ledger.ClientUsage(ctx, c, subject)
}

// ResetClient implements clientlimit.Ledger.
func (o *ClientOutage) ResetClient(ctx context.Context, c *clientlimit.Clients, subject clientlimit.Key) error {
	if err := o.failure(); err != nil {
		return err
	}
	return o.Ledger.ResetClient(ctx, c, subject)
}

// ClientSecret implements clientlimit.Ledger.
func (o *ClientOutage) ClientSecret(ctx context.Context) ([]byte, error) {
	if err := o.failure(); err != nil {
		return nil, err
	}
	return o.Ledger.ClientSecret(ctx)
}

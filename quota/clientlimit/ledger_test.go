package clientlimit_test

import (
	"context"
	"sync"
	"testing"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
)

// A ledger keeps records as they are, in memory.
type ledger struct {
	*ledgertest.ClientModel // its secret
	clock                   *ledgertest.Clock

	mu      sync.Mutex // guards records
	records map[string][]byte
}

func place(c *clientlimit.Clients, subject clientlimit.Key) string {
	return c.Name + " " + string(c.Algorithm) + " " + string(subject)
}

func (l *ledger) DecideClients(_ context.Context, c *clientlimit.Clients, asks []clientlimit.Ask) ([]quota.Decision, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	decisions := make([]quota.Decision, len(asks))
	for i, ask := range asks {
		at := place(c, ask.Subject)
		var after []byte
		if after, _, decisions[i] = c.Decide(l.records[at], l.clock.Now().UnixMilli(), ask.Units); after != nil {
			l.records[at] = after
		}
	}
	return decisions, nil
}

func (l *ledger) ClientUsage(_ context.Context, c *clientlimit.Clients, subject clientlimit.Key) (quota.Usage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now().UnixMilli()
	return c.Usage(l.records[place(c, subject)], now), nil
}

func (l *ledger) ResetClient(_ context.Context, c *clientlimit.Clients, subject clientlimit.Key) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.records, place(c, subject))
	return nil
}

func harness() ledgertest.ClientHarness {
	return ledgertest.ClientHarness{Open: func(_ testing.TB, clock *ledgertest.Clock) (clientlimit.Ledger, func() clientlimit.Ledger) {
		l := &ledger{ClientModel: ledgertest.NewClientModel(clock.Now), clock: clock, records: make(map[string][]byte)}
		return l, func() clientlimit.Ledger { return l }
	}}
}

func TestRecords(t *testing.T) { ledgertest.RunClients(t, harness()) }

func TestRandomRecords(t *testing.T) { ledgertest.RandomClients(t, harness()) }

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
	*ledgertest.ClientModel // its head
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
		record, now := l.of(c, ask), l.clock.Now().UnixMilli()
		_, moved := clientlimit.Unseal(l.records[place(c, ask.Subject)])
		if moved || ask.UntilMs > 0 && now > ask.UntilMs {
			decisions[i].Err = clientlimit.ErrMoved
			continue
		}
		var after []byte
		if after, _, decisions[i] = c.Decide(record, now, ask.Units); after == nil {
			continue
		}
		if ask.Former != "" {
			l.records[place(c, ask.Former)] = clientlimit.Seal(nil)
		}
		l.records[place(c, ask.Subject)] = after
	}
	return decisions, nil
}

func (l *ledger) ClientUsage(_ context.Context, c *clientlimit.Clients, of clientlimit.Ask) (quota.Usage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now().UnixMilli()
	return c.Usage(l.of(c, of), now), nil
}

func (l *ledger) ResetClient(_ context.Context, c *clientlimit.Clients, of clientlimit.Ask) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.records, place(c, of.Subject))
	delete(l.records, place(c, of.Former))
	return nil
}

// of returns the record of an ask.
func (l *ledger) of(c *clientlimit.Clients, ask clientlimit.Ask) []byte {
	for _, key := range []clientlimit.Key{ask.Subject, ask.Former} {
		if record, _ := clientlimit.Unseal(l.records[place(c, key)]); len(record) > 0 {
			return record
		}
	}
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

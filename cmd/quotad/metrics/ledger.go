package metrics

import (
	"context"
	"time"

	"quotad/quota"
)

// Measure returns a ledger whose deciding calls are measured.
func (m *Metrics) Measure(ledger quota.Ledger) quota.Ledger { return measuredLedger{ledger, m} }

type measuredLedger struct {
	quota.Ledger
	metrics *Metrics
}

// Acquire implements quota.Ledger.
func (l measuredLedger) Acquire(ctx context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	begun := time.Now()
	decisions, err := l.Ledger.Acquire(ctx, c, asks)
	l.metrics.ledgerCalls.Observe(time.Since(begun).Seconds())
	l.metrics.ledgerBatches.Observe(float64(len(asks)))
	return decisions, err
}

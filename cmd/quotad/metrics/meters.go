package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/notify"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
)

type operationName struct{ credential, operation string }

// A meter counts the grants of one operation: most decisions are grants, and
// looking a counter up costs more than counting.
type meter struct {
	grants prometheus.Counter
	limits []limitMeter // those that the operation counts in, in the credential's order
}

type limitMeter struct {
	limit   quota.Limit
	cost    quota.Units // of one call
	debited prometheus.Counter
	near    [len(notify.Thresholds)]prometheus.Counter // units above each threshold
}

// Expect begins the counters of a configuration's credentials. What may happen
// begins at 0, because Prometheus sees no increase in a new series; what cannot
// happen has no series.
func (m *Metrics) Expect(configuration *config.Config) {
	meters := make(map[operationName]*meter)
	for _, c := range configuration.Credentials {
		if configuration.Ledger.Backend == config.OnRedis {
			for operation := range configuration.Outages[c.Name].Open {
				m.outageGrants.WithLabelValues(c.Name, operation)
			}
		}
		for operation := range c.Operations {
			meters[operationName{c.Name, operation}] = m.meter(c, operation)
		}
		for _, limit := range c.Limits {
			if limit.DryRun {
				m.wouldDeny.WithLabelValues(c.Name, limit.Name)
			}
			for _, percent := range notify.Thresholds {
				m.near.WithLabelValues(c.Name, limit.Name, percentLabel(percent))
			}
		}
	}
	m.meters.Store(&meters)
}

func (m *Metrics) meter(c *quota.Credential, operation string) *meter {
	m.decisions.WithLabelValues(c.Name, noLimit, operation, string(api.LedgerUnavailable))
	one := &meter{
		grants: m.decisions.WithLabelValues(c.Name, noLimit, operation, server.Granted),
	}
	for _, limit := range c.Limits {
		cost := c.Operations[operation].In(limit, operation)
		if cost == 0 {
			continue
		}
		if !limit.DryRun {
			m.decisions.WithLabelValues(c.Name, limit.Name, operation, string(quota.LimitExceeded))
			m.decisions.WithLabelValues(c.Name, limit.Name, operation, string(quota.LimitClosed))
		}
		l := limitMeter{limit: limit, cost: cost, debited: m.debited.WithLabelValues(c.Name, limit.Name, operation)}
		for i, percent := range notify.Thresholds {
			l.near[i] = m.nearUnits.WithLabelValues(c.Name, limit.Name, percentLabel(percent))
		}
		one.limits = append(one.limits, l)
	}
	return one
}

// grant counts a grant and what it debited.
func (m *meter) grant(r quota.Request, d quota.Decision) {
	m.grants.Inc()
	states := d.Limits // a grant of an outage has none
	for _, limit := range m.limits {
		if !limit.limit.CountsJob(r.Caller.CountedAs()) {
			continue
		}
		limit.debited.Add(float64(limit.cost) * float64(r.Count))
		if len(states) > 0 {
			limit.countNear(states[0])
			states = states[1:]
		}
	}
}

// countNear counts the part of a debit that lies above each threshold.
func (m *limitMeter) countNear(limit quota.LimitState) {
	for i, percent := range notify.Thresholds {
		above := float64(limit.Used) - float64(limit.Budget(false))*float64(percent)/100
		if above > 0 {
			m.near[i].Add(min(above, float64(limit.Cost)))
		}
	}
}

package metrics

import (
	"maps"
	"slices"

	"quotad/cmd/quotad/notify"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/server"
)

// noOperation is the operation of a call that names none.
const noOperation = ""

// ExpectClients begins the counters of decisions about clients at 0, as Expect does for
// credentials.
func (m *Metrics) ExpectClients(all []*clientlimit.Clients) {
	for _, c := range all {
		if c.OpenOnOutage {
			m.clientOutage.WithLabelValues(c.Name)
		}
		for _, limit := range c.Limits {
			for _, percent := range notify.Thresholds {
				m.clientNear.WithLabelValues(c.Name, limit.Name, percentLabel(percent))
			}
			if limit.DryRun {
				m.clientWouldDeny.WithLabelValues(c.Name, limit.Name)
			}
		}
		for _, operation := range append(slices.Collect(maps.Keys(c.Operations)), noOperation) {
			m.clientDecisions.WithLabelValues(c.Name, noLimit, operation, server.Granted)
			if !c.OpenOnOutage {
				m.clientDecisions.WithLabelValues(c.Name, noLimit, operation, string(api.LedgerUnavailable))
			}
			for _, limit := range c.Limits {
				if !limit.DryRun {
					m.clientDecisions.WithLabelValues(c.Name, limit.Name, operation, string(quota.LimitExceeded))
				}
			}
		}
	}
}

// clientDecided counts a decision about a call of a client, without naming the client.
func (m *Metrics) clientDecided(event clientlimit.Decided) {
	m.clientAcquire.Observe(event.Took.Seconds())
	d, name, operation, reason := event.Decision, event.Clients, event.Operation, string(event.Decision.Reason)
	switch {
	case !event.Known:
		name, operation = unknown, unknown
	case d.Reason == quota.UnknownOperation, d.Reason == quota.BadRequest: // it is not checked
		operation = unknown
	case event.Err != nil:
		reason = string(api.ProblemFrom(event.Err).Reason)
	case d.Granted():
		reason = server.Granted
		m.clientGranted(name, d)
	}
	m.clientDecisions.WithLabelValues(name, d.Limit, operation, reason).Inc()
}

func (m *Metrics) clientGranted(name string, d quota.Decision) {
	if d.Outage {
		m.clientOutage.WithLabelValues(name).Inc()
	}
	for _, short := range d.WouldDeny(false) {
		m.clientWouldDeny.WithLabelValues(name, short.Limit).Inc()
	}
	for _, l := range d.Limits {
		for _, percent := range notify.Thresholds {
			if most := float64(l.Units) * float64(percent) / 100; float64(l.Used) > most && float64(l.Used-d.Units) <= most {
				m.clientNear.WithLabelValues(name, l.Name, percentLabel(percent)).Inc()
			}
		}
	}
}

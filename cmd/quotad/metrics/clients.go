package metrics

import (
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/server"
)

// ExpectClients has the decisions about clients counted from 0, as Expect does those of
// credentials.
func (m *Metrics) ExpectClients(all []*clientlimit.Clients) {
	for _, c := range all {
		m.clientDecisions.WithLabelValues(c.Name, noLimit, server.Granted)
		if c.OpenOnOutage {
			m.clientOutage.WithLabelValues(c.Name)
		} else {
			m.clientDecisions.WithLabelValues(c.Name, noLimit, string(api.LedgerUnavailable))
		}
		for _, limit := range c.Limits {
			if limit.Observe {
				m.clientWouldDeny.WithLabelValues(c.Name, limit.Name)
				continue
			}
			m.clientDecisions.WithLabelValues(c.Name, limit.Name, string(quota.LimitExceeded))
		}
	}
}

// clientDecided counts what was decided about a call of a client; whose it was is not told.
func (m *Metrics) clientDecided(event clientlimit.Event) {
	d, name, reason := event.Decision, event.Clients, string(event.Decision.Reason)
	switch {
	case !event.Known:
		name = unknown
	case d.Err != nil:
		reason = string(api.ProblemFrom(d.Err).Reason)
	case d.Granted():
		reason = server.Granted
		if d.Outage {
			m.clientOutage.WithLabelValues(name).Inc()
		}
		for _, short := range d.WouldDeny(false) {
			m.clientWouldDeny.WithLabelValues(name, short.Limit).Inc()
		}
	}
	m.clientDecisions.WithLabelValues(name, d.Limit, reason).Inc()
}

package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"quotad/quota/api"
)

// Remote is a collector of the requests of callers on other hosts. Without a listener for them it
// collects nothing.
type remote struct {
	state func() api.Remote

	requests, seen, wrong, connections, refused, handshakes, expires *prometheus.Desc
}

// WatchRemote exposes the callers on other hosts.
func (m *Metrics) WatchRemote(state func() api.Remote) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, labels, nil)
	}
	m.registry.MustRegister(&remote{
		state:       state,
		requests:    desc("quotad_remote_requests_total", "Requests of remote callers: acquires that were granted or refused, and requests that they may not make (forbidden).", "caller", "result"),
		seen:        desc("quotad_remote_last_seen_seconds", "When the remote caller showed its token last, in seconds since 1970; absent of one that did not since the start.", "caller"),
		wrong:       desc("quotad_remote_wrong_tokens_total", "Requests from other hosts without a token that is known."),
		connections: desc("quotad_remote_connections", "Connections from other hosts."),
		refused:     desc("quotad_remote_connections_refused_total", "Connections from other hosts that were one too many."),
		handshakes:  desc("quotad_remote_handshakes_failed_total", "Connections from other hosts that came to no TLS."),
		expires:     desc("quotad_remote_certificate_expires_seconds", "When the certificate for remote callers ends, in seconds since 1970."),
	})
}

// Describe implements prometheus.Collector.
func (r *remote) Describe(descs chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{r.requests, r.seen, r.wrong, r.connections, r.refused, r.handshakes, r.expires} {
		descs <- desc
	}
}

// Collect implements prometheus.Collector.
func (r *remote) Collect(out chan<- prometheus.Metric) {
	state := r.state()
	if state.Address == "" {
		return
	}
	counter := func(desc *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
	}
	for _, c := range state.Callers {
		counter(r.requests, c.Granted, c.Name, "granted")
		counter(r.requests, c.Refused, c.Name, "refused")
		counter(r.requests, c.Forbidden, c.Name, "forbidden")
		if c.LastSeen != nil {
			out <- gauge(r.seen, float64(c.LastSeen.UnixMilli())/1000, c.Name)
		}
	}
	counter(r.wrong, state.WrongTokens)
	counter(r.refused, state.TurnedAway)
	counter(r.handshakes, state.Handshakes)
	out <- gauge(r.connections, float64(state.Connections))
	if state.Certificate != nil {
		out <- gauge(r.expires, float64(state.Certificate.NotAfter.Unix()))
	}
}

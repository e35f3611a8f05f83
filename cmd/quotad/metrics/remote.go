package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"quotad/quota/api"
)

// WatchRemote exposes the requests of callers on other hosts. Without a listener for them there are
// none.
func (m *Metrics) WatchRemote(read func() api.Remote) {
	r := &collector{}
	requests := r.desc("quotad_remote_requests_total", "Requests of remote callers: acquires that were granted or refused, and requests that they may not make (forbidden).", "caller", "result")
	seen := r.desc("quotad_remote_last_seen_seconds", "When the remote caller showed its token last, in seconds since 1970; absent of one that did not since the start.", "caller")
	wrong := r.desc("quotad_remote_wrong_tokens_total", "Requests from other hosts without a token that is known.")
	connections := r.desc("quotad_remote_connections", "Connections from other hosts.")
	refused := r.desc("quotad_remote_connections_refused_total", "Connections from other hosts that were one too many.")
	handshakes := r.desc("quotad_remote_handshakes_failed_total", "Connections from other hosts that came to no TLS.")
	expires := r.desc("quotad_remote_certificate_expires_seconds", "When the certificate for remote callers ends, in seconds since 1970.")
	r.collect = func(out chan<- prometheus.Metric) {
		state := read()
		if state.Address == "" {
			return
		}
		counter := func(desc *prometheus.Desc, value uint64, labels ...string) {
			out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), labels...)
		}
		for _, c := range state.Callers {
			counter(requests, c.Granted, c.Name, "granted")
			counter(requests, c.Refused, c.Name, "refused")
			counter(requests, c.Forbidden, c.Name, "forbidden")
			if c.LastSeen != nil {
				out <- gauge(seen, float64(c.LastSeen.UnixMilli())/1000, c.Name)
			}
		}
		counter(wrong, state.WrongTokens)
		counter(refused, state.TurnedAway)
		counter(handshakes, state.Handshakes)
		out <- gauge(connections, float64(state.Connections))
		if state.Certificate != nil {
			out <- gauge(expires, float64(state.Certificate.NotAfter.Unix()))
		}
	}
	m.registry.MustRegister(r)
}

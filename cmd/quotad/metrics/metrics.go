package metrics

import (
	"net/http"
	"runtime"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/notify"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/proxy"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// Metrics counts what happens, for Prometheus. The values of labels are names of
// the configuration and words of quotad's own, never what a caller sent: their
// number is bounded.
type Metrics struct {
	registry *prometheus.Registry
	service  *quota.Service // nil until WatchLimits
	meters   atomic.Pointer[map[operationName]*meter]

	decisions, corrections, debited, near, nearUnits, wouldDeny, answers *prometheus.CounterVec
	acquire                                                              prometheus.Histogram

	proxied, sent *prometheus.CounterVec
	proxyTook     prometheus.Histogram

	ledgerCalls                                     prometheus.Histogram
	outageGrants, outageEdges, bookedBack, restored *prometheus.CounterVec

	clientDecisions, clientOutage, clientWouldDeny, clientNear *prometheus.CounterVec
	clientAcquire                                              prometheus.Histogram

	runs, passes, passUnits, commands *prometheus.CounterVec
	passTook                          *prometheus.HistogramVec
}

// callTimes are the buckets of what usually takes well below a millisecond.
var callTimes = []float64{50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1}

// passTimes are the buckets of what takes seconds, or up to an hour.
var passTimes = []float64{0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}

// exchangeTimes are the buckets of calls that an upstream answers.
var exchangeTimes = []float64{0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120}

func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	)
	promauto.With(m.registry).NewGauge(prometheus.GaugeOpts{
		Name: "quotad_build_info", Help: "1, with the version of quotad.", ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}).Set(1)

	m.decisions = m.counters("quotad_decisions_total", "Decided acquires; the reason of a grant is granted, or replayed when the same request had been granted before. The limit is the one that refused.", "credential", "limit", "operation", "reason")
	m.corrections = m.counters("quotad_corrections_total", "Requests to settle or release a grant, to book in or reset a log, and to close or open a limit; the reason is granted if it was done.", "credential", "verb", "reason")
	m.debited = m.counters("quotad_debited_units_total", "Units that grants debited, before any settling.", "credential", "limit", "operation")
	m.near = m.counters("quotad_near_limit_total", "How often the use of a limit rose over a percentage of what jobs may spend, after it had been well below.", "credential", "limit", "percent")
	m.nearUnits = m.counters("quotad_near_limit_units_total", "Units that were debited above a percentage of what jobs may spend.", "credential", "limit", "percent")
	m.wouldDeny = m.counters("quotad_would_deny_total", "Grants that a limit would have denied if it were enforced.", "credential", "limit")
	m.acquire = m.histogram("quotad_acquire_duration_seconds", "Time to decide an acquire, waiting for others included.", callTimes)

	m.answers = m.counters("quotad_observations_total", "Answers of upstreams that were reported, by what they say of the quota: ok, minute, day, config, billing or unknown; and whether that closed a limit.", "credential", "class", "closed")
	m.proxied = m.counters("quotad_proxy_requests_total", "Calls through the proxy that are over, by what their client got: the upstream's answer (2xx to 5xx), no_answer, or the reason of a refusal.", "credential", "operation", "result")
	m.sent = m.counters("quotad_proxy_sent_total", "How often calls through the proxy were written to an upstream: more than once where a connection had ended.", "credential")
	m.proxyTook = m.histogram("quotad_proxy_duration_seconds", "Time of a call through the proxy, from the request to the end of its answer.", exchangeTimes)

	m.ledgerCalls = m.histogram("quotad_ledger_call_duration_seconds", "Time in which the ledger decided a request.", callTimes)
	m.outageGrants = m.counters("quotad_outage_grants_total", "Grants on this host's copy of the log while the ledger could not be reached.", "credential", "operation")
	m.outageEdges = m.counters("quotad_ledger_edges_total", "How often the shared ledger went down, was found to lack entries (lost), was restored and came up.", "credential", "edge")
	m.bookedBack = m.counters("quotad_booked_back_units_total", "Units granted during outages and booked back into the ledger.", "credential")
	m.restored = m.counters("quotad_restored_records_total", "Records put back into a ledger that lacked entries.", "credential")

	m.clientDecisions = m.counters("quotad_client_decisions_total", "Decided calls of clients; the reason of a grant is granted. The limit is the one that refused; the operation is empty where a call names none.", "clients", "limit", "operation", "reason")
	m.clientOutage = m.counters("quotad_client_outage_grants_total", "Calls of clients that were granted, and not counted, while the ledger did not decide.", "clients")
	m.clientWouldDeny = m.counters("quotad_client_would_deny_total", "Granted calls of clients that a limit would have denied if it were enforced.", "clients", "limit")

	m.clientNear = m.counters("quotad_client_near_limit_total", "How often the use of a client rose over a percentage of a limit.", "clients", "limit", "percent")
	m.clientAcquire = m.histogram("quotad_client_acquire_duration_seconds", "Time to decide a call of a client.", callTimes)

	m.runs = m.counters("quotad_runs_total", "Runs that are over; skipped ones are slots that did not become a run, and slots missed in a row count as one.", "job", "state", "reason")
	m.passes = m.counters("quotad_passes_total", "Passes that are over, or were not launched.", "job", "outcome", "reason")
	m.passTook = promauto.With(m.registry).NewHistogramVec(prometheus.HistogramOpts{
		Name: "quotad_pass_duration_seconds", Help: "Time of one pass, from its start to its end.", Buckets: passTimes,
	}, []string{"job"})
	m.passUnits = m.counters("quotad_pass_units_total", "Units that passes spent, less what they gave back.", "job")
	m.commands = m.counters("quotad_event_commands_total", "Notify commands that were run for an event: ok, failed, or dropped because too many waited.", "event", "result")
	return m
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	return promauto.With(m.registry).NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	return promauto.With(m.registry).NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
}

// WatchConnections exposes how many connections a server has.
func (m *Metrics) WatchConnections(connections func() server.Connections) {
	with := promauto.With(m.registry)
	with.NewGaugeFunc(prometheus.GaugeOpts{Name: "quotad_connections", Help: "Connections to the API."},
		func() float64 { return float64(connections().Open) })
	with.NewCounterFunc(prometheus.CounterOpts{Name: "quotad_connections_refused_total", Help: "Connections that were one too many."},
		func() float64 { return float64(connections().Refused) })
}

// Record counts an event.
func (m *Metrics) Record(event any) {
	switch event := event.(type) {
	case server.Decided:
		m.decided(event)
	case clientlimit.Decided:
		m.clientDecided(event)
	case upstream.Outcome:
		m.answers.WithLabelValues(event.Credential, string(event.Class), strconv.FormatBool(event.Changed)).Inc()
	case proxy.Finished:
		m.exchanged(event)
	case slidinglog.Event:
		m.outage(event)
	case jobs.RunChanged:
		if run := event.Run; run.State != jobs.RunRunning {
			m.runs.WithLabelValues(run.Job, string(run.State), string(run.Reason)).Inc()
		}
	case jobs.PassChanged:
		m.passChanged(event.Run, event.Pass)
	case notify.Alert:
		if event.Event == config.NearLimit {
			m.near.WithLabelValues(event.Credential, event.Limit.Name, percentLabel(event.Percent)).Inc()
		}
	case notify.Result:
		m.commands.WithLabelValues(string(event.Event), event.Outcome).Inc()
	}
}

// maxScrapes is how many scrapes may run at the same time.
const maxScrapes = 4

// Route returns the route of a scrape.
func (m *Metrics) Route() server.Route {
	handler := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry: m.registry, MaxRequestsInFlight: maxScrapes, ErrorHandling: promhttp.ContinueOnError, Timeout: 2 * scrapeTime,
	})
	return server.Route{
		Method: http.MethodGet, Path: "/metrics", Access: server.Read, Does: "what happened and how things are, for Prometheus",
		Handle: func(w http.ResponseWriter, r *http.Request, _ *server.Session) error {
			handler.ServeHTTP(w, r)
			return nil
		},
	}
}

// scrapeTime is how long a scrape waits for the ledger, all credentials together.
const scrapeTime = 2 * time.Second

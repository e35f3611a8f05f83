package metrics

import (
	"net/http"
	"runtime"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promauto"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	dto "github.com/prometheus/client_model/go"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/proxy"
	"quotad/quota/server"
)

// Metrics counts what happens, for Prometheus.
type Metrics struct {
	registry *prometheus.Registry
	sources  Sources // of Watch

	grants, outageGrants, debited, denials, wouldDeny *prometheus.CounterVec
	clientGrants, clientDenials, clientWouldDeny      *prometheus.CounterVec
	runs, proxied                                     *prometheus.CounterVec
	lastSuccess                                       *prometheus.GaugeVec
	passTook                                          *prometheus.HistogramVec
	acquire, ledgerCalls, proxyTook                   prometheus.Histogram
}

var (
	callTimes     = []float64{50e-6, 100e-6, 200e-6, 500e-6, 1e-3, 2e-3, 5e-3, 10e-3, 25e-3, 50e-3, 100e-3, 250e-3, 1}
	exchangeTimes = []float64{0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 120}
	passTimes     = []float64{0.1, 0.5, 1, 5, 10, 30, 60, 120, 300, 600, 1800, 3600}
)

// New returns metrics of a daemon of that version.
func New(version string) *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry()}
	m.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	with := promauto.With(m.registry)
	with.NewGauge(prometheus.GaugeOpts{
		Name: "quotad_build_info", Help: "1, with the version of quotad.", ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}).Set(1)
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return with.NewCounterVec(prometheus.CounterOpts{Name: "quotad_" + name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return with.NewHistogram(prometheus.HistogramOpts{Name: "quotad_" + name, Help: help, Buckets: buckets})
	}
	m.grants = counter("grants_total", "Acquires that were granted.", "credential", "operation")
	m.outageGrants = counter("outage_grants_total", "Those that were granted while the ledger could not be reached.", "credential", "operation")
	m.debited = counter("debited_units_total", "Units that grants debited, before any settling.", "credential", "limit", "operation")
	m.denials = counter("denials_total", "Acquires that were not granted, and why; the limit is the one that refused.", "credential", "limit", "operation", "reason")
	m.wouldDeny = counter("would_deny_total", "Calls that were granted, and that a limit would have denied if it were enforced.", "credential", "limit")
	m.acquire = histogram("acquire_duration_seconds", "Time to decide an acquire, waiting for others included.", callTimes)
	m.ledgerCalls = histogram("ledger_call_duration_seconds", "Time in which the ledger decided a request.", callTimes)

	m.clientGrants = counter("client_grants_total", "Calls of clients that were granted.", "clients")
	m.clientDenials = counter("client_denials_total", "Calls of clients that were not granted, and why.", "clients", "limit", "reason")
	m.clientWouldDeny = counter("client_would_deny_total", "Granted calls of clients that a limit would have denied if it were enforced.", "clients", "limit")

	m.proxied = counter("proxy_requests_total", "Calls through the proxy by what their client got: 2xx to 5xx of the upstream, no_answer, or refused by quotad.", "credential", "class")
	m.proxyTook = histogram("proxy_duration_seconds", "Time of a call through the proxy, from the request to the end of its answer.", exchangeTimes)

	m.runs = counter("runs_total", "Runs that are over; skipped ones are slots that did not become a run.", "job", "state")
	m.lastSuccess = with.NewGaugeVec(prometheus.GaugeOpts{
		Name: "quotad_job_last_success_timestamp_seconds", Help: "When the last good run of a job ended, in seconds since 1970.",
	}, []string{"job"})
	m.passTook = with.NewHistogramVec(prometheus.HistogramOpts{
		Name: "quotad_pass_duration_seconds", Help: "Time of one pass, from its start to its end.", Buckets: passTimes,
	}, []string{"job"})
	return m
}

// noLimit is the limit of a decision that no limit refused. To Prometheus an empty label is none.
const noLimit = ""

// unknown stands for names that callers sent and no configuration has. No configured name has parentheses.
const unknown = "(unknown)"

// Expect begins at 0 the counters of denials, of runs, and of what an alert asks for, for what is configured, because
// Prometheus sees no increase in a new series. What cannot happen has no series.
func (m *Metrics) Expect(c *config.Config) {
	for _, credential := range c.Credentials {
		name := credential.Name
		for operation, cost := range credential.Operations {
			m.denials.WithLabelValues(name, noLimit, operation, string(api.LedgerUnavailable))
			if c.Outages[name].Open[operation] {
				m.outageGrants.WithLabelValues(name, operation)
			}
			for _, limit := range credential.Limits {
				if cost.In(limit, operation) > 0 && !limit.DryRun {
					m.denials.WithLabelValues(name, limit.Name, operation, string(quota.LimitExceeded))
					m.denials.WithLabelValues(name, limit.Name, operation, string(quota.LimitClosed))
				}
			}
		}
	}
	for _, job := range c.Jobs {
		for _, state := range []jobs.RunState{jobs.RunDone, jobs.RunFailed, jobs.RunStopped, jobs.RunInterrupted, jobs.RunSkipped} {
			m.runs.WithLabelValues(job.Name, string(state))
		}
	}
}

// Record counts an event.
func (m *Metrics) Record(event any) {
	switch event := event.(type) {
	case server.Decided:
		if event.Verb == "acquire" {
			m.decided(event)
		}
	case clientlimit.Decided:
		m.clientDecided(event)
	case proxy.Finished:
		class := "no_answer"
		switch {
		case event.Refused != "":
			class = "refused"
		case event.Status > 0:
			class = strconv.Itoa(event.Status/100) + "xx"
		}
		m.proxied.WithLabelValues(event.Credential, class).Inc()
		m.proxyTook.Observe(event.Took.Seconds())
	case jobs.RunChanged:
		if event.Run.State == jobs.RunRunning {
			return
		}
		m.runs.WithLabelValues(event.Run.Job, string(event.Run.State)).Inc()
		if event.Run.State == jobs.RunDone {
			m.lastSuccess.WithLabelValues(event.Run.Job).Set(float64(event.Run.EndedAt.Unix()))
		}
	case jobs.PassChanged:
		if p := event.Pass; p.Outcome != jobs.Running && p.Outcome != jobs.NotLaunched && p.Reason != jobs.Died { // else its duration is unknown, or none
			m.passTook.WithLabelValues(event.Run.Job).Observe(p.EndedAt.Sub(p.StartedAt).Seconds())
		}
	}
}

// decided counts the decision of an acquire.
func (m *Metrics) decided(event server.Decided) {
	m.acquire.Observe(event.Took.Seconds())
	r, d := event.Request, event.Decision
	if event.Err == nil && d.Granted() {
		if !d.Replayed {
			m.granted(r, d)
		}
		return
	}
	name, operation := unknown, unknown
	if credential, known := m.sources.Service.Credential(r.Credential); known {
		name = credential.Name
		if _, known := credential.Operations[r.Operation]; known {
			operation = r.Operation
		}
	}
	m.denials.WithLabelValues(name, d.Limit, operation, event.Result()).Inc()
}

func (m *Metrics) granted(r quota.Request, d quota.Decision) {
	m.grants.WithLabelValues(r.Credential, r.Operation).Inc()
	if d.Outage {
		m.outageGrants.WithLabelValues(r.Credential, r.Operation).Inc()
	}
	if c, known := m.sources.Service.Credential(r.Credential); known {
		charges, _ := c.Charges(r.Operation, r.Count, r.Caller.CountedAs()) // an outage's grant names no limits
		for _, charge := range charges {
			m.debited.WithLabelValues(c.Name, charge.Limit, r.Operation).Add(float64(charge.Units))
		}
	}
	for _, short := range d.WouldDeny(r.UseReserve) {
		m.wouldDeny.WithLabelValues(r.Credential, short.Limit).Add(float64(r.Count))
	}
}

// WouldDeny returns how many calls a limit that is not enforced would have denied since quotad started.
func (m *Metrics) WouldDeny(credential, limit string) int {
	var value dto.Metric
	m.wouldDeny.WithLabelValues(credential, limit).Write(&value)
	return int(value.GetCounter().GetValue())
}

// clientDecided counts a decision about a call of a client, without naming the client.
func (m *Metrics) clientDecided(event clientlimit.Decided) {
	d, name, reason := event.Decision, event.Clients, string(event.Decision.Reason)
	switch {
	case !event.Known:
		name = unknown
	case event.Err != nil:
		reason = string(api.ProblemFrom(event.Err).Reason)
	case d.Granted():
		m.clientGrants.WithLabelValues(name).Inc()
		for _, short := range d.WouldDeny(false) {
			m.clientWouldDeny.WithLabelValues(name, short.Limit).Inc()
		}
		return
	}
	m.clientDenials.WithLabelValues(name, d.Limit, reason).Inc()
}

// LedgerCalled counts a request that the ledger decided.
func (m *Metrics) LedgerCalled(took time.Duration) { m.ledgerCalls.Observe(took.Seconds()) }

// Route returns the route of a scrape.
func (m *Metrics) Route() server.Route {
	const most = 4 // scrapes at the same time
	handler := promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		Registry: m.registry, MaxRequestsInFlight: most, ErrorHandling: promhttp.ContinueOnError, Timeout: 2 * scrapeTime,
	})
	return server.Route{
		Method: http.MethodGet, Path: "/metrics", Access: server.Read, Does: "what happened and how things are, for Prometheus",
		Handle: func(w http.ResponseWriter, r *http.Request, _ *server.Session) error {
			handler.ServeHTTP(w, r)
			return nil
		},
	}
}

package metrics

import (
	"strconv"
	"time"

	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/proxy"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
)

// unknown stands for names that callers sent and no configuration has. No configured
// name has parentheses.
const unknown = "(unknown)"

// noLimit is the limit of a decision that no limit refused. To Prometheus an empty
// label is none.
const noLimit = ""

// decided counts a decision.
func (m *Metrics) decided(event server.Decided) {
	if event.Verb != "acquire" {
		m.corrected(event)
		return
	}
	m.acquire.Observe(event.Took.Seconds())
	r, d := event.Request, event.Decision
	if event.Err == nil && d.Granted() && !d.Replayed {
		for _, short := range d.WouldDeny(r.UseReserve) {
			m.wouldDeny.WithLabelValues(r.Credential, short.Limit).Inc()
		}
		if d.Outage {
			m.outageGrants.WithLabelValues(r.Credential, r.Operation).Inc()
		}
		if meter := (*m.meters.Load())[operationName{r.Credential, r.Operation}]; meter != nil {
			meter.grant(r, d)
			return
		}
	}
	credential, known := m.service.Credential(r.Credential)
	if !known {
		m.decisions.WithLabelValues(unknown, noLimit, unknown, event.Result()).Inc()
		return
	}
	operation := r.Operation
	if _, known := credential.Operations[operation]; !known {
		operation = unknown
	}
	m.decisions.WithLabelValues(credential.Name, d.Limit, operation, event.Result()).Inc()
}

func percentLabel(percent quota.Units) string { return strconv.FormatInt(int64(percent), 10) }

// corrected counts a settle, release, book, close, open or reset.
func (m *Metrics) corrected(event server.Decided) {
	name := event.Request.Credential
	if _, known := m.service.Credential(name); !known {
		name = unknown
	}
	m.corrections.WithLabelValues(name, event.Verb, event.Result()).Inc()
}

// outage counts the edges of a shared ledger's outage.
func (m *Metrics) outage(event slidinglog.Event) {
	if event.Kind == slidinglog.Cut {
		return
	}
	m.outageEdges.WithLabelValues(event.Credential, string(event.Kind)).Inc()
	switch event.Kind {
	case slidinglog.Up:
		m.bookedBack.WithLabelValues(event.Credential).Add(float64(event.Units))
	case slidinglog.Restored:
		m.restored.WithLabelValues(event.Credential).Add(float64(event.Records))
	}
}

// exchanged counts a call through the proxy.
func (m *Metrics) exchanged(x proxy.Finished) {
	result := "no_answer"
	switch {
	case x.Refused != "":
		result = string(x.Refused)
	case x.Status > 0:
		result = strconv.Itoa(x.Status/100) + "xx"
	}
	m.proxied.WithLabelValues(x.Credential, x.Operation, result).Inc()
	m.sent.WithLabelValues(x.Credential).Add(float64(x.Sent))
	m.proxyTook.Observe(x.Took.Seconds())
}

// passChanged counts a pass that is over.
func (m *Metrics) passChanged(run jobs.Run, pass jobs.Pass) {
	if pass.Outcome == jobs.Running {
		return
	}
	m.passes.WithLabelValues(run.Job, string(pass.Outcome), string(pass.Reason)).Inc()
	if pass.Outcome == jobs.NotLaunched || pass.Reason == jobs.Died {
		return // its duration is unknown, or it never ran
	}
	m.passTook.WithLabelValues(run.Job).Observe(pass.EndedAt.Sub(pass.StartedAt).Seconds())
	m.passUnits.WithLabelValues(run.Job).Add(float64(pass.Units))
}

// LedgerCalled counts a request that the ledger decided.
func (m *Metrics) LedgerCalled(took time.Duration) { m.ledgerCalls.Observe(took.Seconds()) }

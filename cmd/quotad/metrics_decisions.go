package main

import (
	"strconv"

	"quotad/cmd/quotad/config"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/outage"
)

// The values of the label reason beside those of refusals.
const (
	granted  = "granted"
	replayed = "replayed"
)

// unknown stands for names that callers sent and nobody configured. No configured
// name has parentheses.
const unknown = "(unknown)"

// noLimit is the limit of a decision that no limit refused. To Prometheus an empty
// label is none.
const noLimit = ""

// decided counts a decision.
func (m *metrics) decided(event api.Event) {
	if event.Verb != "acquire" {
		m.corrected(event)
		return
	}
	m.acquire.Observe(event.Took.Seconds())
	r, d := event.Request, event.Decision
	debited := event.Err == nil && d.Granted() && !d.Replayed
	if meter := (*m.meters.Load())[operationName{r.Credential, r.Operation}]; debited && meter != nil {
		meter.grant(r, d)
		return
	}
	credential, known := m.keeper.Credential(r.Credential)
	if !known {
		m.decisions.WithLabelValues(unknown, noLimit, unknown, reasonOf(event)).Inc()
		return
	}
	operation := r.Operation
	if _, known := credential.Operations[operation]; !known {
		operation = unknown
	}
	m.decisions.WithLabelValues(credential.Name, d.Limit, operation, reasonOf(event)).Inc()
}

func percentLabel(percent quota.Units) string { return strconv.FormatInt(int64(percent), 10) }

// alerted counts limits that came near.
func (m *metrics) alerted(a alert) {
	if a.event == config.NearLimit {
		m.near.WithLabelValues(a.credential, a.limit.Name, percentLabel(a.percent)).Inc()
	}
}

// corrected counts a settle, release, adjust or reset. The first two name their
// credential by the grant alone.
func (m *metrics) corrected(event api.Event) {
	name := event.Request.Credential
	if event.GrantID != "" {
		name, _, _ = quota.ParseGrantID(event.GrantID)
	}
	if _, known := m.keeper.Credential(name); !known {
		name = unknown
	}
	m.corrections.WithLabelValues(name, event.Verb, reasonOf(event)).Inc()
}

// reasonOf names what was decided, or why nothing was, as the API answers it.
func reasonOf(event api.Event) string {
	err := event.Err
	switch {
	case err == nil && event.Decision.Replayed:
		return replayed
	case err == nil && event.Decision.Granted():
		return granted
	case err == nil:
		return string(event.Decision.Reason)
	default:
		return string(api.ReasonOf(err))
	}
}

// outage counts the edges of a shared ledger's outage.
func (m *metrics) outage(event outage.Event) {
	m.outageEdges.WithLabelValues(event.Credential, string(event.Kind)).Inc()
	switch event.Kind {
	case outage.Up:
		m.bookedBack.WithLabelValues(event.Credential).Add(float64(event.Units))
	case outage.Restored:
		m.restored.WithLabelValues(event.Credential).Add(float64(event.Records))
	}
}

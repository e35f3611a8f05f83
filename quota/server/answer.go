package server

import (
	"encoding/json"
	"net/http"
	"strconv"

	"quotad/quota"
	"quotad/quota/api"
)

// WriteDecision answers an acquire, settle or release. useReserve says whether the reserve was
// part of the caller's budget.
func WriteDecision(w http.ResponseWriter, d quota.Decision, useReserve bool) {
	writeDecision(w, d, decisionOf(d, useReserve), useReserve, false)
}

// writeDecision answers with a decision. If headers, a grant has the RateLimit fields, as a denial has them always.
func writeDecision(w http.ResponseWriter, d quota.Decision, body decisionBody, useReserve, headers bool) {
	if d.Denied() && d.RetryAfter > 0 {
		w.Header()["Retry-After"] = []string{strconv.FormatInt(api.Seconds(d.RetryAfter), 10)}
	}
	if d.Denied() || d.Granted() && headers {
		if policy, state := body.RateLimit(useReserve); policy != "" {
			w.Header()["RateLimit-Policy"], w.Header()["RateLimit"] = []string{policy}, []string{state}
		}
	}
	if body.Mode != "" && headers {
		w.Header().Set(api.ModeHeader, body.Mode)
	}
	if d.Granted() {
		Write(w, http.StatusOK, typeJSON, body)
	} else {
		Write(w, body.Status, typeProblem, body)
	}
}

// A decisionBody is an api.Decision that says what remains only if that is known, and of a grant that it costs nothing.
type decisionBody struct {
	api.Decision
	Remaining *int64 `json:"remaining,omitempty"`
	Units     *int64 `json:"units,omitempty"`
}

func decisionOf(d quota.Decision, useReserve bool) decisionBody {
	body := decisionBody{Decision: api.DecisionOf(d, useReserve)}
	if len(d.Limits) > 0 {
		body.Remaining = &body.Decision.Remaining
	}
	if d.Granted() {
		body.Units = &body.Decision.Units
	}
	return body
}

// refusalOf returns why there is no grant, as an error: err, or the problem that a refusal is.
func refusalOf(d quota.Decision, err error) error {
	if err == nil && !d.Granted() {
		return api.ProblemOf(d)
	}
	return err
}

// each converts a list.
func each[From, To any](list []From, convert func(From) To) []To {
	converted := make([]To, len(list))
	for i, one := range list {
		converted[i] = convert(one)
	}
	return converted
}

// WriteProblem answers with a problem.
func WriteProblem(w http.ResponseWriter, p *api.Problem) { Write(w, p.Status, typeProblem, p) }

// Write answers with the JSON of v. A 503 gets a Retry-After, unless it has one. Not to be able to
// encode v is a fault of the daemon.
func Write(w http.ResponseWriter, status int, contentType []string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot encode the answer", http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = contentType
	if status == http.StatusServiceUnavailable && w.Header()["Retry-After"] == nil {
		w.Header()["Retry-After"] = retrySoon
	}
	w.WriteHeader(status)
	w.Write(append(body, '\n')) // an error means that the caller has gone
}

package upstream

import (
	"encoding/json"
	"net/http"
)

// A refusal is an error answer.
type refusal struct {
	Status                         int
	Domain, Reason, Message, Param string
}

var (
	quotaExceeded = &refusal{
		Status: http.StatusForbidden, Domain: "youtube.quota", Reason: "quotaExceeded",
		Message: `The request cannot be completed because you have exceeded your <a href="/youtube/v3/getting-started#quota">quota</a>.`,
	}
	unregistered = &refusal{
		Status: http.StatusForbidden, Domain: "usageLimits", Reason: "dailyLimitExceededUnreg",
		Message: "Daily Limit for Unauthenticated Use Exceeded. Continued use requires signup.",
	}
)

// parameter refuses a request because of one of its parameters.
func parameter(name, reason, message string) *refusal {
	return &refusal{Status: http.StatusBadRequest, Domain: "youtube.parameter", Reason: reason, Message: message, Param: name}
}

// write answers in the documented envelope.
func (r *refusal) write(w http.ResponseWriter) {
	entry := map[string]string{"message": r.Message, "domain": r.Domain, "reason": r.Reason}
	if r.Param != "" {
		entry["location"], entry["locationType"] = r.Param, "parameter"
	}
	writeJSON(w, r.Status, map[string]any{
		"error": map[string]any{"code": r.Status, "message": r.Message, "errors": []any{entry}},
	})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // fails only if the client is gone
}

package upstream

import (
	"encoding/json"
	"net/http"
)

// A refusal is an error answer in the documented envelope.
type refusal struct {
	Status                         int
	Domain, Reason, Message, Param string
}

// Refuse answers in the documented error envelope.
func Refuse(status int, domain, reason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		refusal{Status: status, Domain: domain, Reason: reason, Message: message}.write(w)
	}
}

// MinuteLimit answers that the queries of this minute are used up.
func MinuteLimit(w http.ResponseWriter, _ *http.Request) {
	refusal{
		Status: http.StatusTooManyRequests, Domain: "global", Reason: "rateLimitExceeded",
		Message: "Quota exceeded for quota metric 'Queries' and limit 'Queries per minute' of service 'youtube.googleapis.com' for consumer 'project_number:1'.",
	}.write(w)
}

// ServerError answers that the upstream has a fault of its own.
func ServerError(w http.ResponseWriter, _ *http.Request) {
	refusal{Status: http.StatusInternalServerError, Domain: "global", Reason: "backendError", Message: "Backend Error"}.write(w)
}

// StaleToken answers that the page token is not valid any more.
func StaleToken(w http.ResponseWriter, _ *http.Request) { invalidPageToken().write(w) }

// Empty answers that there are no such videos.
func Empty(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, videoList{Kind: "youtube#videoListResponse", Items: []video{}})
}

// Drop closes the connection without an answer. It needs a real server.
func Drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func quotaExceeded() refusal {
	return refusal{
		Status: http.StatusForbidden, Domain: "youtube.quota", Reason: "quotaExceeded",
		Message: `The request cannot be completed because you have exceeded your <a href="/youtube/v3/getting-started#quota">quota</a>.`,
	}
}

func unregistered() refusal {
	return refusal{
		Status: http.StatusForbidden, Domain: "usageLimits", Reason: "dailyLimitExceededUnreg",
		Message: "Daily Limit for Unauthenticated Use Exceeded. Continued use requires signup.",
	}
}

func invalidPageToken() refusal {
	return parameter("pageToken", "invalidPageToken", "The request specifies an invalid page token.")
}

// parameter refuses a request because of one of its parameters.
func parameter(name, reason, message string) refusal {
	return refusal{Status: http.StatusBadRequest, Domain: "youtube.parameter", Reason: reason, Message: message, Param: name}
}

type errorEnvelope struct {
	Error errorBody `json:"error"`
}

type errorBody struct {
	Code    int          `json:"code"`
	Message string       `json:"message"`
	Errors  []errorEntry `json:"errors"`
}

type errorEntry struct {
	Message      string `json:"message"`
	Domain       string `json:"domain"`
	Reason       string `json:"reason"`
	Location     string `json:"location,omitempty"`
	LocationType string `json:"locationType,omitempty"`
}

func (r refusal) write(w http.ResponseWriter) {
	entry := errorEntry{Message: r.Message, Domain: r.Domain, Reason: r.Reason}
	if r.Param != "" {
		entry.Location, entry.LocationType = r.Param, "parameter"
	}
	writeJSON(w, r.Status, errorEnvelope{errorBody{Code: r.Status, Message: r.Message, Errors: []errorEntry{entry}}})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	w.WriteHeader(status)
	// This fails only if the client is gone.
	_ = json.NewEncoder(w).Encode(body)
}

package main

import (
	"encoding/json"
	"net/http"
)

// refuse answers in the documented error envelope.
func refuse(status int, domain, reason, message string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
			"code": status, "message": message, "errors": []map[string]string{{"domain": domain, "reason": reason, "message": message}},
		}})
	}
}

func minuteLimit(w http.ResponseWriter, r *http.Request) {
	refuse(http.StatusTooManyRequests, "global", "rateLimitExceeded", "Quota exceeded for quota metric 'Queries' and limit "+
		"'Queries per minute' of service 'youtube.googleapis.com' for consumer 'project_number:1'.")(w, r)
}

func serverError(w http.ResponseWriter, r *http.Request) {
	refuse(http.StatusInternalServerError, "global", "backendError", "Backend Error")(w, r)
}

func invalidPageToken(w http.ResponseWriter, r *http.Request) {
	refuse(http.StatusBadRequest, "youtube.parameter", "invalidPageToken", "The request specifies an invalid page token.")(w, r)
}

// noVideos answers that there are none of these.
func noVideos(w http.ResponseWriter, _ *http.Request) {
	_, _ = w.Write([]byte(`{"kind":"youtube#videoListResponse","items":[]}`))
}

// drop closes the connection without an answer.
func drop(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

package server

import (
	"encoding/json"
	"net/http"
	"quotad/quota/api"
)

// writeJSON answers with v. What cannot be encoded is a fault of ours.
func writeJSON(w http.ResponseWriter, status int, v any) {
	write(w, status, typeJSON, v)
}

func writeProblem(w http.ResponseWriter, p *api.Problem) {
	write(w, p.Status, typeProblem, p)
}

func write(w http.ResponseWriter, status int, contentType []string, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(w, "cannot encode the answer", http.StatusInternalServerError)
		return
	}
	w.Header()["Content-Type"] = contentType
	if status == http.StatusServiceUnavailable {
		w.Header()["Retry-After"] = retrySoon
	}
	w.WriteHeader(status)
	// An error here means that the caller went away; nobody is left to tell.
	w.Write(append(body, '\n'))
}

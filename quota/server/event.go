package server

import (
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// An Event is what became of an acquire, settle, release, adjust or reset.
type Event struct {
	Verb     string        // which of these
	Request  quota.Request // of an acquire, with names as the caller sent them; of the others the Caller and, where known, the Credential
	PID      int           // of the process that connected; 0 when not known
	GrantID  string        // that was settled or released
	Decision quota.Decision
	Err      error // why there is no decision; nil when there is one
	Took     time.Duration
}

// The results of an Event that no quota.Reason names.
const (
	Granted  = "granted"
	Replayed = "replayed" // granted before under the same request id
)

// Result names what came of it, as the API answers: Granted, Replayed, or the reason
// of the refusal.
func (e Event) Result() string {
	switch {
	case e.Err != nil:
		return string(api.ProblemFrom(e.Err).Reason)
	case !e.Decision.Granted():
		return string(e.Decision.Reason)
	case e.Decision.Replayed:
		return Replayed
	default:
		return Granted
	}
}

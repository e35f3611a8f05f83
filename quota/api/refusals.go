package api

import "time"

// Refusals is the body of GET /v1/refusals: the acquires that were refused in the last day, those
// of one kind counted together for a quarter of an hour.
type Refusals struct {
	Version  int       `json:"version,omitempty"` // of the file that keeps them; absent of an answer
	Since    time.Time `json:"since"`             // since when the daemon remembers
	Refusals []Refusal `json:"refusals"`          // the latest first
}

// Refusal is what one caller was refused for one reason, of one operation.
type Refusal struct {
	At    time.Time `json:"at"`    // the latest time
	Since time.Time `json:"since"` // the first time
	Times int64     `json:"times"`

	Credential string `json:"credential"`
	Operation  string `json:"operation"`
	Count      int64  `json:"count"` // calls, at the latest time
	By         string `json:"by"`    // the job, "remote/" and a remote caller, or "@" and a uid
	Region     string `json:"region,omitempty"`

	Units   int64      `json:"units,omitempty"` // that the calls cost
	Reason  string     `json:"reason"`
	Limit   string     `json:"limit,omitempty"` // that refused
	Detail  string     `json:"detail,omitempty"`
	RetryAt *time.Time `json:"retry_at,omitempty"` // when they were to fit
}

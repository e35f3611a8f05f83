package api

import "time"

// Remote is the body of GET /v1/remote: the callers on other hosts. What is counted is so since
// the daemon started; what is spent stands in the ledger.
type Remote struct {
	Address     string         `json:"address,omitempty"` // on which they are answered; empty: nowhere
	Certificate *Certificate   `json:"certificate,omitempty"`
	Since       time.Time      `json:"since"`
	WrongTokens uint64         `json:"wrong_tokens"` // requests without a token that is known
	Connections int            `json:"connections"`
	TurnedAway  uint64         `json:"turned_away"` // connections, since there were too many
	Handshakes  uint64         `json:"failed_handshakes"`
	Callers     []RemoteCaller `json:"callers"`
}

// A Certificate is the one that the daemon shows.
type Certificate struct {
	NotBefore time.Time `json:"not_before"`
	NotAfter  time.Time `json:"not_after"`
	Names     []string  `json:"names"`
	Error     string    `json:"error,omitempty"` // why the files are not what is shown
}

// A RemoteCaller is a caller on another host.
type RemoteCaller struct {
	Name        string     `json:"name"`
	Credentials []string   `json:"credentials"`
	Operations  []string   `json:"operations,omitempty"` // absent: all of those credentials
	Subjects    []string   `json:"subjects,omitempty"`   // groups of clients
	Tokens      int        `json:"tokens"`               // that are valid now
	LastSeen    *time.Time `json:"last_seen,omitempty"`
	From        string     `json:"from,omitempty"` // the address that it came from last
	Granted     uint64     `json:"granted"`
	Refused     uint64     `json:"refused"`
	Forbidden   uint64     `json:"forbidden"` // requests that it may not make
	Spent       []Spent    `json:"spent"`
}

// Spent is what a caller has spent of a credential, as it counts in the windows of its limits now.
type Spent struct {
	Credential string `json:"credential"`
	Calls      int64  `json:"calls"`
	Units      int64  `json:"units"`
}

package api

import (
	"context"
	"net/http"
	"time"
)

// Reloaded is the body of the answer to POST /v1/reload.
type Reloaded struct {
	File    string   `json:"file"`
	Changes []Change `json:"changes"` // none: the file means what it meant before
}

// A Change is a difference between two configurations.
type Change struct {
	Key  string     `json:"key"` // "credentials.youtube.limits.daily", "jobs.trending.regions"
	Kind ChangeKind `json:"kind"`
	Was  string     `json:"was,omitempty"` // of what has changed, unless it could be a secret
	Is   string     `json:"is,omitempty"`
}

// A ChangeKind says what has become of a key.
type ChangeKind string

// The kinds of changes.
const (
	Added   ChangeKind = "added"
	Removed ChangeKind = "removed"
	Changed ChangeKind = "changed"
)

// Configuration tells which configuration is in force: the member "config" of
// GET /v1/status.
type Configuration struct {
	File     string    `json:"file"`
	ReadAt   time.Time `json:"read_at"`
	FailedAt time.Time `json:"failed_at,omitzero"` // of the last reload, if it failed: what was read before goes on
	Error    string    `json:"error,omitempty"`    // why it failed, a line for each error
}

// ReloadRoute returns the route by which an operator has the daemon read its
// configuration again. The error of reload is the caller's to read: nothing has
// changed then.
func ReloadRoute(reload func(by string) (Reloaded, error)) Route {
	return Route{
		Method: http.MethodPost, Path: "/v1/reload", Access: Operate, Does: "read the configuration again",
		Handle: Handle(func(_ context.Context, c *Call, _ None) (Reloaded, error) {
			done, err := reload(c.Caller.By())
			if err != nil {
				return Reloaded{}, NewProblem(Conflict, "%v", err)
			}
			return done, nil
		}),
	}
}

package slidinglog

import "context"

// A Script is one that an engine runs.
type Script int

// The scripts of package lua.
const (
	Acquire Script = iota
	Correct
	Walk
	Restore
	Mirror
	Hosts
)

// AllHosts is the name under which an engine keeps the hash of the daemons, where else a credential stands. No
// credential has it.
const AllHosts = ":hosts"

// An Engine runs the scripts, one at a time for each credential: Redis, or a Memory. It is safe for concurrent use.
type Engine interface {
	// Run runs a script on the log of a credential. Its errors wrap quota.ErrUnavailable if nothing was done, and
	// quota.ErrOutcomeUnknown if that is not known; no call is repeated. A reply has int64 and string.
	Run(ctx context.Context, credential string, s Script, args []any) ([]any, error)
	// Shared reports whether other hosts may use the same logs.
	Shared() bool
	// Health returns the settings under which the logs could be lost, and why the engine cannot be used.
	Health(ctx context.Context) (warnings []string, err error)
	Close() error
}

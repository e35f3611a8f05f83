package jobs

import (
	"context"
	"time"

	"quotad/quota"
)

// A Config is what a Runner is made of. Every field is needed, unless its
// comment says what its zero value means.
type Config struct {
	Jobs     []*Job // valid ones
	Gate     Gate
	Launcher Launcher
	Tokens   *Tokens
	Dir      string // where the logs of the jobs are kept; nothing else writes to it
	Socket   string // where passes acquire
	// Proxy returns the address by which the pass of a run token calls the upstream of a
	// credential; empty where there is none. Nil: there is none of any.
	Proxy   func(credential, token string) string
	Environ []string // the daemon's own environment; passes get an allow-list of it. Nil: none

	// OnEvent is called with each event, see RunChanged and the others. A job's next step
	// waits for it, so it returns soon. Many goroutines call it at the same time, but only
	// one at a time about one pass. Nil: events are dropped.
	OnEvent func(event any)

	// EndLeftover ends a process that a killed daemon left running, with its cgroup or
	// process group: TERM, and KILL after the grace. It leaves alone a process that
	// only has the same number. It returns false if there was nothing to end.
	EndLeftover func(ctx context.Context, id Identity, grace time.Duration) (ended bool, err error)

	Now func() time.Time // the wall clock

	Name string // of this host, by which jobs name it
	// Hosts returns the daemons on the ledger when it named them last, and how long ago that was; known is false
	// if it has not yet. Nil: this host is alone.
	Hosts func() (list []Daemon, age time.Duration, known bool)
}

// A Gate decides whether calls could be afforded; a quota.Service is one.
type Gate interface {
	// Peek decides what would become of a job's calls, after those that others are about to make,
	// with or without the reserve. It moves nothing. An error means that this is unknown.
	Peek(ctx context.Context, credential string, own quota.Calls, others []quota.Calls, useReserve bool) (quota.Decision, error)
	// Cost returns what calls cost, as a run counts them; 0 if unknown.
	Cost(credential string, calls quota.Calls) quota.Units
	// Spent returns what a job was granted since an instant, by region.
	Spent(ctx context.Context, credential, job string, since time.Time) (map[string]quota.Spent, error)
}

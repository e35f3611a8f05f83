package quota

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// A Ledger keeps the log of every credential and decides about it. Any number of goroutines may call it at the same
// time. Each call brings the credential with its limits: a changed limit applies at once to what the log holds.
//
// A ledger has a clock of its own, which never runs backwards, and ticks in microseconds. A
// debit made at t counts in a sliding window of length w until t+w, exclusive.
type Ledger interface {
	// Acquire decides an ask of credential c. A refusal moves nothing; a grant debits every charge, or none; on
	// return a grant is as durable as the ledger makes anything.
	//
	// After ErrUnavailable nothing was debited. After ErrOutcomeUnknown it may or may not have been granted: asking
	// again with the same request id finds out, and debits at most once.
	Acquire(ctx context.Context, c *Credential, ask Ask) (Decision, error)
	// Peek returns what Acquire would decide about charges, those of several operations together, of a caller with or
	// without the reserve. It moves nothing. Its grants have no GrantID.
	Peek(ctx context.Context, c *Credential, operations []string, charges []Charge, useReserve bool) (Decision, error)

	// Settle sets a grant to what was really spent, 0 to release it. What it frees is at most the grant's own debit,
	// and expires with it; what it adds is booked even past the limit. Of two settlements the one answered last
	// counts. The reason is UnknownGrant when the log does not hold the grant any more, or never did, and
	// SettledTooHigh for what a Bounded settlement may not add. Like the other corrections it leaves an entry in the
	// log that names its caller.
	Settle(ctx context.Context, c *Credential, s Settlement) (Decision, error)
	// Book counts units that were spent elsewhere in a limit of c, even past it. The decision has an id, which can
	// be settled.
	Book(ctx context.Context, c *Credential, b Booking) (Decision, error)
	// ChangeLimit closes or opens a limit of c on all hosts that share the log. What counts against a closed limit is
	// denied LimitClosed, whatever its window holds. Changed is false, and nothing is written, where there is nothing
	// to end, where Until has passed, or where the limit is closed until later.
	ChangeLimit(ctx context.Context, c *Credential, k Change) (changed bool, err error)
	// Reset has every limit of a credential start from zero, and open.
	Reset(ctx context.Context, c *Credential, by Caller, note string) error

	// Usage returns the state of every limit of c, in c's order. Like the other
	// readers it changes nothing, and does not delay decisions for long.
	Usage(ctx context.Context, c *Credential) (Usage, error)
	// Log returns one page of the log of c.
	Log(ctx context.Context, c *Credential, q LogQuery) (LogPage, error)
	// Entry returns one entry of the log of c; ok is false where the log does not hold it.
	Entry(ctx context.Context, c *Credential, id ID) (e Entry, ok bool, err error)
	// Health returns the state of the ledger. It does not fail: what is wrong is its answer.
	Health(ctx context.Context) Health

	io.Closer
}

// Errors of a Ledger, to be found by errors.Is.
var (
	// ErrUnavailable: the ledger cannot decide, and nothing was debited.
	ErrUnavailable = errors.New("ledger unavailable")
	// ErrOutcomeUnknown: the ledger was reached but its answer was not.
	ErrOutcomeUnknown = errors.New("ledger did not answer, the outcome is unknown")
	// ErrLost is an ErrUnavailable: the log lacks entries that are known to have been written.
	ErrLost = fmt.Errorf("%w: it lost entries", ErrUnavailable)
	// ErrRecovering is an ErrUnavailable: the log was lost, and grants nothing until
	// every daemon has had time to write back what it knows.
	ErrRecovering = fmt.Errorf("%w: it recovers from a loss", ErrUnavailable)
	// ErrUnusable is an ErrUnavailable: the ledger answers, but it is not what it should be, until a person
	// changes that. This is no outage: nothing is granted without the ledger.
	ErrUnusable = fmt.Errorf("%w", ErrUnavailable)
)

// An Ask is a request with what it costs.
type Ask struct {
	Request
	Charges []Charge // in the order of the credential's limits; at least one
}

// A Settlement says what a grant really cost.
type Settlement struct {
	Grant ID
	// Units replaces the greatest of the grant's charges. A smaller charge in
	// another limit shrinks to it where it is above, and never grows.
	Units  Units
	Caller Caller
	// Bounded refuses what a caller may not add that is no operator. A call costs at most what was
	// granted for it, or what an acquire, with or without the reserve, could be granted in an
	// empty window. A remote caller adds at most what the limits have left for it.
	Bounded, UseReserve bool
}

// A Booking counts units against one limit outside any operation.
type Booking struct {
	Limit  string `json:"limit"`
	Units  Units  `json:"units"` // spent elsewhere, 1 … MaxUnits
	Caller Caller `json:"-"`
	Note   string `json:"note,omitempty"` // why, for the log
}

// Usage is the state of a credential's limits at one instant of the ledger's clock.
type Usage struct {
	Now time.Time
	// AsOf is when the log was read last, where it cannot be read now; zero where it can.
	AsOf time.Time
	// GrantedSince is what this host has granted since then.
	GrantedSince Units
	Limits       []LimitState
}

// A LogQuery selects a page of a log.
type LogQuery struct {
	After  time.Time // continue after the entry of this time; zero: from the beginning
	Since  time.Time // nothing older; zero: the whole log
	Newest bool      // newest first; After then continues towards older entries
	Max    int       // page size, 1 … MaxLogPage
}

// MaxLogPage bounds one page of the log, and with it the time one read takes.
const MaxLogPage = 1000

// A LogPage is a page of a log. Next is the LogQuery.After of the following page, zero when this was the last one.
type LogPage struct {
	Entries []Entry
	Next    time.Time
}

// Health is what an operator should know about the ledger.
type Health struct {
	Backend  string   // "embedded" or "redis"
	State    string   // "ok", or what is wrong in a few words
	Warnings []string // settings under which grants could be lost, and what is missing in the log
	Hosts    []string // which other hosts count otherwise
	Clock    []string // logs that are ahead of the clock
	// Unwritten is what cannot be written, though calls are granted still.
	Unwritten []string
	// Recovering are the credentials whose log was lost, and is being put back, or is new.
	Recovering []string
	// Reachable is false while the ledger cannot decide.
	Reachable bool
}

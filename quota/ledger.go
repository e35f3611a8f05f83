package quota

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

// A Ledger keeps the log of every credential and decides about it. Any number
// of goroutines may call it at the same time. Which limits a credential has
// comes with each call: a changed limit applies at once to what the log holds.
//
// Its clock is its own; it never runs backwards, and ticks in milliseconds. A
// debit made at t counts in a sliding window of length w until t+w, exclusive.
type Ledger interface {
	Decider
	Corrector
	Reader
	io.Closer
}

// A Decider debits, or refuses to.
type Decider interface {
	// Acquire decides the asks one after the other, all of credential c, and
	// returns one decision for each. A refusal moves nothing; a grant debits
	// every charge, or none; on return a grant is as durable as the ledger
	// makes anything.
	//
	// After ErrUnavailable nothing was debited. After ErrOutcomeUnknown each ask
	// may or may not have been granted: asking again with the same request id
	// tells, and debits at most once.
	Acquire(ctx context.Context, c *Credential, asks []Ask) ([]Decision, error)
}

// A Corrector changes what has been debited. Each correction leaves a trace in
// the log that names its caller.
type Corrector interface {
	// Settle sets a grant to what was really spent, 0 to release it. What it
	// gives back is at most the grant's own debit, and expires with it; what it
	// adds is booked even past the limit. Settling to the same amount again
	// changes nothing. The reason is UnknownGrant when the debit is not in the
	// window of any limit any more, or never was.
	Settle(ctx context.Context, c *Credential, s Settlement) (Decision, error)
	// Adjust books units that were spent, or given back, elsewhere.
	Adjust(ctx context.Context, c *Credential, a Adjustment) (Decision, error)
	// Reset empties the log of a credential: every limit starts from zero.
	Reset(ctx context.Context, c *Credential, by Caller, note string) error
}

// A Reader reads without changing what it reads, and without keeping deciders
// waiting for long.
type Reader interface {
	// Usage returns the state of every limit of c, in c's order.
	Usage(ctx context.Context, c *Credential) (Usage, error)
	// Log returns one page of the log of c.
	Log(ctx context.Context, c *Credential, q LogQuery) (LogPage, error)
	// Health tells how the ledger is. It does not fail: what is wrong is its answer.
	Health(ctx context.Context) Health
}

// Errors of a Ledger, to be found by errors.Is.
var (
	// ErrUnavailable: the ledger could not be reached, and nothing was debited.
	ErrUnavailable = errors.New("ledger unavailable")
	// ErrOutcomeUnknown: the ledger was reached but its answer was not.
	ErrOutcomeUnknown = errors.New("ledger did not answer, the outcome is unknown")
	// ErrLost: the log lacks entries that are known to have been written. Nothing
	// was debited.
	ErrLost = errors.New("ledger lost entries")
	// ErrResting: the log was lost, and grants nothing until every daemon has had
	// time to put back what it knows. Nothing was debited.
	ErrResting = errors.New("ledger rests after a loss")
)

// A Restorer is a ledger that others can lose: a server that is flushed, evicts,
// or fails over to an older copy. It answers ErrLost until Restore was called, and
// then ErrResting for a while.
type Restorer interface {
	Ledger
	// Expect tells what is known of a credential's log, before its first use.
	Expect(credential string, m Mark)
	// Known returns what is known now.
	Known(credential string) Mark
	// Check returns nil when the credential could be decided about now.
	Check(ctx context.Context, c *Credential) error
	// Restore puts back the records that the log does not have; those that have
	// left every window stay out. Any number of daemons may do so at once, and
	// again. For the rest that follows nothing is granted.
	Restore(ctx context.Context, c *Credential, records []Record, rest time.Duration) error
	// BookBack puts what was granted without the ledger into the log that is known,
	// as Restore would; ErrLost if that is gone.
	BookBack(ctx context.Context, c *Credential, records []Record) error
	// Now is the ledger's time, as far as it is known without asking.
	Now() time.Time
}

// A Mark is what a daemon knows of a log: which one it is, and how far it goes.
type Mark struct {
	Epoch  string // drawn when the log was begun; empty if unknown
	Newest ID
}

// An Ask is a request with what it costs.
type Ask struct {
	Request
	Charges []Charge // in the order of the credential's limits; at least one
	// Peek asks what the decision would be and moves nothing. A peek that would
	// be granted has no GrantID. Its charges may be those of several Operations
	// together, which then stand here and not in the request.
	Peek       bool
	Operations []string
}

// A Settlement says what a grant really cost.
type Settlement struct {
	Grant ID
	// Units replaces the greatest of the grant's charges. A smaller charge in
	// another limit shrinks to it where it is above, and never grows.
	Units  Units
	Caller Caller
}

// An Adjustment books units against one limit outside any operation.
type Adjustment struct {
	Limit string
	// Units spent elsewhere; below zero, what was counted but not spent. The
	// oldest debits are given back first, and used never falls below zero.
	Units  int64
	Caller Caller
	Note   string // why, for the log
}

// Usage is the state of a credential's limits at one instant of the ledger's clock.
type Usage struct {
	Now    time.Time
	Limits []LimitState
}

// An Entry is one line of a credential's log.
type Entry struct {
	ID        ID
	At        time.Time // when it counts from; the ID's time unless it was booked back later
	Operation string    // "" for a correction
	Count     Units
	By        string // the job, or "@" and the uid of a caller outside a pass
	Region    string
	Charges   []EntryCharge
	Note      string // of a correction: what was done, and why
}

// An EntryCharge is what an entry counts in one limit.
type EntryCharge struct {
	Limit string
	Units Units // as debited
	Now   Units // after settling
}

// A LogQuery selects a page of a log.
type LogQuery struct {
	After  ID        // continue behind this entry; zero: from the beginning
	Since  time.Time // nothing older; zero: all that is kept
	Newest bool      // newest first; After then continues towards older entries
	Most   int       // page size, 1 … MaxLogPage
}

// MaxLogPage bounds one page of the log, and with it the time one read takes.
const MaxLogPage = 1000

// A LogPage is a page of a log. Next is the LogQuery.After of the following
// page, zero when this was the last one.
type LogPage struct {
	Entries []Entry
	Next    ID
}

// Health is what an operator should know about the ledger.
type Health struct {
	Backend  string   // "embedded" or "redis"
	State    string   // "ok", or what is wrong in a few words
	Warnings []string // settings under which grants could be lost
	// Reachable is false while the ledger cannot decide.
	Reachable bool
}

// An ID names an entry of a log: the ledger's clock in milliseconds since the
// Unix epoch, and a number that tells entries of one millisecond apart. IDs of
// one log only grow.
type ID struct {
	Ms  int64
	Seq int64
}

// IsZero reports whether the id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// Time is the instant of the ledger's clock at which the entry was written.
func (id ID) Time() time.Time { return time.UnixMilli(id.Ms).UTC() }

// Less orders ids by time.
func (id ID) Less(other ID) bool { return id.Compare(other) < 0 }

// Compare is below zero where an id is older than another one, 0 where it is the same.
func (id ID) Compare(other ID) int {
	return cmp.Or(cmp.Compare(id.Ms, other.Ms), cmp.Compare(id.Seq, other.Seq))
}

// String returns "1795260896123-0".
func (id ID) String() string {
	return strconv.FormatInt(id.Ms, 10) + "-" + strconv.FormatInt(id.Seq, 10)
}

// ParseID reads what String wrote.
func ParseID(s string) (ID, error) {
	ms, seq, ok := strings.Cut(s, "-")
	var id ID
	var err1, err2 error
	id.Ms, err1 = strconv.ParseInt(ms, 10, 64)
	id.Seq, err2 = strconv.ParseInt(seq, 10, 64)
	if !ok || err1 != nil || err2 != nil || id.Ms < 0 || id.Seq < 0 || id.String() != s {
		return ID{}, fmt.Errorf("not an entry id: %.40q", s)
	}
	return id, nil
}

// GrantID is the public name of the grant that wrote entry id: it carries its
// credential, so that whoever settles needs nothing else.
func GrantID(credential string, id ID) string { return credential + ":" + id.String() }

// ParseGrantID takes a grant id apart.
func ParseGrantID(s string) (credential string, id ID, err error) {
	credential, rest, ok := strings.Cut(s, ":")
	if ok && CheckName(credential) == nil {
		if id, err = ParseID(rest); err == nil {
			return credential, id, nil
		}
	}
	return "", ID{}, fmt.Errorf("not a grant id: %.80q", s)
}

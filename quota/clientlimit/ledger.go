package clientlimit

import (
	"context"
	"fmt"

	"quotad/quota"
)

// A Ledger keeps the records of subjects. Any number of goroutines may call it at the
// same time. Which limits the clients have comes with each call: changed units apply at
// once to the records, and a changed window counts what they hold. Hosts whose windows differ
// keep for each other what those count. Another algorithm starts with empty records.
//
// The ledger has its own clock, in milliseconds; if it steps back, nothing is free earlier. A
// record expires when nothing in it can count any more.
type Ledger interface {
	// DecideClients decides the asks one after the other and returns one decision for
	// each. A denial moves nothing; a grant debits every limit, or none. Decisions hold the
	// state of every limit, and no grant id.
	//
	// The error is a quota.ErrUnavailable where nothing was debited, and a
	// quota.ErrOutcomeUnknown where each ask may or may not have been. It is a quota.ErrContended
	// if others decided about the same subjects each time, and ErrMoved if the subject's key is
	// out of date. If other asks of the call were decided, the error of an ask is its decision's Err.
	DecideClients(ctx context.Context, c *Clients, asks []Ask) ([]quota.Decision, error)
	// ClientUsage returns the state of every limit for one subject, and changes nothing. Of an
	// ask it needs no units.
	ClientUsage(ctx context.Context, c *Clients, of Ask) (quota.Usage, error)
	// ResetClient deletes what a subject has used. Of an ask it needs no units.
	ResetClient(ctx context.Context, c *Clients, of Ask) error
	// ReadHead returns what the hosts that share the ledger have in common, empty if there is
	// nothing, and the time of the ledger's clock.
	ReadHead(ctx context.Context) (head []byte, clockMs int64, err error)
	// SwapHead replaces the head if it is still the one that was read at that time, and keeps it
	// until endsMs, at least.
	SwapHead(ctx context.Context, read []byte, readMs int64, next []byte, endsMs int64) (swapped bool, err error)
}

// An Ask is what one subject asks for.
type Ask struct {
	Subject Key
	Units   quota.Units // in every limit, at least 1
	Rotation
}

// A Rotation says where to find a subject whose key changes. The zero value is a key that does not.
//
// If Subject has no record, that of Former counts. A grant writes it to Subject, and so the record
// moves. Until SealMs a host may not know Subject yet. Therefore the record of Former is sealed
// before one of Subject is written, even if there is none: a host that finds the seal moves to
// Subject, or gets ErrMoved and reads the head again.
type Rotation struct {
	Former Key   // empty: none
	SealMs int64 // by the ledger's clock
	// UntilMs is when these keys may have changed again, by the ledger's clock; 0: never.
	UntilMs int64
}

// ErrMoved is the error of an ask whose subject has another key by now. Nothing was debited.
var ErrMoved = fmt.Errorf("%w: the keys of subjects have changed", quota.ErrContended)

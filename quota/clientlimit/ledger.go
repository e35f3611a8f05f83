package clientlimit

import (
	"context"

	"quotad/quota"
)

// A Ledger keeps the records of subjects. Any number of goroutines may call it at the
// same time. Which limits the clients have comes with each call: changed units apply at
// once to what the records hold, and a changed window counts what they know. Hosts whose
// windows differ keep for each other what those count. Another algorithm begins anew.
//
// Its clock is its own, it ticks in milliseconds, and where it steps back nothing is free
// earlier. A record goes by itself when nothing in it can count any more.
type Ledger interface {
	// DecideClients decides the asks one after the other and returns one decision for
	// each. A denial moves nothing; a grant debits every limit, or none. Decisions hold the
	// state of every limit, and no grant id.
	//
	// The error is a quota.ErrUnavailable where nothing was debited, and a
	// quota.ErrOutcomeUnknown where each ask may or may not have been; a quota.ErrContended where
	// others decided about the same subjects each time. Where others of the
	// same call were decided, the error of an ask is its decision's Err.
	DecideClients(ctx context.Context, c *Clients, asks []Ask) ([]quota.Decision, error)
	// ClientUsage returns the state of every limit for one subject, and changes nothing.
	ClientUsage(ctx context.Context, c *Clients, subject Key) (quota.Usage, error)
	// ResetClient has a subject begin anew.
	ResetClient(ctx context.Context, c *Clients, subject Key) error
	// ClientSecret returns the secret by which subjects are hashed, of SecretSize bytes,
	// the same for all who share the ledger. It is drawn when there is none.
	ClientSecret(ctx context.Context) ([]byte, error)
}

// An Ask is what one subject asks for.
type Ask struct {
	Subject Key
	Units   quota.Units // in every limit, at least 1
}

// Package outage keeps deciding while a shared ledger cannot: it refuses at
// once, or grants a little from a local journal and books it back afterwards;
// and it puts back into a ledger that lost its log what the journal knows.
package outage

import (
	"slices"
	"time"

	"quotad/quota"
)

// A Policy says what becomes of a credential's operations during an outage.
type Policy struct {
	// Open operations are granted from the journal; all others are refused.
	Open map[string]bool
	// Units is the most that open operations may cost, per outage and host.
	Units quota.Units
}

// opens tells whether all of the operations are open.
func (p Policy) opens(operations ...string) bool {
	return !slices.ContainsFunc(operations, func(operation string) bool { return !p.Open[operation] })
}

// An Event is an edge in the life of a credential's ledger, to be logged.
type Event struct {
	Credential string
	Kind       Kind
	Err        error         // of Down and Lost: why
	Took       time.Duration // of Up: how long it was down
	Units      quota.Units   // of Up: granted meanwhile, and booked back
	Records    int           // of Restored: put back, unless they were there
}

// A Kind of event.
type Kind string

// The kinds of events.
const (
	Down     Kind = "down"     // the ledger cannot be reached
	Lost     Kind = "lost"     // it can, but lacks entries
	Restored Kind = "restored" // the journal's records were put back
	Up       Kind = "up"       // it decides again
)

package quota

import (
	"fmt"
	"slices"
	"time"
)

// A Reason says why a decision is not a grant. The text is part of the API.
type Reason string

// The reasons for a refusal.
const (
	LimitExceeded     Reason = "limit_exceeded"      // not now; RetryAt says when
	LimitClosed       Reason = "limit_closed"        // not now, because the upstream or an operator says so; RetryAt says when
	CostExceedsLimit  Reason = "cost_exceeds_limit"  // never: more than units less reserve
	UnknownCredential Reason = "unknown_credential"  // not configured
	UnknownClients    Reason = "unknown_clients"     // not configured
	UnknownLimit      Reason = "not_found"           // the credential has no such limit; the API says it of any resource
	UnknownOperation  Reason = "unknown_operation"   // not listed for the credential, or the clients
	RequestIDConflict Reason = "request_id_conflict" // the id was granted with other arguments
	BadRequest        Reason = "bad_request"         // malformed; Detail says how
	Forbidden         Reason = "forbidden"           // the caller may not do that
	UnknownGrant      Reason = "unknown_grant"       // no such grant in the window any more
	SettledTooHigh    Reason = "conflict"            // a settle to more than its caller may; the API says it of any resource
)

// A Decision answers a request. Either it is a grant (Reason is empty, GrantID
// is set if it costs anything, the units are debited) or a refusal, and then nothing has moved.
type Decision struct {
	Reason Reason
	Detail string // of a refusal: a sentence for people
	Hint   string // the cure of a refusal, where it is known

	GrantID  string // empty of a call that costs nothing
	Replayed bool   // the request id had been granted before; nothing new was debited
	Raised   bool   // of a settle: the grant counts more than before
	Outage   bool   // granted by this host alone while the ledger could not be reached

	// Would names the limits that only observe and would have refused the grant.
	Would []string
	// Units is what the request costs; where it costs different amounts in different limits, the greatest of them.
	Units Units
	// Now is when it was decided, by the ledger's clock; zero where that is not needed.
	Now time.Time
	// Limits holds the state of every limit the request counts against, after
	// this decision. Empty when the ledger was not asked.
	Limits []LimitState

	// Of LimitExceeded, LimitClosed and CostExceedsLimit: the limit that refuses the longest;
	// of LimitClosed, of those that are closed.
	Limit string
	// Of LimitExceeded and LimitClosed: when this request would be granted if nothing else
	// happened, by the ledger's clock, and how long that is from now; a whole
	// number of milliseconds, at least one; zero where Bearer.Answer has it so.
	RetryAt    time.Time
	RetryAfter time.Duration
}

// Granted reports whether the decision is a grant.
func (d Decision) Granted() bool { return d.Reason == "" }

// Denied reports whether the decision is a refusal that time alone ends, at RetryAt.
func (d Decision) Denied() bool { return d.Reason == LimitExceeded || d.Reason == LimitClosed }

// Detailed returns a denial with its sentence for people: what has no room in which limit, and what
// that has left for a caller with or without the reserve. RetryAt is not part of it: each reader
// writes that in a time zone of their own. Other decisions stay as they are.
func (d Decision) Detailed(useReserve bool) Decision {
	switch l := d.State(); {
	case !d.Denied() || l.Name == "":
	case d.Reason == LimitClosed:
		d.Detail = fmt.Sprintf("limit %s is closed: %s", l.Name, l.Closed.Says)
	default:
		d.Detail = fmt.Sprintf("no room for %s in limit %s, which has %s left", l.Cost.Text(), l.Name, Thousands(l.Spendable(useReserve)))
	}
	return d
}

// State returns the state of the decision's Limit; zero where there is none, or it is not known.
func (d Decision) State() LimitState {
	for _, l := range d.Limits {
		if l.Name == d.Limit {
			return l
		}
	}
	return LimitState{}
}

// NeverFits refuses units that a limit has no room for even where it is empty.
func NeverFits(units Units, limit string, budget Units) Decision {
	d := refuse(CostExceedsLimit, fmt.Sprintf("%s can never fit limit %s of %s", units.Text(), limit, budget.Text()))
	d.Limit, d.Units, d.Hint = limit, units, "waiting does not help: ask for less at once"
	return d
}

// Remaining is what ordinary callers may still spend: the smallest over the limits
// involved that refuse, or over all of them if none does. It is 0 when no limit is known.
func (d Decision) Remaining() Units {
	if len(d.Limits) == 0 {
		return 0
	}
	remaining, none := MaxUnits, !slices.ContainsFunc(d.Limits, func(l LimitState) bool { return !l.DryRun })
	for _, limit := range d.Limits {
		if none || !limit.DryRun {
			remaining = min(remaining, limit.Remaining())
		}
	}
	return remaining
}

// Overspent returns the first of some limits that refuses and holds more than a caller with or
// without the reserve may spend, and by how much; 0: none does.
func Overspent(limits []LimitState, useReserve bool) (limit string, by Units) {
	for _, l := range limits {
		if by = l.Used - l.Budget(useReserve); !l.DryRun && by > 0 {
			return l.Name, by
		}
	}
	return "", 0
}

// A Shortage is a limit that a request does not fit.
type Shortage struct {
	Limit   string `json:"limit"`
	Missing Units  `json:"missing"` // by how much the request does not fit; 0 where the limit is closed
	Closed  Closed `json:"closed,omitzero"`
}

// WouldDeny returns why a grant would have been a denial if all limits were enforced, of a
// caller with or without the reserve.
func (d Decision) WouldDeny(useReserve bool) []Shortage {
	if !d.Granted() || d.Replayed {
		return nil
	}
	return d.short(useReserve, true)
}

// Short returns the limits that a request does not fit which was not granted.
func (d Decision) Short(useReserve bool) []Shortage { return d.short(useReserve, false) }

// short returns the limits that the request does not fit: of those that only observe, or of the others.
func (d Decision) short(useReserve, observing bool) (all []Shortage) {
	for _, s := range d.Limits {
		missing := s.Used - s.Budget(useReserve)
		if d.GrantID == "" { // nothing was debited
			missing += s.Cost
		}
		if s.DryRun == observing && (missing > 0 || !s.Closed.IsZero() || slices.Contains(d.Would, s.Name)) {
			all = append(all, Shortage{Limit: s.Name, Missing: max(0, missing), Closed: s.Closed})
		}
	}
	return all
}

// Fits returns how many calls would be granted now, of the kind of which a dry run asked for count.
func (d Decision) Fits(count Units, useReserve bool) Units {
	if len(d.Limits) == 0 { // granted alone during an outage, or free; or it never fits
		if d.Granted() {
			return count
		}
		return 0
	}
	fits := MaxUnits
	for _, s := range d.Limits {
		if !s.DryRun {
			fits = min(fits, s.Spendable(useReserve)/(s.Cost/count))
		}
	}
	return fits
}

// A LimitState is a limit with what its window holds at an instant of the ledger's clock.
type LimitState struct {
	Limit
	Used Units
	Cost Units // what the decided request costs in this limit; 0 outside decisions
	// NextAt is when the next debit leaves the window, and NextUnits how many units that
	// frees. Zero when the window is empty, or where that is not needed.
	NextAt    time.Time
	NextUnits Units
	Closed    Closed // zero while the limit is open
}

// Remaining is what ordinary callers may still spend by this limit: units less reserve
// less used, never below zero; nothing while it is closed.
func (s LimitState) Remaining() Units { return s.Spendable(false) }

// Spendable is what a caller with or without the reserve may still spend by this limit, never
// below zero; nothing while it is closed.
func (s LimitState) Spendable(useReserve bool) Units {
	if !s.Closed.IsZero() {
		return 0
	}
	return max(0, s.Budget(useReserve)-s.Used)
}

// Conflict refuses a request id that was granted for other arguments.
func Conflict(operation string, count Units) Decision {
	return refuse(RequestIDConflict, fmt.Sprintf("this request id was granted %d × %s; a new upstream call takes a new id", count, operation))
}

// Gone refuses to correct a grant that is in no window any more.
func Gone(grantID string) Decision {
	return refuse(UnknownGrant, fmt.Sprintf("grant %s is in no window of its credential any more, or never existed", grantID))
}

// A RefusedError is a refusal as the answer to a question that no Decision answers.
type RefusedError struct{ Decision }

func (e *RefusedError) Error() string { return e.Detail }

func refuse(reason Reason, detail string) Decision {
	return Decision{Reason: reason, Detail: detail}
}

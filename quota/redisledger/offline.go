package redisledger

import (
	"fmt"
	"slices"
	"sort"
	"time"

	"quotad/quota"
)

// A Policy says what becomes of a credential's operations while Redis cannot be reached.
type Policy struct {
	// Open operations are granted from the journal; all others are refused.
	Open map[string]bool
	// Units is the most that open operations may cost in any window, on this host.
	Units quota.Units
}

// An Event is an edge in the life of a credential's ledger, to be logged.
type Event struct {
	Credential string
	Kind       Kind
	Err        error         // of Down and Lost: why
	Took       time.Duration // of Up: how long it was down
	Units      quota.Units   // of Up: granted meanwhile, and booked
	Records    int           // of Restored: entries staged, unless they were there
}

// A Kind of event.
type Kind string

// The kinds of events.
const (
	Down     Kind = "down"     // the ledger cannot be reached
	Lost     Kind = "lost"     // it can, but lacks entries
	Restored Kind = "restored" // the journal's entries were put back
	Up       Kind = "up"       // it decides again
)

// An offlineGrant is a grant that this daemon decided on its own.
type offlineGrant struct {
	id        quota.ID
	operation string
	count     quota.Units
	digest    string // of its request key, or -
	text      string // the entry
	charges   []quota.Charge
	units     quota.Units // the greatest charge
	settledTo string      // units, or - if it was not settled
	at        time.Time   // by the monotonic clock; zero if an earlier process granted it
	written   bool        // the journal has it
	pending   bool        // not replayed yet
}

// decideOffline decides by policy. Nothing is granted while the log is known to be lost:
// what could be granted is not known, rather than out of reach.
func (a *account) decideOffline(asks []quota.Ask, down error) ([]quota.Decision, error) {
	decisions := make([]quota.Decision, len(asks))
	var granted []*offlineGrant
	any := false
	for i, ask := range asks {
		var g *offlineGrant
		decisions[i], g = a.grantOffline(ask, down)
		any = any || decisions[i].Err == nil
		if g != nil {
			granted = append(granted, g)
		}
	}
	if len(granted) > 0 {
		err := a.ledger.journal.offline(a.name, granted...)
		a.writtenOffline(granted, err)
		for i := range decisions {
			if err != nil && decisions[i].GrantID != "" && !decisions[i].Replayed {
				decisions[i] = quota.Decision{Err: fmt.Errorf("%w: %w", quota.ErrUnavailable, err)}
			}
		}
	}
	if !any && len(decisions) > 0 {
		return nil, decisions[0].Err
	}
	return decisions, nil
}

// grantOffline grants an open operation while the allowance lasts. The grant holds once
// the journal has it.
func (a *account) grantOffline(ask quota.Ask, down error) (quota.Decision, *offlineGrant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refusesOffline([]string{ask.Operation}, down); err != nil {
		return quota.Decision{Err: err}, nil
	}
	digest := requestDigest(ask.Key())
	d := quota.Decision{Units: quota.Max(ask.Charges), Outage: true}
	for _, g := range a.offline {
		if digest == "-" || g.digest != digest {
			continue
		}
		if !ask.Repeats(g.operation, g.count) {
			return quota.Conflict(g.operation, g.count), nil
		}
		ask = ask.Fewer(g.count)
		d.Units, d.Count = quota.Max(ask.Charges), ask.Granted()
		d.GrantID, d.Replayed = quota.GrantID(a.name, g.id), true
		return d, nil
	}
	if closed := a.closedOffline(ask.Charges); !closed.Granted() {
		return closed, nil
	}
	if ask.AtMost {
		exceeds := func(fewer int) bool {
			return a.exceedsOffline(ask.Fewer(quota.Units(fewer)+2).Charges, ask.UseReserve) != nil
		}
		ask = ask.Fewer(quota.Units(sort.Search(int(ask.Count)-1, exceeds)) + 1)
		d.Units, d.Count = quota.Max(ask.Charges), ask.Granted()
	}
	if err := a.exceedsOffline(ask.Charges, ask.UseReserve); err != nil {
		return quota.Decision{Err: err}, nil
	}
	g := &offlineGrant{
		id: a.nextOffline(), operation: ask.Operation, count: ask.Count,
		digest: digest, text: grantText(ask, digest), charges: slices.Clone(ask.Charges), units: d.Units,
		settledTo: "-", at: time.Now(), pending: true,
	}
	a.offline = append(a.offline, g)
	if a.down == nil { // up again since the caller saw it down: what is granted here must be replayed
		a.down, a.since = down, time.Now()
		a.wake()
	}
	d.GrantID = quota.GrantID(a.name, g.id)
	return d, g
}

// peekOffline tells what would become of operations, which an ask sums up.
func (a *account) peekOffline(operations []string, ask quota.Ask, down error) (quota.Decision, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	err := a.refusesOffline(operations, down)
	if err == nil {
		err = a.exceedsOffline(ask.Charges, ask.UseReserve)
	}
	if err != nil {
		return quota.Decision{}, err
	}
	return quota.Decision{Units: quota.Max(ask.Charges), Outage: true}, nil
}

// closedOffline refuses charges in a limit that was closed when Redis was last heard.
func (a *account) closedOffline(charges []quota.Charge) quota.Decision {
	d, now := quota.Decision{Units: quota.Max(charges), Outage: true}, time.Now().Add(a.skew)
	for _, charge := range charges {
		limit, _ := a.credential.Limit(charge.Limit)
		if c := a.closed[charge.Limit].At(now); !c.IsZero() {
			d.Limits = append(d.Limits, quota.LimitState{Limit: limit, Used: a.used[charge.Limit], Cost: charge.Units, Closed: c})
		}
	}
	d.Close(now)
	return d
}

// refusesOffline returns why operations are not granted here at all.
func (a *account) refusesOffline(operations []string, down error) error {
	if a.down != nil && recovering(a.down) {
		down = a.down
	}
	closed := slices.ContainsFunc(operations, func(operation string) bool { return !a.policy.Open[operation] })
	if a.ledger.journal == nil || a.credential == nil || closed || recovering(down) {
		return down
	}
	return nil
}

// exceedsOffline returns why charges do not fit: in any window not more is granted than the
// allowance, nor than what was left of each limit when Redis was last heard.
func (a *account) exceedsOffline(charges []quota.Charge, useReserve bool) error {
	a.forgetOffline()
	granted := quota.Max(charges)
	pending := make(map[string]quota.Units)
	for _, g := range a.offline {
		granted += g.units
		for _, charge := range g.charges {
			if g.pending {
				pending[charge.Limit] += charge.Units
			}
		}
	}
	if granted > a.policy.Units {
		return fmt.Errorf("%w: the %s for an outage of the ledger are spent", quota.ErrUnavailable, a.policy.Units.Text())
	}
	now := time.Now().Add(a.skew)
	for _, charge := range charges {
		limit, _ := a.credential.Limit(charge.Limit)
		if limit.Observe || limit.LiftedAt(now) {
			continue
		}
		if a.used[charge.Limit]+pending[charge.Limit]+charge.Units > limit.Budget(useReserve) && limit.Name != "" {
			return fmt.Errorf("%w: nothing was left of limit %q when the ledger was last heard", quota.ErrUnavailable, charge.Limit)
		}
	}
	return nil
}

// forgetOffline drops what was replayed and has left the longest window.
func (a *account) forgetOffline() {
	oldest := time.Now().Add(a.skew).Add(-span(a.credential)).UnixMilli()
	a.offline = slices.DeleteFunc(a.offline, func(g *offlineGrant) bool { return !g.pending && g.id.Ms < oldest })
}

// nextOffline returns an id at the log's presumed time, behind the last one.
func (a *account) nextOffline() quota.ID {
	id := quota.ID{Ms: time.Now().Add(a.skew).UnixMilli(), Seq: a.ledger.seq}
	if !a.lastID.Less(id) {
		id = quota.ID{Ms: a.lastID.Ms, Seq: a.lastID.Seq + 1}
	}
	a.lastID = id
	return id
}

// writtenOffline takes in whether the journal has grants: those that it has not were not
// made.
func (a *account) writtenOffline(granted []*offlineGrant, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range granted {
		g.written = true
	}
	if err != nil {
		a.offline = slices.DeleteFunc(a.offline, func(g *offlineGrant) bool { return slices.Contains(granted, g) })
	}
}

// settleOffline settles what was granted offline and is not replayed yet.
func (a *account) settleOffline(s quota.Settlement) (d quota.Decision, own bool, err error) {
	a.mu.Lock()
	i := slices.IndexFunc(a.offline, func(g *offlineGrant) bool { return g.id == s.Grant && g.pending })
	if i < 0 {
		a.mu.Unlock()
		return quota.Decision{}, false, nil
	}
	g := a.offline[i]
	settled := *g
	settled.settledTo = fmt.Sprint(int64(s.Units))
	a.mu.Unlock()
	if err := a.ledger.journal.offline(a.name, &settled); err != nil {
		return quota.Decision{}, true, fmt.Errorf("%w: %w", quota.ErrUnavailable, err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	g.settledTo = settled.settledTo
	if !g.pending { // replayed while the journal was written: it is settled there
		return quota.Decision{}, false, nil
	}
	return quota.Decision{GrantID: quota.GrantID(a.name, g.id), Units: s.Units, Outage: true}, true, nil
}

// pendingOffline returns what is to be replayed, and whether that is all.
func (a *account) pendingOffline() (pending []offlineGrant, all bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	all = true
	for _, g := range a.offline {
		if g.pending && g.written {
			pending = append(pending, *g)
		}
		all = all && g.written
	}
	return pending, all
}

// replayed takes in that grants are in the log as they were then.
func (a *account) replayed(done []offlineGrant) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, d := range done {
		for _, g := range a.offline {
			if g.id == d.id && g.settledTo == d.settledTo {
				g.pending = false
			}
		}
	}
}

var errReplaying = fmt.Errorf("%w: what was granted during an outage is being booked", quota.ErrUnavailable)

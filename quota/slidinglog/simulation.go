package slidinglog

import (
	"context"
	"iter"
	"math"
	"slices"
	"time"

	"quotad/quota"
)

// A Simulation plays later calls on a copy of a credential's log. It decides as ledgers do, and
// debits nothing real. It is not safe for concurrent use.
type Simulation struct {
	Credential *quota.Credential // must not be changed
	account    Account
	log        entries
}

// NewSimulation returns a simulation of a valid credential with an empty log.
func NewSimulation(c *quota.Credential) *Simulation {
	return &Simulation{Credential: c.Prepared()}
}

// gateDelay is the time between the gate's check and the debit of the process that it starts. So the
// units of a slot are not free yet at the same slot one window later.
const gateDelay = time.Millisecond

// Spend decides at an instant about charges of a caller with or without the reserve. If
// they are granted, it debits them a moment later. An instant before the last one counts as that.
func (s *Simulation) Spend(at time.Time, charges []quota.Charge, useReserve bool) quota.Decision {
	now := s.advance(at)
	d := s.account.Decide(s.Credential, charges, useReserve, now, s.log)
	if d.Granted() {
		s.write(now.Add(gateDelay), charges)
		d.Limits = s.account.States(s.Credential, charges, now)
	}
	return d
}

// Used returns the units of each limit at an instant, in the order of the limits.
func (s *Simulation) Used(at time.Time) []quota.Units {
	s.advance(at)
	return s.account.Used()
}

// Since returns the units of each limit that calls cost after an instant, in the order of the limits,
// by the callers that whose selects: the name of a job, or "@" and a uid. Adjustments are no calls,
// and do not count. Neither do entries that have left every window, or were not read.
func (s *Simulation) Since(at time.Time, whose func(by string) bool) []quota.Units {
	spent := make([]quota.Units, len(s.Credential.Limits))
	for e := range s.log.After(quota.ID{Ms: at.UnixMilli(), Seq: math.MaxInt64}) {
		if whose(e.By) {
			for i := range spent {
				spent[i] += e.CalledIn(s.Credential, i)
			}
		}
	}
	return spent
}

func (s *Simulation) advance(at time.Time) time.Time {
	now := s.account.Advance(s.Credential, at, s.log)
	oldest := now.UnixMilli()
	for _, v := range s.account.views {
		oldest = min(oldest, v.after)
	}
	s.log = s.log.behind(quota.ID{Ms: oldest, Seq: math.MaxInt64})
	return now
}

// write appends an entry that counts charges.
func (s *Simulation) write(at time.Time, charges []quota.Charge) {
	e := quota.Entry{ID: quota.ID{Ms: at.UnixMilli()}, Kind: quota.KindAdjustment, Charges: charges}
	if n := len(s.log); n > 0 && !s.log[n-1].ID.Less(e.ID) {
		e.ID = s.log[n-1].ID
		e.ID.Seq++
	}
	s.log = append(s.log, e)
	s.account.Clock = e.ID.Ms
	s.account.Add(&e)
}

// maxSimulated bounds the entries that are read of a log, the newest ones. Older ones are assumed to
// be as old as the oldest of these, so their units return too late, never too early.
const maxSimulated = 100_000

// Simulate returns a simulation that begins with the current log of the service's ledger; ok is false
// if the credential is not configured.
func Simulate(ctx context.Context, service *quota.Service, credential string) (s *Simulation, ok bool, err error) {
	c, ok := service.Credential(credential)
	if !ok {
		return nil, false, nil
	}
	usage, err := service.Usage(ctx, credential)
	if err != nil {
		return nil, true, err
	}
	since := usage.Now
	for _, limit := range c.Limits {
		if after, _ := limit.Window.Bounds(usage.Now); after.Before(since) {
			since = after
		}
	}
	var log entries // newest first
	err = service.Walk(ctx, c.Name, since, func(e quota.Entry) bool {
		if !e.ID.Time().After(usage.Now) {
			log = append(log, e)
		}
		return len(log) < maxSimulated
	})
	if err != nil {
		return nil, true, err
	}
	slices.Reverse(log)
	return resume(c, usage, log), true, nil
}

// resume returns a simulation that begins at usage, with the part of the log that was read.
func resume(c *quota.Credential, usage quota.Usage, log entries) *Simulation {
	s := NewSimulation(c)
	s.log = log
	if len(log) > 0 {
		s.account.Clock = log[len(log)-1].ID.Ms
	}
	s.account.Closed, s.account.Lent = make(map[string]quota.Closed), make(map[string][]quota.Lent)
	for _, limit := range usage.Limits {
		s.account.Closed[limit.Name] = limit.Closed
		if len(limit.Lent) > 0 {
			s.account.Lent[limit.Name] = limit.Lent
		}
		s.account.Lost = max(s.account.Lost, lostFor(limit, usage.Now))
	}
	now := s.account.Advance(c, usage.Now, s.log)
	for i, used := range s.account.Used() {
		if missing := usage.Limits[i].Used - used; missing > 0 {
			s.supply(i, missing, now)
		}
	}
	return s
}

// lostFor returns the Account.Lost with which a limit catches up until when it does; 0 if it does
// not.
func lostFor(s quota.LimitState, now time.Time) int64 {
	if s.CatchingUp.IsZero() {
		return 0
	}
	if after, end := s.Window.Bounds(now); !end.IsZero() {
		return after.UnixMilli() + 1
	}
	return s.CatchingUp.Add(-s.Window.Length).UnixMilli()
}

// supply adds the units of limit i that the log lacks, at its oldest entry in the window, or at now.
func (s *Simulation) supply(i int, missing quota.Units, now time.Time) {
	v := s.account.views[i]
	charges := []quota.Charge{{Limit: v.Limit().Name, Units: missing}}
	n := s.log.after(v.start())
	if n == len(s.log) {
		s.write(now, charges)
		return
	}
	id := s.log[n].ID
	s.log = slices.Insert(s.log, n, quota.Entry{ID: id, Kind: quota.KindAdjustment, Charges: charges})
	v.change(id, missing)
}

// entries is a log in memory, oldest first.
type entries []quota.Entry

// After implements Entries.
func (l entries) After(id quota.ID) iter.Seq[quota.Entry] { return slices.Values(l.behind(id)) }

// behind returns the entries after id.
func (l entries) behind(id quota.ID) entries { return l[l.after(id):] }

// after returns the index of the first entry after id.
func (l entries) after(id quota.ID) int {
	n, _ := slices.BinarySearchFunc(l, id, func(e quota.Entry, id quota.ID) int {
		if id.Less(e.ID) {
			return 1
		}
		return -1
	})
	return n
}

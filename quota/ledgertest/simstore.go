package ledgertest

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"maps"
	"math"
	"slices"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// A SimStore is a slidinglog.Store in memory whose clock and whose faults a simulation
// chooses. It has no locks: one goroutine uses it. The zero value is not usable: it needs a
// clock.
type SimStore struct {
	Clock func() int64 // the store's own clock, in ms since the Unix epoch
	Page  int          // bounds the tail of an outcome; 0: slidinglog.PageSize

	logs map[string]simLog
	past []simChange // of logs, oldest first, at least the last simPast; for DropLast
}

var _ slidinglog.Store = (*SimStore)(nil)

// A simLog is one log. Records below its length never change, also not in older copies of
// it: what takes records away leaves no capacity behind them.
type simLog struct {
	records []slidinglog.Placed
	expires int64 // in ms of the store's clock
}

// simPast is how many changes DropLast can take back.
const simPast = 100

// A simChange is what a log was before a change.
type simChange struct {
	credential string
	before     simLog
}

// Append implements slidinglog.Store.
func (s *SimStore) Append(_ context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	outcomes := make([]slidinglog.Outcome, len(calls))
	for i := range calls {
		outcomes[i] = s.Do(&calls[i])
	}
	return outcomes
}

// Do carries out one call. The Tail of its outcome is the store's own: it is only read.
func (s *SimStore) Do(c *slidinglog.Call) slidinglog.Outcome {
	now := s.Clock()
	log := s.logs[c.Credential]
	if now >= log.expires {
		log = simLog{}
	}
	clock, end := now, slidinglog.Position{}
	if n := len(log.records); n > 0 {
		end = positionOf(log.records[n-1])
		clock = max(now, end.ID.Ms)
	}
	var tail []slidinglog.Placed
	if end != c.At && !c.Blind {
		o := behind(log.records, c.At, now, cmp.Or(s.Page, slidinglog.PageSize))
		if o.Result != slidinglog.Behind || o.More || c.At.IsZero() || !commute(c, o.Tail) {
			return o
		}
		tail = o.Tail
	}
	switch {
	case len(c.Body) == 0:
		return slidinglog.Outcome{Result: slidinglog.End, Clock: now}
	case clock < c.NotBefore:
		return slidinglog.Outcome{Result: slidinglog.Early, Clock: now}
	case clock > c.NotAfter:
		return slidinglog.Outcome{Result: slidinglog.Late, Clock: now}
	}
	if c.Wipe {
		log, end, clock = simLog{}, slidinglog.Position{}, now
	}
	at := quota.ID{Ms: max(clock, c.Floor)}
	if at.Ms == end.ID.Ms {
		at.Seq = end.ID.Seq + 1
	}
	s.change(c.Credential, log.with(slidinglog.Placed{At: at, Body: bytes.Clone(c.Body)}, now, c.Keep.Milliseconds()))
	return slidinglog.Outcome{Result: slidinglog.Done, Clock: at.Ms, At: at, Tail: tail}
}

// commute reports whether a tail is grants of other hosts under the caller's terms, which take no more than
// its slack. The parts of a head are where append.lua finds them.
func commute(c *slidinglog.Call, tail []slidinglog.Placed) bool {
	const host, terms, most, end = 13, 25, 29, 33
	if c.Slack == 0 || len(c.Body) < end {
		return false
	}
	left := c.Slack
	for _, r := range tail {
		if len(r.Body) < end || bytes.Equal(r.Body[host:host+8], c.Body[host:host+8]) || !bytes.Equal(r.Body[terms:most], c.Body[terms:most]) {
			return false
		}
		takes := binary.BigEndian.Uint32(r.Body[most:end])
		if left -= int64(takes); takes == math.MaxUint32 || left < 0 {
			return false
		}
	}
	return true
}

// behind answers a caller whose position is not the end.
func behind(records []slidinglog.Placed, at slidinglog.Position, clock int64, page int) slidinglog.Outcome {
	own := 0
	if !at.IsZero() {
		i, found := slices.BinarySearchFunc(records, at.ID, func(r slidinglog.Placed, id quota.ID) int { return r.At.Compare(id) })
		if !found || positionOf(records[i]) != at {
			return slidinglog.Outcome{Result: slidinglog.Lost, Clock: clock}
		}
		own = i + 1
	}
	to := min(len(records), own+page)
	return slidinglog.Outcome{Result: slidinglog.Behind, Clock: clock, Tail: slices.Clip(records[own:to]), More: to < len(records)}
}

// with returns the log with one more record, and without those that are not needed.
func (l simLog) with(record slidinglog.Placed, now, keep int64) simLog {
	old := 0
	for old < len(l.records) && l.records[old].At.Ms < record.At.Ms-keep {
		old++
	}
	return simLog{records: append(l.records[old:], record), expires: now + 2*keep}
}

func positionOf(r slidinglog.Placed) slidinglog.Position {
	p := slidinglog.Position{ID: r.At}
	copy(p.Tag[:], r.Body)
	return p
}

func (s *SimStore) change(credential string, log simLog) {
	if s.logs == nil {
		s.logs = make(map[string]simLog)
	}
	if len(s.past) == 2*simPast {
		s.past = append(s.past[:0], s.past[simPast:]...)
	}
	s.past = append(s.past, simChange{credential, s.logs[credential]})
	s.logs[credential] = log
}

// Flush removes the log of a credential.
func (s *SimStore) Flush(credential string) { s.change(credential, simLog{}) }

// Remove removes the records of a log from one index up to another.
func (s *SimStore) Remove(credential string, from, to int) {
	log := s.logs[credential]
	log.records = slices.Delete(slices.Clone(log.records), from, to)
	s.change(credential, log)
}

// DropLast takes back the last n changes, at most 100, each a record that was appended or a log that was
// flushed: a replica has taken over that did not have them.
func (s *SimStore) DropLast(n int) {
	for range min(n, len(s.past)) {
		last := s.past[len(s.past)-1]
		s.past = s.past[:len(s.past)-1]
		last.before.records = slices.Clip(last.before.records)
		s.logs[last.credential] = last.before
	}
}

// A SimSnapshot is a copy of all logs of a SimStore.
type SimSnapshot struct{ logs map[string]simLog }

// Snapshot returns a copy of all logs.
func (s *SimStore) Snapshot() SimSnapshot {
	copied := maps.Clone(s.logs)
	for credential, log := range copied {
		log.records = slices.Clip(log.records)
		copied[credential] = log
	}
	return SimSnapshot{copied}
}

// Restore puts a copy in place of all logs. It can be restored any number of times.
func (s *SimStore) Restore(from SimSnapshot) {
	s.logs, s.past = maps.Clone(from.logs), nil
}

// Records returns what the log of a credential holds. It is only read.
func (s *SimStore) Records(credential string) []slidinglog.Placed {
	log := s.logs[credential]
	if s.Clock() >= log.expires {
		return nil
	}
	return slices.Clip(log.records)
}

// End returns where the log of a credential ends.
func (s *SimStore) End(credential string) (end slidinglog.Position) {
	if records := s.Records(credential); len(records) > 0 {
		end = positionOf(records[len(records)-1])
	}
	return end
}

// Name implements slidinglog.Store.
func (*SimStore) Name() string { return "simulated" }

// Health implements slidinglog.Store.
func (*SimStore) Health(context.Context) ([]string, error) { return nil, nil }

// Close implements slidinglog.Store.
func (*SimStore) Close() error { return nil }

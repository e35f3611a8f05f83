package slidinglog

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"quotad/quota"
)

// An attempt is a call whose outcome is unknown. Until it is known, its entries count as granted.
// Its callers got ErrOutcomeUnknown. A grant with a request key is theirs when they ask again;
// other grants are revoked when the log has them, which may be long after: the log may have lost
// the record, and another host that had read it puts its entries back.
type attempt struct {
	tags     []Tag // of its sends
	notAfter int64
	slack    bool // it may be carried out after grants of other hosts
	entries  []quota.Entry
}

// wrote reports whether the attempt wrote an entry, at whatever place its record was.
func (a *attempt) wrote(e *quota.Entry) bool {
	for i := range a.entries {
		for _, tag := range a.tags {
			if e.ID == newID(quota.ID{Ms: e.ID.Ms, Seq: e.ID.Seq >> 36}, i, tag) {
				return e.ID.Ms <= a.notAfter
			}
		}
	}
	return false
}

// maxUnanswered bounds the attempts that a host remembers in case the log has them later.
const maxUnanswered = 100

// giveUp ends the hold of the open attempts that have ended: the log lacks them, and cannot get them any more
// except from another host. mu is held.
func (r *replica) giveUp(ended func(*attempt) bool) {
	r.maybe = slices.DeleteFunc(r.maybe, func(a *attempt) bool {
		if ended(a) {
			r.remember(a)
			return true
		}
		return false
	})
}

// remember has the entries of an attempt revoked if another host puts them back. mu is held.
func (r *replica) remember(a *attempt) {
	oldest := r.copy.oldest()
	r.unanswered = append(slices.DeleteFunc(r.unanswered, func(a *attempt) bool { return a.notAfter <= oldest }), a)
	r.unanswered = r.unanswered[max(0, len(r.unanswered)-maxUnanswered):]
}

// call makes a call, up to three times while its outcome is open, and records the clock. A blind one
// is made once: a second record with its tag could have other records before it, and hide a loss.
func (r *replica) call(ctx context.Context, call Call) Outcome {
	out, _, _ := r.tries(ctx, &call)
	return out
}

// tries is call. It returns the tags of all sends. unknown reports that one of them had no answer: it may have
// been carried out even if a later one finds that the log lacks the record, because the log may have lost it in
// between. With slack, each send has a tag of its own, or a tag could be carried out after two positions.
func (r *replica) tries(ctx context.Context, call *Call) (out Outcome, tags []Tag, unknown bool) {
	for try := range 3 {
		if try > 0 {
			r.ledger.config.Pause(ctx, time.Millisecond<<(2*try))
		}
		if try > 0 && call.Slack > 0 {
			call.Body = bytes.Clone(call.Body)
			r.ledger.draw(call.Body[:tagDrawn])
		}
		if len(call.Body) > 0 {
			tags = append(tags, Tag(call.Body))
		}
		out = r.ledger.config.Store.Append(ctx, []Call{*call})[0]
		unknown = unknown || out.Result == Unknown
		if out.Result > Failed || call.Blind || ctx.Err() != nil {
			break
		}
	}
	if unknown && out.Result == Failed { // an earlier try may have been carried out
		out.Result = Unknown
	}
	r.recordOutcome(ctx, call, out)
	return out, tags, unknown
}

// recordOutcome records the store's clock, if there was an answer, and whether the store takes records.
func (r *replica) recordOutcome(ctx context.Context, call *Call, out Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if out.Result <= Failed {
		r.unwritten = r.unwritten || ctx.Err() == nil && (len(call.Body) > 0 || call.Probe)
		return
	}
	r.unwritten = r.unwritten && out.Result != Done
	r.storeClock, r.storeClockAt = out.Clock, r.ledger.config.Clock()
}

// poll reads what follows the copy's position.
func (r *replica) poll(ctx context.Context) Outcome { return r.call(ctx, r.newCall(nil)) }

// newCall returns a call at the copy's position; without a record, it is a look.
func (r *replica) newCall(record *Record) Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	call := Call{Credential: r.name, At: r.copy.facts.Position, Keep: r.keep()}
	if record != nil {
		call.Body, call.Floor = record.Body(), record.floor()
		call.NotAfter = max(r.copy.account.Clock, r.estimated().UnixMilli()) + lateTime.Milliseconds()
	}
	return call
}

// keep returns how long the store keeps a record. While a host writes that has not said its window, nothing is
// dropped, nor by a host whose hello would be. What the record says of dropped entries holds until it may not be
// appended any more. mu is held.
func (r *replica) keep() time.Duration {
	unsaid := r.copy.facts.Hosts[r.ledger.Host()].Hello <= max(0, r.needed())
	for _, h := range r.copy.facts.Hosts {
		unsaid = unsaid || h.Hello == 0
	}
	if unsaid {
		return quota.LongestWindow
	}
	return r.copy.keep() + lateTime
}

// newRecord returns a record of this host.
func (r *replica) newRecord(entries []quota.Entry, says *Statement) *Record {
	host, run := r.ledger.self()
	r.mu.Lock()
	defer r.mu.Unlock()
	record := &Record{Host: host, Run: run, Most: barrier, Gen: r.copy.facts.Gen, Since: r.copy.facts.Since, Entries: entries, Says: says}
	if oldest := r.needed(); r.copy.expires <= oldest {
		record.Since = oldest // the store drops with this record what is older
	}
	latest := time.UnixMilli(max(record.floor(), r.estimated().UnixMilli())).Add(lateTime)
	near := r.copy.facts.Position.ID.Time().After(latest.Add(-r.copy.facts.Hosts[host].keep() / 2))
	if r.ledger.draw(record.Tag[:]); says == nil || says.Kind != Yield { // a turn follows any record
		record.after(r.copy.facts.Position, near)
	}
	return record
}

// noticeHole records that the log lacks what stood before a record of it. The store drops old records only,
// and from its beginning. mu is held.
func (r *replica) noticeHole(c *Copy, record *Record) {
	switch begins := c.facts.Position.IsZero(); {
	case record.isAfter(c.facts.Position), record.isAfter(Position{}):
	case !begins && record.Most < barrier && (len(r.recent) <= PageSize || slices.Contains(r.recent, record.sum())):
		// it was appended behind others that its writer had not read, after one that this host has
	case !begins:
		c.facts.Hole = record.at.At.Ms
	case record.near:
		r.begins = record.at.At.Ms
	}
}

// keepSum keeps the checksum of a record's position, with those of the PageSize before. mu is held.
func (r *replica) keepSum(record *Record) {
	if record.follows && record.isAfter(Position{}) { // it is the first of its log: no other one was before it
		r.recent = slices.Repeat([][4]byte{Position{}.sum()}, PageSize)
	}
	sum := Position{ID: record.at.At, Tag: record.Tag}.sum()
	r.recent = append(r.recent[max(0, len(r.recent)-PageSize):], sum)
}

// judgeBeginning records that a log which was read to its end lacks what stood before its first record, unless
// that may have expired: the host that drops records has a hello in the log. mu is held.
func (r *replica) judgeBeginning() {
	shortest, longest := r.copy.keep(), r.copy.keep()
	for _, h := range r.copy.facts.Hosts {
		if h.Hello > 0 {
			shortest = min(shortest, h.keep())
		}
	}
	// The one before the first record is not older than that by more than half of its writer's keep.
	if r.begins > r.copy.account.Clock-(shortest-longest/2).Milliseconds() {
		r.copy.facts.Hole = r.begins
	}
	r.begins = 0
}

// catchUp applies records of the log to the copy. Entries of this host also go into the tail,
// because the log may lose them before the tables have them.
func (r *replica) catchUp(tail []Placed) error {
	if len(tail) == 0 {
		return nil
	}
	r.mu.Lock()
	again := r.copy.facts.Loss != nil // the file has these entries
	r.mu.Unlock()
	var list []*Record // not applied yet: all with one reading of the tables
	for _, p := range tail {
		record, err := r.decode(p)
		if err != nil {
			return errors.Join(r.apply(list), err)
		}
		if own := record.Host == r.ledger.Host() && len(record.Entries) > 0 && !again; !own {
			list = append(list, &record)
			continue
		}
		if err := errors.Join(r.apply(list), r.applyOwn(&record)); err != nil {
			return err
		}
		list = nil
	}
	return r.apply(list)
}

// decode decodes a record of the log, and notices a clone of this host.
func (r *replica) decode(p Placed) (Record, error) {
	record, err := decodeRecord(p)
	if err != nil {
		return record, fmt.Errorf("%w: credential %q: %w: run the same version of quotad on every host, "+
			"or begin a new log under another key_prefix", quota.ErrUnusable, r.name, err)
	}
	return record, r.ledger.detectClone(&record)
}

// apply applies records of the log to the copy.
func (r *replica) apply(list []*Record) error {
	if len(list) == 0 {
		return nil
	}
	return r.onCopy(func(c *Copy) {
		for _, record := range list {
			r.applyOne(c, record)
		}
	})
}

// applyOne is apply with mu held.
func (r *replica) applyOne(c *Copy, record *Record) {
	r.giveUp(func(a *attempt) bool { // it is this record, or cannot be carried out behind it
		return !a.slack || record.Host == r.ledger.Host() || record.Most == barrier
	})
	if len(r.unanswered) > 0 {
		r.revoke(slices.DeleteFunc(slices.Clone(record.Entries), func(e quota.Entry) bool {
			_, known := c.entry(e.ID)
			return known || !slices.ContainsFunc(r.unanswered, func(a *attempt) bool { return a.wrote(&e) })
		}))
	}
	switch {
	case record.Says != nil && record.Says.Kind == Yield:
		if now := r.ledger.config.Clock(); r.yieldTo == (HostID{}) || !now.Before(r.yieldUntil) { // one after the other
			r.yieldTo, r.yieldUntil = record.Host, now.Add(r.ledger.config.Deadline/2)
		}
	case record.Host == r.yieldTo:
		r.yieldTo = HostID{}
	}
	if record.at.At.Less(c.facts.Position.ID) { // this host's reset has emptied the log
		c.facts.forgetHello(r.ledger.Host())
	}
	r.noticeHole(c, record)
	r.keepSum(record)
	if c.apply(record); record.Says == nil || record.Says.Kind != Yield {
		r.written[record.Host] = r.waited
	}
}

// revoke revokes grants whose callers got no answer, except those with a request key. mu is held.
func (r *replica) revoke(entries []quota.Entry) {
	for _, e := range entries {
		if g, ok := e.Grant(); ok && g.Key == "" {
			is := e
			is.Settle(0, quota.ID{})
			r.revoked = append(r.revoked, quota.Entry{
				Gen: quota.Unplaced, By: e.By, Region: e.Region,
				Body: quota.Settled{Grant: e.ID, Before: e.Counts(), After: is.Counts()},
			})
		}
	}
}

// The kinds of frames in the tail.
const (
	framePlaced   = 'P' // a record of the log
	frameUnplaced = 'U' // a record without a place, written offline
)

func frame(kind byte, p Placed) []byte {
	c := codec{b: make([]byte, 0, 24+len(p.Body))}
	c.byte(&kind)
	c.id(&p.At)
	c.raw(p.Body)
	return c.b
}

// applyOwn writes a record of this host to the tail, and applies it to the copy.
func (r *replica) applyOwn(record *Record) error {
	l := r.ledger
	l.gate.RLock()
	defer l.gate.RUnlock()
	written := r.unavailable(l.config.File.Append(r.name, frame(framePlaced, record.at), l.config.Store == nil))
	if written != nil && l.config.Store == nil {
		return written
	}
	return errors.Join(written, r.apply([]*Record{record}))
}

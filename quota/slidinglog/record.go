package slidinglog

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"quotad/quota"
)

// A HostID names a host's copies: drawn when they are begun, and kept with them.
type HostID [8]byte

func (h HostID) String() string { return hex.EncodeToString(h[:]) }

// MarshalText and UnmarshalText write an id as hexadecimal digits.
func (h HostID) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *HostID) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(h) {
		return fmt.Errorf("not the id of a host: %.20q", text)
	}
	copy(h[:], b)
	return nil
}

// A Record is what one append writes: entries, or a statement of a host about itself or the
// log.
type Record struct {
	Tag  Tag
	Host HostID
	Run  uint32 // drawn at each start of the host
	// Gen is the generation of the log: how many resets there were, as far as anybody knew.
	Gen int64
	// Since is the time, in ms, after which its writer has every entry. Older
	// ones may have been dropped.
	Since   int64
	Entries []quota.Entry
	Says    *Statement
}

// A Statement is what a host says about itself, or about the log.
type Statement struct {
	Kind StatementKind
	// Of Missing and Here: the hosts that it knows to have written to the log.
	Waits []HostID
	// Of Hello: what people call the host, what it counts, in words, and the longest window
	// of its limits.
	Label   string
	Terms   []string
	Longest time.Duration
}

// A StatementKind says what a statement is about. Its value is that in a record.
type StatementKind byte

// The kinds of statements. They follow the kinds of entries.
const (
	// Hello: this host counts the log so.
	Hello StatementKind = 16 + iota
	// Missing: the log lacks what this host knows. Nothing is granted until Whole.
	Missing
	// Here: all that this host knew when it read the last Missing is in the log before this.
	Here
	// Whole: the log has all that can be put back.
	Whole
	// Bye: this host ends in order, and all that it knows is in the log.
	Bye
	// Turn: this host has lost too many races. The others let it go first.
	Turn
)

// recordVersion stands behind the tag of a record. Another one is refused.
const recordVersion = 0xa1

// ErrVersion: a record, or what is kept beside it, is one of another version of quotad.
var ErrVersion = errors.New("another version of quotad wrote it")

// ErrForeign: the log is not the one that this host has a copy of.
var ErrForeign = errors.New("it is not the log that this host has a copy of")

var errRecord = errors.New("an entry of the log is damaged")

// kinds are numbered in a record by their place here.
var kinds = []quota.Kind{quota.KindGrant, quota.KindSettlement, quota.KindAdjustment, quota.KindReset, quota.KindClosing, quota.KindOpening, quota.KindLoan}

// The flags of an entry.
const (
	flagOwn     = 1 << iota // it has a time, a number and a generation of its own
	flagSettled             // in a table: a settlement applies to it
	flagVoid                // in a table
	flagGiven               // in a table: adjustments gave back of it
	flagOutage              // granted while the store could not be reached
	flagJoined              // in a table: it counts for an earlier grant, too
)

// Body writes the record. An entry without a time is new: it gets its id from the record's
// place.
func (r *Record) Body() []byte {
	b := make([]byte, 0, 96)
	b = append(append(append(b, r.Tag[:]...), recordVersion), r.Host[:]...)
	b = binary.BigEndian.AppendUint32(b, r.Run)
	b = binary.AppendUvarint(b, uint64(r.Gen))
	b = binary.AppendUvarint(b, uint64((r.Since+999)/1000))
	for i := range r.Entries {
		b = appendEntry(b, &r.Entries[i])
	}
	if r.Says != nil {
		b = r.Says.append(b)
	}
	return b
}

// floor returns the greatest time that an entry of the record brings.
func (r *Record) floor() (ms int64) {
	for i := range r.Entries {
		ms = max(ms, r.Entries[i].ID.Ms)
	}
	return ms
}

// decodeRecord reads a record that stands at a place; new entries get its time.
func decodeRecord(p Placed) (r Record, err error) {
	if len(p.Body) < len(r.Tag)+1+len(r.Host)+4 || p.Body[len(r.Tag)] != recordVersion {
		return r, ErrVersion
	}
	d := decoder{rest: p.Body}
	copy(r.Tag[:], d.bytes(len(r.Tag)))
	d.bytes(1)
	copy(r.Host[:], d.bytes(len(r.Host)))
	r.Run = binary.BigEndian.Uint32(d.bytes(4))
	r.Gen = int64(d.upTo(mostMillis))
	r.Since = int64(d.upTo(mostMillis/1000)) * 1000
	for len(d.rest) > 0 {
		if kind := StatementKind(d.rest[0]); kind >= Hello && kind <= Turn {
			r.Says = d.statement()
			continue
		}
		if int(d.rest[0]) >= len(kinds) {
			return r, ErrVersion
		}
		r.Entries = append(r.Entries, d.entry(&r, p.At))
	}
	if d.failed {
		return r, errRecord
	}
	return r, nil
}

// mostRun is the greatest run.
const mostRun = 1<<29 - 1

// newID returns the id of the n-th new entry of a record at a place: later ones of the same
// instant follow earlier ones, and where two logs have another record at the same place, the
// tag tells them apart.
func newID(at quota.ID, n int, tag Tag) quota.ID {
	drawn := int64(binary.BigEndian.Uint32(tag[:])) & mostRun
	return quota.ID{Ms: at.Ms, Seq: at.Seq&(1<<27-1)<<35 | int64(n&63)<<29 | drawn}
}

// awayID returns the id of the n-th entry that a run writes without a place, at a time.
func awayID(ms int64, n uint64, run uint32) quota.ID {
	return quota.ID{Ms: ms, Seq: 1<<62 | int64(n&(1<<33-1))<<29 | int64(run)}
}

// appendEntry writes an entry for a record: with its own id where it is not new, and
// without what others have changed of it.
func appendEntry(b []byte, e *quota.Entry) []byte {
	flags, own := byte(0), e.ID.Ms != 0
	if own {
		flags = flagOwn
	}
	if e.Outage {
		flags |= flagOutage
	}
	b = append(b, byte(slices.Index(kinds, e.Kind)), flags)
	if own {
		b = binary.AppendVarint(b, e.ID.Ms)
		b = binary.AppendUvarint(b, uint64(e.ID.Seq))
		b = binary.AppendVarint(b, e.Gen)
	}
	if e.Alone != nil {
		alone := *e
		alone.Count, alone.Charges = e.Alone.Count, e.Alone.Charges
		e = &alone
	}
	return appendFacts(b, e)
}

func (d *decoder) entry(r *Record, at quota.ID) quota.Entry {
	head := d.bytes(2)
	if head == nil {
		return quota.Entry{}
	}
	e := quota.Entry{Kind: kinds[head[0]], Outage: head[1]&flagOutage != 0}
	if head[1]&flagOwn != 0 {
		e.ID, e.Gen = d.id(), d.varint()
		d.failed = d.failed || e.ID.Ms <= 0
	} else {
		e.ID, e.Gen = newID(at, len(r.Entries), r.Tag), r.Gen
	}
	d.facts(&e)
	return e
}

// encode writes an entry as a table has it, under its id.
func encode(e *quota.Entry) []byte {
	flags := byte(0)
	if e.Settled {
		flags |= flagSettled
	}
	if e.Void {
		flags |= flagVoid
	}
	if len(e.GivenBack) > 0 {
		flags |= flagGiven
	}
	if e.Outage {
		flags |= flagOutage
	}
	if e.Alone != nil {
		flags |= flagJoined
	}
	b := append(make([]byte, 0, 96), byte(slices.Index(kinds, e.Kind)), flags)
	b = binary.AppendVarint(b, e.Gen)
	if e.Settled && e.Kind == quota.KindGrant {
		b = binary.AppendVarint(b, int64(e.SettledTo))
		b = appendID(b, e.SettledBy)
	}
	if len(e.GivenBack) > 0 {
		b = appendCharges(b, e.GivenBack)
	}
	if e.Alone != nil {
		b = appendCharges(binary.AppendUvarint(b, uint64(e.Alone.Count)), e.Alone.Charges)
	}
	return appendFacts(b, e)
}

// decode reads what encode wrote.
func decode(id quota.ID, value []byte) (quota.Entry, error) {
	d := decoder{rest: value}
	head := d.bytes(2)
	if head == nil || int(head[0]) >= len(kinds) {
		return quota.Entry{}, errRecord
	}
	e := quota.Entry{ID: id, Kind: kinds[head[0]], Void: head[1]&flagVoid != 0, Outage: head[1]&flagOutage != 0, Settled: head[1]&flagSettled != 0}
	e.Gen = d.varint()
	if e.Settled && e.Kind == quota.KindGrant {
		e.SettledTo, e.SettledBy = d.units(), d.id()
	}
	if head[1]&flagGiven != 0 {
		e.GivenBack = d.charges()
	}
	if head[1]&flagJoined != 0 {
		e.Alone = &quota.Granted{Count: quota.Units(d.upTo(uint64(quota.MaxUnits))), Charges: d.charges()}
	}
	d.facts(&e)
	if d.failed || len(d.rest) > 0 {
		return quota.Entry{}, errRecord
	}
	return e, nil
}

// appendFacts writes what an entry says for ever.
func appendFacts(b []byte, e *quota.Entry) []byte {
	b = appendString(appendString(b, e.By), e.Region)
	switch e.Kind {
	case quota.KindGrant:
		b = binary.AppendUvarint(b, uint64(e.Count))
		b = appendString(appendString(b, e.Operation), e.Key)
		b = appendCharges(b, e.Charges)
	case quota.KindSettlement:
		b = appendID(b, e.Grant)
		b = binary.AppendVarint(b, int64(e.SettledTo))
		b = appendCharges(appendCharges(b, e.Before), e.After)
	case quota.KindAdjustment:
		b = appendString(b, e.Note)
		b = binary.AppendVarint(b, e.Asked)
		b = appendCharges(b, e.Charges)
		b = binary.AppendUvarint(b, uint64(len(e.Gives)))
		for _, give := range e.Gives {
			b = binary.AppendVarint(appendID(b, give.Of), int64(give.Units))
		}
	case quota.KindClosing, quota.KindOpening:
		b = appendString(appendString(b, e.Limit), e.Note)
		b = binary.AppendVarint(b, millis(e.Until))
	case quota.KindLoan:
		b = appendString(appendString(b, e.Limit), e.Note)
		b = binary.AppendUvarint(b, uint64(e.Units))
		b = binary.AppendVarint(b, millis(e.Until))
	default:
		b = binary.AppendVarint(appendString(b, e.Note), millis(e.Until))
	}
	return b
}

func (d *decoder) facts(e *quota.Entry) {
	e.By, e.Region = d.string(), d.string()
	switch e.Kind {
	case quota.KindGrant:
		e.Count = quota.Units(d.upTo(uint64(quota.MaxUnits)))
		e.Operation, e.Key = d.string(), d.string()
		e.Charges = d.charges()
	case quota.KindSettlement:
		e.Grant = d.id()
		e.SettledTo = d.units()
		e.Before, e.After = d.charges(), d.charges()
	case quota.KindAdjustment:
		e.Note = d.string()
		e.Asked = d.varint()
		e.Charges = d.charges()
		for n := d.count(); n > 0 && !d.failed; n-- {
			e.Gives = append(e.Gives, quota.Give{Of: d.id(), Units: d.units()})
		}
	case quota.KindClosing, quota.KindOpening:
		e.Limit, e.Note = d.string(), d.string()
		e.Until = d.time()
	case quota.KindLoan:
		e.Limit, e.Note = d.string(), d.string()
		e.Units = quota.Units(d.upTo(uint64(quota.MaxUnits)))
		e.Until = d.time()
	default:
		e.Note, e.Until = d.string(), d.time()
	}
}

func (s *Statement) append(b []byte) []byte {
	b = append(b, byte(s.Kind))
	b = binary.AppendUvarint(b, uint64(len(s.Waits)))
	for _, host := range s.Waits {
		b = append(b, host[:]...)
	}
	if s.Kind == Hello {
		b = appendString(b, s.Label)
		b = binary.AppendUvarint(b, uint64(s.Longest/time.Millisecond))
		b = binary.AppendUvarint(b, uint64(len(s.Terms)))
		for _, term := range s.Terms {
			b = appendString(b, term)
		}
	}
	return b
}

func (d *decoder) statement() *Statement {
	s := &Statement{Kind: StatementKind(d.bytes(1)[0])}
	for n := d.count(); n > 0 && !d.failed; n-- {
		var host HostID
		copy(host[:], d.bytes(len(host)))
		s.Waits = append(s.Waits, host)
	}
	if s.Kind == Hello {
		s.Label = d.string()
		s.Longest = time.Duration(d.upTo(uint64(math.MaxInt64/time.Millisecond))) * time.Millisecond
		for n := d.count(); n > 0 && !d.failed; n-- {
			s.Terms = append(s.Terms, d.string())
		}
	}
	return s
}

// millis writes a time, and 0 for none.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

func appendString(b []byte, s string) []byte {
	b = binary.AppendUvarint(b, uint64(len(s)))
	return append(b, s...)
}

func appendID(b []byte, id quota.ID) []byte {
	return binary.AppendUvarint(binary.AppendVarint(b, id.Ms), uint64(id.Seq))
}

func appendCharges(b []byte, charges []quota.Charge) []byte {
	b = binary.AppendUvarint(b, uint64(len(charges)))
	for _, charge := range charges {
		b = binary.AppendVarint(appendString(b, charge.Limit), int64(charge.Units))
	}
	return b
}

package slidinglog

import (
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"

	"quotad/quota"
)

// A HostID identifies a host. It is drawn when the host begins its file, and kept there.
type HostID [8]byte

func (h HostID) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h HostID) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (h *HostID) UnmarshalText(text []byte) error { return decodeHex(h[:], text) }

// MarshalText implements encoding.TextMarshaler.
func (t Tag) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Tag) UnmarshalText(text []byte) error { return decodeHex(t[:], text) }

func decodeHex(to, text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(to) {
		return fmt.Errorf("not %d bytes in hexadecimal digits: %.30q", len(to), text)
	}
	copy(to, b)
	return nil
}

// A Record is the content of one append: entries, or a statement.
type Record struct {
	Tag  Tag
	Host HostID
	Run  uint32 // drawn at each start of the host
	// Terms is a checksum of the limits and costs by which its entries were decided.
	Terms [4]byte
	// Most is the greatest part of a limit that it takes, in 2⁻³⁰ of the limit, if it has nothing but
	// new grants; else barrier.
	Most uint32
	// Gen is the generation of the log: the number of resets that the writer knows.
	Gen int64
	// Since is the time, in ms, after which the writer has every entry.
	Since   int64
	Entries []quota.Entry
	Says    *Statement

	// follows reports that the end of the tag is a checksum of the record before, as its writer knew it.
	// near reports that the log has no reason to drop that one before half a keep has passed.
	follows, near bool

	draft *draft // that it was made of; nil: it was read
	at    Placed // its place, and its bytes; zero: it is not in a log
}

// A Statement is a host's statement about itself, or about the log.
type Statement struct {
	Kind StatementKind
	// Of LossFound and PutBack: the hosts that the writer knows to have written to the log.
	Hosts []HostID
	// Of Hello: the host's name for people, its limits and costs in words, and its longest
	// window.
	Label   string
	Terms   []string
	Longest time.Duration
}

// A StatementKind is the kind of a statement, with its value in a record.
type StatementKind byte

// The kinds of statements. They follow the kinds of entries.
const (
	// Hello: this host uses the log with this configuration.
	Hello StatementKind = 16 + iota
	// LossFound: the log lacks entries. Nothing is granted until Recovered.
	LossFound
	// PutBack: the log before this has all that this host knew when it read the last LossFound.
	PutBack
	// Recovered: the log has all that can be put back.
	Recovered
	// Leaving: this host stops, and the log has all that it knows.
	Leaving
	// Yield: this host has lost too many races. The others wait a little.
	Yield
)

// recordVersion follows the tag of a record. Other versions are refused.
const recordVersion = 0xa3

// ErrVersion: another version of quotad wrote a record, or the file.
var ErrVersion = errors.New("another version of quotad wrote it")

// ErrFileVersion: another version of quotad wrote the file.
var ErrFileVersion = fmt.Errorf("%w: install that version again, or move ledger.db* away while quotad is stopped: with Redis, "+
	"quotad continues with the log there; without Redis, start it once with --accept-new-ledger, and every limit counts from zero", ErrVersion)

// ErrForeign: the host has a copy of a log in another store.
var ErrForeign = errors.New("it is not the log that this host has a copy of")

var errRecord = errors.New("an entry of the log is damaged")

// formerLoan is the kind of an entry that made a limit higher. Logs may still have some: they count nothing.
const formerLoan quota.Kind = "loan"

// kinds are the kinds of entries; a record has their index.
var kinds = []quota.Kind{quota.KindGrant, quota.KindSettlement, quota.KindAdjustment, quota.KindReset,
	quota.KindClosing, quota.KindOpening, formerLoan}

// after has the record follow the one at a position. A reader then notices if the log lacks that one.
func (r *Record) after(p Position, near bool) {
	r.follows, r.near = true, near
	sum := p.sum()
	copy(r.Tag[tagDrawn:], sum[:])
}

// isAfter reports whether the record follows the one at a position, as far as it says.
func (r *Record) isAfter(p Position) bool {
	return !r.follows || r.sum() == p.sum()
}

// sum returns the checksum of the position that the writer knew.
func (r *Record) sum() [4]byte { return [4]byte(r.Tag[tagDrawn:]) }

// tagDrawn is how many bytes of a tag are drawn. The others may be a checksum.
const tagDrawn = 8

// sum returns a checksum of a position.
func (p Position) sum() (sum [4]byte) {
	b := append(make([]byte, 0, len(p.Tag)+idSize), p.Tag[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(p.ID.Ms))
	b = binary.BigEndian.AppendUint64(b, uint64(p.ID.Seq))
	binary.BigEndian.PutUint32(sum[:], crc32.ChecksumIEEE(b))
	return sum
}

// Body encodes the record. An entry without an id is new: its id follows from the record's place.
func (r *Record) Body() []byte {
	c := codec{b: make([]byte, 0, 96)}
	c.head(r)
	for i := range r.Entries {
		e := original(&r.Entries[i])
		c.entry(&e, e.ID.Ms != 0)
	}
	if r.Says != nil {
		c.statement(r.Says)
	}
	return c.b
}

// floor returns the greatest time of an entry that has an id, in ms.
func (r *Record) floor() (ms int64) {
	for i := range r.Entries {
		ms = max(ms, r.Entries[i].ID.Ms)
	}
	return ms
}

// place gives a record of new entries its place, and the entries without an id theirs, as decodeRecord reads them there.
func (r *Record) place(p Placed) {
	r.at, r.Tag = p, Tag(p.Body)
	for i := range r.Entries {
		if e := &r.Entries[i]; e.ID.Ms == 0 {
			e.ID, e.Gen = newID(p.At, i, r.Tag), r.Gen
		}
	}
}

// decodeRecord decodes a record at its place.
func decodeRecord(p Placed) (r Record, err error) {
	if len(p.Body) < headSize || p.Body[len(r.Tag)] != recordVersion {
		return r, ErrVersion
	}
	c := codec{reading: true, b: p.Body}
	r.at = p
	c.head(&r)
	for len(c.b) > 0 {
		if kind := StatementKind(c.b[0]); kind >= Hello && kind <= Yield {
			r.Says = new(Statement)
			c.statement(r.Says)
			continue
		}
		if int(c.b[0]) >= len(kinds) {
			return r, ErrVersion
		}
		var e quota.Entry
		if c.entry(&e, false); e.ID.Ms == 0 {
			e.ID, e.Gen = newID(p.At, len(r.Entries), r.Tag), r.Gen
		}
		g, _ := e.Grant()
		c.failed = c.failed || corrected(g) || len(e.GivenBack) > 0 // only entries of a table are
		r.Entries = append(r.Entries, e)
	}
	if c.failed {
		return r, errRecord
	}
	return r, nil
}

// headSize is the size of the part of a head that has one: append.lua reads the host, the terms and the most.
const headSize = len(Tag{}) + 1 + len(HostID{}) + 4 + 4 + 4

// head codes the head of a record.
func (c *codec) head(r *Record) {
	version, run, most := byte(recordVersion), [4]byte{}, [4]byte{}
	bits := r.Run
	if r.follows {
		bits |= followsBit
	}
	if r.near {
		bits |= nearBit
	}
	binary.BigEndian.PutUint32(run[:], bits)
	binary.BigEndian.PutUint32(most[:], r.Most)
	c.raw(r.Tag[:])
	c.byte(&version)
	c.raw(r.Host[:])
	c.raw(run[:])
	c.raw(r.Terms[:])
	c.raw(most[:])
	c.uvarint(&r.Gen, maxMillis)
	if c.uvarint(&r.Since, maxMillis); c.reading {
		bits = binary.BigEndian.Uint32(run[:])
		r.Most = binary.BigEndian.Uint32(most[:])
		r.Run, r.follows, r.near = bits&runMask, bits&followsBit != 0, bits&nearBit != 0
	}
}

// runMask is the greatest run, and has all its bits.
const runMask = 1<<29 - 1

// The bits above a run in a record.
const (
	followsBit = 1 << 31
	nearBit    = 1 << 30
)

// newID returns the id of the n-th new entry of a record at a place. Ids of the same instant are in
// the order of their places. The tag makes them differ from those of another log at that place.
func newID(at quota.ID, n int, tag Tag) quota.ID {
	drawn := int64(binary.BigEndian.Uint32(tag[:])) & runMask
	return quota.ID{Ms: at.Ms, Seq: at.Seq&(1<<26-1)<<36 | int64(n%quota.MaxAsks)<<29 | drawn}
}

// offlineID returns the id of the n-th offline entry of a run, at a time.
func offlineID(ms int64, n uint64, run uint32) quota.ID {
	return quota.ID{Ms: ms, Seq: 1<<62 | int64(n&(1<<33-1))<<29 | int64(run)}
}

// original returns an entry of the set as its writer appended it: without corrections, and without
// what it counts for another one.
func original(e *quota.Entry) quota.Entry {
	o := *e
	o.GivenBack = nil
	if g, _ := e.Grant(); corrected(g) {
		if g.Own != nil {
			g.Count, o.Charges = g.Own.Count, g.Own.Charges
		}
		o.Body = quota.Grant{Operation: g.Operation, Count: g.Count, Key: g.Key}
	}
	return o
}

// corrected reports whether a grant differs from what its writer appended.
func corrected(g quota.Grant) bool { return g.Settled || g.Void || g.Own != nil }

// encode encodes an entry for a table, which has it under its id.
func encode(e *quota.Entry) []byte {
	c := codec{b: make([]byte, 0, 96)}
	c.varint(&e.Gen)
	c.entry(e, false)
	return c.b
}

// decode decodes what encode returned.
func decode(id quota.ID, value []byte) (quota.Entry, error) {
	c, e := codec{reading: true, b: value}, quota.Entry{ID: id}
	c.varint(&e.Gen)
	if c.entry(&e, false); c.failed || len(c.b) > 0 {
		return quota.Entry{}, errRecord
	}
	return e, nil
}

// entry codes an entry. own is set if its id and generation are part of it: in a record, those of one
// that is not new. Corrections are in a table only.
func (c *codec) entry(e *quota.Entry, own bool) {
	kind := c.kind(e.Body)
	g, _ := e.Grant()
	given, joined := len(e.GivenBack) > 0, g.Own != nil
	c.flags(&own, &g.Settled, &g.Void, &given, &e.Outage, &joined)
	c.failed = c.failed || kind != quota.KindGrant && (g.Settled || g.Void || joined)
	if own {
		c.id(&e.ID)
		c.varint(&e.Gen)
		c.failed = c.failed || e.ID.Ms <= 0
	}
	if g.Settled {
		c.units(&g.SettledTo)
		c.id(&g.SettledBy)
	}
	if given {
		c.charges(&e.GivenBack)
	}
	if joined {
		if c.reading {
			g.Own = new(quota.Granted)
		}
		c.count(&g.Own.Count)
		c.charges(&g.Own.Charges)
	}
	c.string(&e.By)
	c.string(&e.Region)
	if kind != quota.KindGrant {
		c.body(e, kind)
		return
	}
	c.count(&g.Count)
	c.string(&g.Operation)
	c.string(&g.Key)
	c.charges(&e.Charges)
	setBody(c, e, g)
}

// kind codes the index of a kind, that of a body.
func (c *codec) kind(body quota.Body) quota.Kind {
	var i byte
	if !c.reading {
		i = byte(slices.Index(kinds, body.Kind()))
	}
	if c.byte(&i); int(i) >= len(kinds) {
		c.fail()
		i = 0
	}
	return kinds[i]
}

// body codes the body of an entry, and what the header has of this kind alone. For grants, entry does it.
func (c *codec) body(e *quota.Entry, kind quota.Kind) {
	switch kind {
	case quota.KindSettlement:
		b, _ := e.Body.(quota.Settled)
		c.id(&b.Grant)
		c.units(&b.To)
		c.charges(&b.Before)
		c.charges(&b.After)
		setBody(c, e, b)
	case quota.KindAdjustment:
		b, _ := e.Body.(quota.Adjusted)
		c.string(&e.Note)
		c.varint(&b.Asked)
		c.charges(&e.Charges)
		list(c, &b.Gives, func(give *quota.Give) {
			c.id(&give.Of)
			c.units(&give.Units)
		})
		setBody(c, e, b)
	case quota.KindReset:
		b, _ := e.Body.(quota.Reset)
		c.string(&e.Note)
		c.time(&b.Until)
		setBody(c, e, b)
	default: // closing, opening
		b, _ := e.Body.(quota.Changed)
		b.Change = kind
		c.string(&b.Limit)
		c.string(&e.Note)
		if kind == formerLoan {
			c.count(new(quota.Units))
		}
		c.time(&b.Until)
		setBody(c, e, b)
	}
}

// setBody gives an entry the body that was read.
func setBody[B quota.Body](c *codec, e *quota.Entry, b B) {
	if c.reading {
		e.Body = b
	}
}

func (c *codec) statement(s *Statement) {
	ms := int64(s.Longest / time.Millisecond)
	c.byte((*byte)(&s.Kind))
	list(c, &s.Hosts, func(host *HostID) { c.raw(host[:]) })
	if s.Kind != Hello {
		return
	}
	c.string(&s.Label)
	if c.uvarint(&ms, uint64(math.MaxInt64/time.Millisecond)); c.reading {
		s.Longest = time.Duration(ms) * time.Millisecond
	}
	list(c, &s.Terms, c.string)
}

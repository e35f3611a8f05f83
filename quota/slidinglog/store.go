package slidinglog

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"iter"
	"time"

	"quotad/quota"
)

// A Store keeps the log of each credential for all hosts that share it: an ordered list of
// records, on a clock of its own. It stores and stamps; it never decides. It is safe for concurrent
// use.
type Store interface {
	// Append carries out calls, each on the log of another credential, and returns an
	// outcome for each. It returns at the latest when ctx ends.
	Append(ctx context.Context, calls []Call) []Outcome
	// Name identifies the store: two hosts with the same name share their logs.
	Name() string
	// Health returns why the store cannot be reached, nil if it can, and the settings under
	// which it could lose records.
	Health(ctx context.Context) (warnings []string, err error)
	Close() error
}

// A Tag is drawn at random for each record. A call with slack is made once under it, and another one is only
// carried out after one position, so two logs with the same tag at the same place have the same records before it.
type Tag [12]byte

// NewTag draws a tag.
func NewTag() (t Tag) {
	rand.Read(t[:])
	return t
}

func (t Tag) String() string { return hex.EncodeToString(t[:]) }

// A Position is the end of a log as a host knows it: the place of the last record, and its tag. The
// zero Position is the beginning of every log.
type Position struct {
	ID  quota.ID
	Tag Tag
}

// IsZero reports whether p is the beginning of a log.
func (p Position) IsZero() bool { return p == Position{} }

// A Call appends a record to the log of a credential, if the log ends At a position and its
// clock is from NotBefore to NotAfter, all in ms since the Unix epoch. The clock of a log is
// the store's, and never before the place of the log's last record.
type Call struct {
	Credential string
	At         Position
	// Body is the record. Its first bytes are its Tag. Of the rest, the store reads its head, and only where there
	// is Slack. An empty body makes the call a look, which appends nothing.
	Body                []byte
	NotBefore, NotAfter int64 // a look ignores both
	// Keep is how long the hosts need a record. The store may drop older ones, and the log as a
	// whole after twice that time without a record.
	Keep time.Duration
	// Floor is the greatest time of an entry in the record. The place of the record is never
	// before it.
	Floor int64
	// Wipe empties the log before the record is appended, which then begins at the store's own
	// clock again. The condition is the same.
	Wipe bool
	// Blind appends at any end of the log. Such a call is never made again, because it could be
	// carried out each time.
	Blind bool
	// Slack appends the record also behind at most PageSize records of other hosts, if all are plain grants
	// under the terms in its head, and the sum of their most is not greater. 0: it does not.
	Slack int64
	// Probe makes a look fail if an append would: the store may be full, or a replica.
	Probe bool
}

// A Result is what became of a Call.
type Result uint8

// The results of an Outcome.
const (
	// Unknown: the call may have been carried out. Without slack, the same call with the same Body may be made
	// again: it is carried out at most once.
	Unknown Result = iota
	// Failed: the call was not carried out, and will not be.
	Failed
	// End: the log ends at the position. It is the answer to a look.
	End
	// Behind: the log has the caller's record, and others after it: Tail.
	Behind
	// Lost: the log lacks the record at the caller's position.
	Lost
	// Early and Late: the clock is not yet NotBefore, or past NotAfter.
	Early
	Late
	// Done: the record was appended, at At, after Tail.
	Done
)

// An Outcome answers a Call.
type Outcome struct {
	Result Result
	Err    error // of Unknown and Failed: why
	Clock  int64 // the store's, in ms, in all other cases; the log may be ahead of it
	At     quota.ID
	// Tail has the records of others after the caller's position, oldest first, at most PageSize. More
	// reports that others follow.
	Tail []Placed
	More bool
}

// PageSize bounds the Tail of an Outcome. A host that is 50 ms away from a store to which others append 15,000 records
// a second is behind by 750.
const PageSize = 1000

// RoomFrames is how many frames the room of a File is for: the record that is appended, and those of this host that
// are read with it.
const RoomFrames = 100

// Placed is a record with its place in a log. Places of one log only grow.
type Placed struct {
	At   quota.ID
	Body []byte
}

// A File keeps the copies of all logs on a host: tables, which are written as a whole about
// once a second, and a tail of frames that were written since. It belongs to one process at a
// time. It is safe for concurrent use, except that only one goroutine may call Fold.
type File interface {
	// View calls f with the tables of a credential as of the last Fold, which are valid until f
	// returns.
	View(credential string, f func(Tables) error) error
	// Head returns what SetHead wrote last, durably; nil in a new file.
	Head() ([]byte, error)
	SetHead(head []byte) error

	// Tail calls f with the frames that no Fold has covered, in the order of writing, up to the
	// first incomplete one. It is called before the first Append.
	Tail(f func(credential string, frame []byte) error) error
	// Room reserves room for the next frames of a credential, n bytes in all, at most RoomFrames. It replaces an earlier
	// reservation for the same credential. It fails, wrapping quota.ErrUnavailable, if there is no room.
	Room(credential string, n int) error
	// Append writes a frame. On return, a crash of the process does not lose it; with sync, nor
	// does a crash of the machine. After an error the frame is not written, unless the error
	// wraps quota.ErrOutcomeUnknown: the sync failed, and every later Append fails.
	Append(credential string, frame []byte, sync bool) error

	// Cut marks the end of the frames that the next Fold covers. No Append may run at the same
	// time.
	Cut()
	// Fold changes the tables, and drops the frames before the last Cut, in one durable step.
	// After an error nothing has changed.
	Fold(changes []TableChange) error

	// Health returns why the file cannot be used, nil if it can, and what of it cannot be written for now.
	Health() (unwritten []string, err error)
	Close() error
}

// Tables are the tables of one credential, and facts. Keys and values are valid until View returns. If
// the checksum of one is wrong, it is missing here, and View fails.
type Tables interface {
	// Get returns the value of a key, nil if there is none.
	Get(t Table, key []byte) []byte
	// Rows yields the rows after a key, in the order of the keys; or those before it, in reverse,
	// if back is set. A nil key then means all.
	Rows(t Table, after []byte, back bool) iter.Seq2[[]byte, []byte]
	// Facts returns the facts; nil in a new file.
	Facts() []byte
}

// A Table is one of the tables of a credential.
type Table int

// The tables.
const (
	EntryTable Table = iota // entries by id; nearly all new keys are the greatest
	NameTable               // ids of grants by request key, oldest first
	MarkTable               // ids of the entries that the log lacks, with empty values
	TableCount
)

// A Row is a row of a table.
type Row struct {
	Table      Table
	Key, Value []byte
}

// A TableChange is the change of one Fold to the tables of a credential.
type TableChange struct {
	Credential string
	Empty      bool   // delete everything first
	Rows       []Row  // new rows, and replacements; a nil value deletes the row
	Facts      []byte // always set
}

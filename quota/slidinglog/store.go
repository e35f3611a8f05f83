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
// records, on a clock of its own. It stores and stamps; it never judges. Any number of
// goroutines may call it at the same time.
type Store interface {
	// Append carries out calls, each on the log of another credential, and returns an
	// outcome for each. It returns when ctx ends, at the latest.
	Append(ctx context.Context, calls []Call) []Outcome
	// Name says which store it is: two hosts with the same name share their logs.
	Name() string
	// Health returns why the store cannot be reached, nil if it can, and the settings under
	// which it could lose records.
	Health(ctx context.Context) (warnings []string, err error)
	Close() error
}

// A Tag is drawn at random for each record. It is written behind one position and behind no
// other, so that two logs which have the same record at the same place agree on everything
// before it.
type Tag [12]byte

// NewTag draws a tag.
func NewTag() (t Tag) {
	rand.Read(t[:])
	return t
}

func (t Tag) String() string { return hex.EncodeToString(t[:]) }

// A Position is where a log ends for somebody: the place of the last record that they know,
// and its tag. The zero Position is the beginning of every log.
type Position struct {
	ID  quota.ID
	Tag Tag
}

// IsZero tells the beginning of a log.
func (p Position) IsZero() bool { return p == Position{} }

// A Call appends a record to the log of a credential, if the log ends At a position and its
// clock is from NotBefore to NotAfter, all in ms since the Unix epoch. The clock of a log is
// the store's, and never before the place of the log's last record. The entries of a record
// are the caller's business.
type Call struct {
	Credential string
	At         Position
	// Body is the record. Its first bytes are its Tag; the store looks at nothing else of
	// it. Empty: nothing is appended, the call is a look.
	Body                []byte
	NotBefore, NotAfter int64 // of a look, neither counts
	// Keep is for how long the hosts need a record: older ones may be dropped by the store,
	// and the log as a whole vanishes when nobody wrote to it for twice as long.
	Keep time.Duration
	// Floor is the greatest time of an entry in the record. The record's place is not
	// before it.
	Floor int64
	// Wipe removes all that the log holds before the record is appended, which then begins
	// at the store's own clock again. The condition is the same.
	Wipe bool
	// Blind appends wherever the log ends.
	Blind bool
}

// A Status says what became of a Call.
type Status uint8

// The statuses of an Outcome.
const (
	// Unknown: nobody knows whether the call was carried out. The same call with the same
	// Body may be made again: it is carried out once at most.
	Unknown Status = iota
	// Failed: the call was not carried out, and will not be.
	Failed
	// End: the log ends at the position. It is the answer to a look.
	End
	// Behind: the caller's record is there, and others follow it: Tail.
	Behind
	// Lost: the record at the caller's position is not there.
	Lost
	// Early and Late: the clock is not yet NotBefore, or past NotAfter.
	Early
	Late
	// Done: the record was appended, and stands At.
	Done
)

// An Outcome answers a Call.
type Outcome struct {
	Status Status
	Err    error // of Unknown and Failed: why
	Clock  int64 // the store's, in ms, in all other cases; the log may be ahead of it
	At     quota.ID
	// Tail has what stands behind the caller's position, oldest first: at most PageSize
	// records. More tells that there are others behind them.
	Tail []Placed
	More bool
}

// PageSize bounds the Tail of an Outcome.
const PageSize = 100

// Placed is a record with its place in a log. Places of one log only grow.
type Placed struct {
	At   quota.ID
	Body []byte
}

// A File keeps the copies of all logs on a host: tables, which are written as a whole about
// once a second, and a tail of frames that were written since. It belongs to one process at a
// time. Any number of goroutines may use it, but for Fold, which one calls at a time.
type File interface {
	// View calls f with the tables of a credential, as the last Fold left them. They, and
	// what they return, are valid until f returns.
	View(credential string, f func(Tables) error) error
	// Head returns what SetHead wrote last, durably; nil of a new file.
	Head() ([]byte, error)
	SetHead(head []byte) error

	// Tail calls f with the frames that no Fold has covered, in the order in which they were
	// written, until the first that is not whole. It is called before the first Append.
	Tail(f func(credential string, frame []byte) error) error
	// Room keeps room for the frames of a credential that are appended next, of n bytes in
	// all: at most PageSize and one more. It replaces what an earlier call kept for the same
	// credential, and fails, wrapping quota.ErrUnavailable, if there is no room.
	Room(credential string, n int) error
	// Append writes a frame. A crash of the process does not lose it on return; nor does one
	// of the machine if sync is true. After an error the frame is not there, unless the
	// error wraps quota.ErrOutcomeUnknown: it could not be synced, and every later Append
	// fails.
	Append(credential string, frame []byte, sync bool) error

	// Cut ends a stretch of the tail: the next Fold covers all frames that were written
	// before. No Append may run at the same time.
	Cut()
	// Fold changes the tables in one durable step, together with what the last Cut said.
	// After an error nothing has changed.
	Fold(changes []TableChange) error

	// Health returns why the file cannot be used, nil if it can, and what an operator
	// should know about it.
	Health() (warnings []string, err error)
	Close() error
}

// Tables are what a File has of one credential: entries by their id, the ids by request key,
// a set of marked ids, and facts. Values are the caller's; the file holds them to a checksum.
type Tables interface {
	// Entry returns the value of an entry, nil if there is none.
	Entry(id quota.ID) ([]byte, error)
	// Entries yields the entries behind an id, oldest first; newest first when back is set,
	// of which a zero id then means all.
	Entries(after quota.ID, back bool) iter.Seq2[Item, error]
	// Named returns the entry of a request key.
	Named(key string) (quota.ID, bool)
	// Marked yields the marked ids behind one, oldest first.
	Marked(after quota.ID) iter.Seq[quota.ID]
	// Facts returns what was written last; nil at first.
	Facts() ([]byte, error)
}

// An Item is an entry as a table has it.
type Item struct {
	ID    quota.ID
	Value []byte
}

// A TableChange is what one Fold does to the tables of a credential, in this order.
type TableChange struct {
	Credential string
	Empty      bool // first, everything goes
	Delete     []quota.ID
	Put        []Item              // entries, new ones and ones that replace others
	Name       map[string]quota.ID // request keys; a zero id removes one
	Mark       map[quota.ID]bool   // ids to mark, and to unmark
	Facts      []byte              // always
}

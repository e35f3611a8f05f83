package clientlimit

import "context"

// A Store keeps records, each at its place until it ends. It decides nothing. Any number of
// goroutines may use it at the same time. It has its own clock, in milliseconds; if that steps
// back, nothing is free earlier.
type Store interface {
	// Swap carries out all swaps at once, each by itself, and sets in each what became of it.
	Swap(ctx context.Context, all []*Swap)
}

// A Place is that of a subject's record. The zero value is that of what hosts share.
type Place struct {
	Group   string // the algorithm, the clients and their windows
	Subject Key
}

// A Swap reads what is at a place. One that Writes replaces it, if it is still what was Read at
// ReadMs, and the clock is not before that, nor past NotAfterMs; a record is empty where there is none.
type Swap struct {
	Place
	Writes     bool
	Read       []byte
	ReadMs     int64
	NotAfterMs int64  // 0: at any time
	Next       []byte // from now on; empty: none
	EndsMs     int64  // when nothing in Next counts any more

	// What became of it. An error is a quota.ErrUnavailable if nothing was written, and a
	// quota.ErrOutcomeUnknown if Next may have been.
	Swapped bool
	Found   []byte // unless Swapped
	NowMs   int64  // when it was found, or swapped
	Err     error
}

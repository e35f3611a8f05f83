package quota

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// A Request asks to spend before Count calls of an operation are made upstream.
type Request struct {
	Credential string
	Operation  string
	Count      Units // 1 … MaxUnits
	// RequestID names the upstream call, so that asking again after a lost
	// reply debits once. Optional, at most MaxRequestID bytes; scoped to the
	// caller's pass, to the remote caller, or to the credential for callers outside a pass.
	RequestID  string
	UseReserve bool // may spend the reserve; whether the caller is allowed to is checked before
	// Optional says that the caller can do without the call: a denial does not mean that its budget is exhausted.
	Optional bool
	// Proxied says that the proxy asks, for a call that it sends itself: it alone knows
	// whether the call was sent, so the pass may not settle the grant.
	Proxied bool
	Caller  Caller
}

// A Caller says who asks, for the log and for the scope of request ids.
type Caller struct {
	Job    string // of the pass that asks; empty outside a pass
	Region string
	Run    string
	// Attempt counts the earlier passes of the region in the run, which failed.
	Attempt int
	UID     int // of the asking process; -1 when unknown
	// Remote names a caller on another host without a daemon; empty: the caller is on this host.
	Remote string
}

// RemotePrefix begins the name of a remote caller in the log, and in Limit.Jobs. No job's name has a slash.
const RemotePrefix = "remote/"

// By names the caller in the log: the job of a pass, "remote/" and the name of a remote caller, else "@" and the uid.
func (c Caller) By() string {
	switch {
	case c.Job != "":
		return c.Job
	case c.Remote != "":
		return RemotePrefix + c.Remote
	case c.UID >= 0:
		return "@" + strconv.Itoa(c.UID)
	default:
		return "@"
	}
}

// CountedAs names the caller as Limit.Jobs does: as By does, but "" for a user.
func (c Caller) CountedAs() string {
	if by := c.By(); !strings.HasPrefix(by, "@") {
		return by
	}
	return ""
}

// A Word is what the upstream's answer to a call of a pass means for the pass. The zero Limit
// and Refuses: the call was served.
type Word struct {
	Operation string
	Limit     string    // that is exhausted, and closed
	Until     time.Time // when it opens
	Refuses   string    // why no call is served until a person changes something: a bad key, a quota of 0
	Unclear   bool      // nothing of that, and not that the call was served: the answer is not understood
}

// A Bearer is the pass that a run token stands for, and how it spends.
type Bearer struct {
	Caller     Caller
	Credential string // the only one that it spends from
	UseReserve bool   // its requests may spend the reserve, too

	Deadline time.Time     // when the pass is ended; zero: not known yet
	MaxWait  time.Duration // how long a run of its job waits for a limit
}

// EndsBefore reports whether the pass is ended before an instant.
func (b Bearer) EndsBefore(at time.Time) bool { return !b.Deadline.IsZero() && at.After(b.Deadline) }

// CanWait reports whether a refusal is a matter of pace, and not the end of the budget: it ends
// before the pass does, or within what a run of its job waits.
func (b Bearer) CanWait(d Decision) bool {
	return d.Denied() && (!b.EndsBefore(d.RetryAt) || d.RetryAfter <= b.MaxWait)
}

// Answer returns a decision as the pass is to have it. A denial that ends after the pass names no
// time to wait: a client that obeys would sleep until it is ended.
func (b Bearer) Answer(d Decision) Decision {
	if d.Denied() && b.EndsBefore(d.RetryAt) {
		d.RetryAfter = 0
		d.Hint = "do not wait: the pass is ended before that, at " + b.Deadline.UTC().Format(time.RFC3339)
	}
	return d
}

// MaxRequestID is the greatest length of a request id, in bytes.
const MaxRequestID = 128

// Key is the request id within its scope: ids of one pass, or of one remote caller, never
// equal those of another. It is empty when the request has no id.
func (r Request) Key() string {
	switch {
	case r.RequestID == "":
		return ""
	case r.Caller.Remote != "":
		return "@" + r.Caller.Remote + "/" + r.RequestID // no run's id begins with @
	case r.Caller.Run == "":
		return "/" + r.RequestID
	case r.Caller.Attempt > 0:
		return fmt.Sprintf("%s.%d/%s/%s", r.Caller.Run, r.Caller.Attempt, url.PathEscape(r.Caller.Region), r.RequestID)
	default:
		return r.Caller.Run + "/" + url.PathEscape(r.Caller.Region) + "/" + r.RequestID
	}
}

// ID returns the id of the entry that a grant of the request writes: the same for the same Key, else a new one.
func (r Request) ID() ID {
	if key := r.Key(); key != "" {
		return idOf(key)
	}
	return NewID()
}

// Validate returns what is malformed about the request, or nil. It does not ask
// whether its credential and operation exist.
func (r Request) Validate() error {
	if r.Operation == "" {
		return fmt.Errorf("operation is missing")
	}
	if r.Count < 1 || r.Count > MaxUnits {
		return fmt.Errorf("count must be a whole number from 1 to %d", MaxUnits)
	}
	switch id := r.RequestID; {
	case len(id) > MaxRequestID:
		return fmt.Errorf("request_id has %d bytes, at most %d are allowed", len(id), MaxRequestID)
	case strings.ContainsRune(id, utf8.RuneError): // encoding/json reads one where a text is not valid
		return fmt.Errorf("request_id is not valid UTF-8")
	}
	for _, c := range r.RequestID {
		if !unicode.IsPrint(c) {
			return fmt.Errorf("request_id holds the unprintable character %U", c)
		}
	}
	return nil
}

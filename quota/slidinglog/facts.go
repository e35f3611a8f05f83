package slidinglog

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"quotad/quota"
)

// MarshalText implements encoding.TextMarshaler.
func (t Tag) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (t *Tag) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(t) {
		return fmt.Errorf("not a tag: %.30q", text)
	}
	copy(t[:], b)
	return nil
}

// facts are what a copy knows beside the entries.
type facts struct {
	Version  int
	Store    string // the name of the store whose log this is a copy of
	Position Position
	Gen      int64    // the generation of the log
	Void     int64    // entries of lower generations are void
	VoidTo   int64    // up to this time, in ms
	Newest   int64    // the greatest generation of an entry
	Since    int64    // in ms: entries until then may have been dropped
	Expired  quota.ID // entries up to this one are needed no more
	Hosts    map[HostID]hostFacts
	Closed   map[string]closing
	Lent     map[string]lending
	Quiet    *quiet
	// Loose are corrections of entries that are not there: they apply if those come.
	Loose []loose
	// Away are the grants that this host made on its own, while the longest window has them.
	Away []awayGrant
	// Unplaced counts the entries that the log lacks, as far as is known; Missing, those of
	// them that were in it once.
	Unplaced, Missing int
}

// An awayGrant is what a grant took of the allowance for outages.
type awayGrant struct {
	ID    quota.ID
	Units quota.Units
}

// factsVersion is that of what facts and entries look like in a file.
const factsVersion = 1

// A hostFacts is what is known of a host that writes to the log.
type hostFacts struct {
	Last    int64 // the place of its last record, in ms
	Hello   int64 // that of its last hello, 0: none
	Run     uint32
	Bye     bool // it ended in order, and wrote nothing since
	Label   string
	Terms   []string
	Longest time.Duration
}

// A closing is what closed or opened a limit last, by its own time.
type closing struct {
	ID    quota.ID
	Until time.Time // zero: it opened it
	Says  string
	By    string
}

// A quiet period is the time after a loss in which nothing is granted.
type quiet struct {
	Name  Tag // of the record that began it last
	Waits map[HostID]bool
	Here  map[HostID]bool
}

// A loose correction changes an entry that is not there.
type loose struct{ By, Of quota.ID }

func (f *facts) encode() []byte {
	f.Version = factsVersion
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return b
}

func decodeFacts(b []byte) (f facts, err error) {
	if len(b) > 0 {
		if err := json.Unmarshal(b, &f); err != nil {
			return f, fmt.Errorf("its facts are damaged: %w", err)
		}
		if f.Version != factsVersion {
			return f, ErrVersion
		}
	}
	if f.Hosts == nil {
		f.Hosts = make(map[HostID]hostFacts)
	}
	if f.Closed == nil {
		f.Closed = make(map[string]closing)
	}
	if f.Lent == nil {
		f.Lent = make(map[string]lending)
	}
	return f, nil
}

// closed returns the limits that are closed.
func (f *facts) closed() map[string]quota.Closed {
	var closed map[string]quota.Closed
	for name, c := range f.Closed {
		if c.Until.IsZero() {
			continue
		}
		if closed == nil {
			closed = make(map[string]quota.Closed)
		}
		closed[name] = quota.Closed{Since: c.ID.Time(), Until: c.Until, Says: c.Says, By: c.By}
	}
	return closed
}

// known returns the hosts that wrote to the log while its entries count, in their order.
func (f *facts) known(oldest int64) (hosts []HostID) {
	for host, h := range f.Hosts {
		if h.Last > oldest && !h.Bye {
			hosts = append(hosts, host)
		}
	}
	slices.SortFunc(hosts, compareHosts)
	return hosts
}

func compareHosts(x, y HostID) int { return slices.Compare(x[:], y[:]) }

// heardOf records who wrote, and what they said. A turn is heard by nobody who waits: its host
// has nothing that anybody could miss.
func (f *facts) heardOf(at quota.ID, r *Record) {
	kind := StatementKind(0)
	if r.Says != nil {
		kind = r.Says.Kind
	}
	host, h, s := r.Host, f.Hosts[r.Host], r.Says
	h.Last, h.Run, h.Bye = max(h.Last, at.Ms), r.Run, kind == Bye
	if kind == Hello {
		h.Hello, h.Label, h.Terms, h.Longest = at.Ms, s.Label, s.Terms, s.Longest
	}
	if kind != Turn {
		f.Hosts[host] = h
	}
	switch kind {
	case Missing:
		if f.Quiet == nil {
			f.Quiet = &quiet{Waits: make(map[HostID]bool)}
		}
		// Who was there before may lack what this loss took: all look again.
		f.Quiet.Name, f.Quiet.Here = r.Tag, make(map[HostID]bool)
		f.Quiet.wait(s.Waits)
		f.Quiet.Waits[host] = true
	case Here:
		if f.Quiet != nil {
			f.Quiet.wait(s.Waits)
			f.Quiet.Waits[host] = true
			f.Quiet.Here[host] = true
		}
	case Whole:
		f.Quiet = nil
	}
}

func (q *quiet) wait(hosts []HostID) {
	for _, host := range hosts {
		q.Waits[host] = true
	}
}

// complete tells whether all that are waited for are here.
func (q *quiet) complete() bool {
	for host := range q.Waits {
		if !q.Here[host] {
			return false
		}
	}
	return true
}

func (q *quiet) clone() *quiet {
	if q == nil {
		return nil
	}
	return &quiet{Name: q.Name, Waits: maps.Clone(q.Waits), Here: maps.Clone(q.Here)}
}

package slidinglog

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"quotad/quota"
)

// facts are the state of a copy apart from the entries. They are kept as JSON.
type facts struct {
	Version  int
	Store    string // the name of the store that has the log
	Position Position
	Gen      int64    // the generation of the log
	Void     int64    // entries of lower generations are void …
	VoidTo   int64    // … up to this time, in ms
	Newest   int64    // the greatest generation of an entry
	Since    int64    // in ms: entries until then may have been dropped
	Expired  quota.ID // entries up to this one have expired
	Hosts    map[HostID]hostFacts
	Closed   map[string]closing
	Lent     map[string]lending
	Quiet    *quiet
	// Loose are corrections of entries that the set lacks. They apply when those come.
	Loose []loose
	// Away are the offline grants of this host in the longest window.
	Away []offlineGrant
	// Unplaced counts the entries that the log lacks, as far as this host knows, and Missing those
	// of them that the log had before.
	Unplaced, Missing int
}

// An offlineGrant is what a grant took from the allowance.
type offlineGrant struct {
	ID    quota.ID
	Units quota.Units
}

// factsVersion is the version of facts and entries in a file.
const factsVersion = 1

// A hostFacts is the state of a host that writes to the log.
type hostFacts struct {
	Last    int64 // the place of its last record, in ms
	Hello   int64 // that of its last hello; 0: none
	Run     uint32
	Bye     bool // it has stopped in order
	Label   string
	Terms   []string
	Longest time.Duration
}

// A quiet period is the time after a loss in which nothing is granted.
type quiet struct {
	Name  Tag             // the tag of the Missing record that began it last
	Waits map[HostID]bool // the hosts to wait for
	Here  map[HostID]bool // those of them that have put back their entries
}

// A loose correction corrects an entry that the set lacks.
type loose struct{ By, Of quota.ID }

func (f *facts) encode() []byte {
	f.Version = factsVersion
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return b
}

func decodeFacts(b []byte) (facts, error) {
	f := facts{Hosts: make(map[HostID]hostFacts), Closed: make(map[string]closing), Lent: make(map[string]lending)}
	if len(b) == 0 {
		return f, nil
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, fmt.Errorf("its facts are damaged: %w", err)
	}
	if f.Version != factsVersion {
		return f, ErrVersion
	}
	return f, nil
}

// known returns the hosts that have written to the log since a time, sorted.
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

// record records the writer of a record, and its statement. The writer of a turn does not count: it
// may have no entries to wait for.
func (f *facts) record(r *Record) {
	f.Gen = max(f.Gen, r.Gen)
	var says Statement
	if r.Says != nil {
		says = *r.Says
	}
	if says.Kind == Turn {
		return
	}
	h := f.Hosts[r.Host]
	h.Last, h.Run, h.Bye = max(h.Last, r.at.At.Ms), r.Run, says.Kind == Bye
	if says.Kind == Hello {
		h.Hello, h.Label, h.Terms, h.Longest = r.at.At.Ms, says.Label, says.Terms, says.Longest
	}
	f.Hosts[r.Host] = h
	switch says.Kind {
	case Missing:
		if f.Quiet == nil {
			f.Quiet = &quiet{Waits: make(map[HostID]bool)}
		}
		// A host that was here may lack what this loss took, so all hosts look again.
		f.Quiet.Name, f.Quiet.Here = r.Tag, make(map[HostID]bool)
	case Whole:
		f.Quiet = nil
	}
	if q := f.Quiet; q != nil && (says.Kind == Missing || says.Kind == Here) {
		q.Waits[r.Host] = true
		for _, host := range says.Waits {
			q.Waits[host] = true
		}
		if says.Kind == Here {
			q.Here[r.Host] = true
		}
	}
}

// renew records what a reset voids, and reports whether it voids more than earlier resets. Two hosts
// may begin the same generation, each on a log that the other one had lost; the later one counts.
func (f *facts) renew(by *quota.Entry) bool {
	renews := f.renews(by)
	if renews {
		f.Gen, f.Void, f.VoidTo = max(f.Gen, by.Gen), by.Gen, by.Until.UnixMilli()
	}
	return renews
}

func (f *facts) renews(by *quota.Entry) bool {
	return by.Gen > f.Void || by.Gen == f.Void && by.Until.UnixMilli() > f.VoidTo
}

// voids reports whether a reset has voided an entry. An entry that was never placed is not void, nor
// is one that is later than the reset.
func (f *facts) voids(e *quota.Entry) bool {
	return e.Gen != quota.Unplaced && e.Gen < f.Void && e.ID.Ms <= f.VoidTo
}

// termsOf describes each limit and operation of a credential, for other hosts to compare.
func termsOf(c *quota.Credential) (lines []string) {
	for _, limit := range c.Limits {
		line := fmt.Sprintf("limit %s: %s %s", limit.Name, limit.Units.Text(), limit.Describe())
		if limit.Reserve > 0 {
			line += fmt.Sprintf(", %s in reserve", quota.Thousands(limit.Reserve))
		}
		lines = append(lines, line)
	}
	for operation, cost := range c.Operations {
		text := cost.Every.Text()
		if cost.Per != nil {
			var parts []string
			for _, limit := range slices.Sorted(maps.Keys(cost.Per)) {
				parts = append(parts, fmt.Sprintf("%s of %s", cost.Per[limit].Text(), limit))
			}
			text = strings.Join(parts, ", ")
		}
		lines = append(lines, "operation "+operation+": "+text)
	}
	slices.Sort(lines)
	return lines
}

// differences describes how the configuration of other hosts differs from this one's.
func (f *facts) differences(self HostID, credential string) (found []string) {
	mine, ok := f.Hosts[self]
	if !ok {
		return nil
	}
	for _, host := range slices.SortedFunc(maps.Keys(f.Hosts), compareHosts) {
		theirs := f.Hosts[host]
		if host == self || theirs.Hello == 0 || theirs.Bye {
			continue
		}
		if text := quota.DifferingTerms(theirs.Label, theirs.Terms, mine.Terms); text != "" {
			found = append(found, credential+": "+text)
		}
	}
	return found
}

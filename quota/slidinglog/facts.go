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
	Gen      int64     // the generation of the log
	Resets   []voiding // what resets void; no other covers one of these
	Newest   int64     // the greatest generation of an entry
	Since    int64     // in ms: entries until then may have been dropped
	Expired  quota.ID  // entries up to this one have expired
	Hole     int64     // the place, in ms, of a record before which the log lacked others; 0: none
	Hosts    map[HostID]hostFacts
	// Doubtful is until when, in ms, the copy may count entries that a log has lost and no host puts back, because
	// they leave the windows.
	Doubtful int64
	Quiet    *quiet
	Loss     *loss // nil: the log has the record at Position
	Complete bool  // the log was read to its end since its beginning was last read
	// Standing are the newest closing or opening of each limit, in the order of their ids. Some may have
	// ended.
	Standing []mark
	// Dangling are corrections of entries that the set lacks. They apply when those come.
	Dangling []dangling
	// Offline are the offline grants of this host in the longest window.
	Offline []offlineGrant
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
const factsVersion = 5

// A hostFacts is the state of a host that writes to the log.
type hostFacts struct {
	Last    int64 // the place of its last record, in ms
	Hello   int64 // that of its last hello; 0: none
	Run     uint32
	Left    bool // it has stopped in order
	Label   string
	Terms   []string
	Changed int64 // the place of the hello since which they are these; 0: the first one that is known
	Longest time.Duration
}

// keep returns how long the host needs an entry, as far as it has said.
func (h hostFacts) keep() time.Duration {
	if h.Hello == 0 {
		return minKeep
	}
	return max(minKeep, h.Longest)
}

// A quiet period is the time after a loss in which nothing is granted.
type quiet struct {
	Name    Tag             // the tag of the LossFound record that began it last
	Awaited map[HostID]bool // the hosts to wait for
	Done    map[HostID]bool // those of them that have put back their entries
}

// A dangling correction corrects an entry that the set lacks.
type dangling struct{ By, Of quota.ID }

func (f *facts) encode() []byte {
	f.Version = factsVersion
	b, err := json.Marshal(f)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return b
}

func decodeFacts(b []byte) (facts, error) {
	f := facts{Hosts: make(map[HostID]hostFacts)}
	if len(b) == 0 {
		return f, nil
	}
	if err := json.Unmarshal(b, &f); err != nil {
		return f, fmt.Errorf("its facts are damaged: %w", err)
	}
	if f.Version != factsVersion {
		return f, ErrFileVersion
	}
	return f, nil
}

// known returns the hosts that have written to the log since a time, sorted.
func (f *facts) known(oldest int64) (hosts []HostID) {
	for host, h := range f.Hosts {
		if h.Last > oldest && !h.Left {
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
	if f.Gen = max(f.Gen, r.Gen); r.Gen == f.Gen { // an earlier one may lack what a reset has voided
		f.Since = max(f.Since, r.Since)
	}
	var says Statement
	if r.Says != nil {
		says = *r.Says
	}
	if says.Kind == Yield {
		return
	}
	h := f.Hosts[r.Host]
	again := f.Loss != nil && r.Gen <= f.Loss.Gen && r.at.At.Ms < h.Last // in a log that is read again
	if h.Run = r.Run; !again {
		h.Last, h.Left = max(h.Last, r.at.At.Ms), says.Kind == Leaving
	}
	if says.Kind == Hello {
		if h.Terms != nil && !slices.Equal(h.Terms, says.Terms) {
			h.Changed = r.at.At.Ms
		}
		h.Hello, h.Label, h.Terms, h.Longest = r.at.At.Ms, says.Label, says.Terms, says.Longest
	}
	f.Hosts[r.Host] = h
	switch says.Kind {
	case LossFound:
		if f.Quiet == nil {
			f.Quiet = &quiet{Awaited: make(map[HostID]bool)}
		}
		// A host that was here may lack what this loss took, so all hosts look again.
		f.Quiet.Name, f.Quiet.Done = r.Tag, make(map[HostID]bool)
	case Recovered:
		f.Quiet = nil
	}
	if q := f.Quiet; q != nil { // what it writes, it puts back, and there may be more
		q.Awaited[r.Host] = true
		for _, host := range says.Hosts {
			q.Awaited[host] = true
		}
		if says.Kind == PutBack {
			q.Done[r.Host] = true
		}
	}
}

// forgetHello has a host say hello again, because the log may lack its hello: or it and a clone of it would
// never notice each other.
func (f *facts) forgetHello(host HostID) {
	if said, known := f.Hosts[host]; known {
		said.Hello = 0
		f.Hosts[host] = said
	}
}

// A voiding is what a reset voids: the entries of lower generations up to a time, in ms.
type voiding struct {
	Gen, To int64
	By      quota.ID // the reset's
}

func voidingOf(reset *quota.Entry) voiding {
	return voiding{reset.Gen, reset.Body.(quota.Reset).Until.UnixMilli(), reset.ID}
}

// covers reports whether a reset voids all that another one voids.
func (v voiding) covers(other voiding) bool { return v.Gen >= other.Gen && v.To >= other.To }

// renew records what a reset voids, and reports whether it voids more than the resets before. A new
// reset covers all that its host knows. But two hosts may each begin a generation on a log that lost
// the other one's. Then neither may cover the other, and both count.
func (f *facts) renew(reset *quota.Entry) bool {
	renews := f.renews(reset)
	if renews {
		v := voidingOf(reset)
		f.Gen = max(f.Gen, v.Gen)
		f.Resets = append(slices.DeleteFunc(f.Resets, v.covers), v)
	}
	return renews
}

func (f *facts) renews(reset *quota.Entry) bool {
	v := voidingOf(reset)
	return !slices.ContainsFunc(f.Resets, func(other voiding) bool { return other.covers(v) })
}

// voids reports whether a reset has voided an entry. An entry that was never placed is not void, nor
// is one that is later than the reset. Nor is a reset up to a later time: it voids more.
func (f *facts) voids(e *quota.Entry) bool {
	last := e.ID.Ms
	if r, ok := e.Body.(quota.Reset); ok {
		last = max(last, r.Until.UnixMilli())
	}
	return e.Gen != quota.Unplaced && slices.ContainsFunc(f.Resets, func(v voiding) bool { return e.Gen < v.Gen && last <= v.To })
}

// voidTo returns the latest time up to which a reset voids entries, in ms.
func (f *facts) voidTo() (ms int64) {
	for _, v := range f.Resets {
		ms = max(ms, v.To)
	}
	return ms
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
		if host == self || theirs.Hello == 0 || theirs.Left {
			continue
		}
		if text := quota.DifferingTerms(theirs.Label, theirs.Terms, mine.Terms); text != "" {
			found = append(found, credential+": "+text)
		}
	}
	return found
}

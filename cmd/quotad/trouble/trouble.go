package trouble

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// A Trouble needs a person. Kind and Of are its name.
type Trouble struct {
	Kind  Kind      `json:"kind"`
	Of    string    `json:"of"`             // "limit youtube daily", "credential youtube", "job trending", "ledger", "host"
	Says  string    `json:"says"`           // what is wrong, in one sentence that names it
	Do    string    `json:"do,omitempty"`   // a command that mends it, or shows more
	Grave bool      `json:"grave"`          // calls or runs are lost now
	Since time.Time `json:"since,omitzero"` // zero: as long as it is known
}

// A Kind says what is wrong.
type Kind string

// The kinds, the worst first.
const (
	Ledger      Kind = "ledger"      // it cannot be written or read
	Recovering  Kind = "recovering"  // a lost log is put back
	Key         Kind = "key"         // the upstream refuses it, or its command prints none
	Unreachable Kind = "unreachable" // the upstream does not answer
	NotKept     Kind = "not kept"    // records of a job may be lost
	Closed      Kind = "closed"      // by the upstream, before our own count was used up
	Starved     Kind = "starved"     // a job lacks units that it should have
	Failing     Kind = "failing"     // the last pass of a region failed, or no run ended well
	Disk        Kind = "disk"        // it is full, or nearly
	File        Kind = "file"        // the configuration that runs is not the one on disk
	Dry         Kind = "runs dry"    // a limit will be used up before its units come back
	Spent       Kind = "overspent"   // a settlement took a limit past its budget
	Server      Kind = "server"      // Redis may lose or double grants
	Hosts       Kind = "hosts"       // they count or schedule differently
	Clock       Kind = "clock"       // it is wrong, or was
	Paused      Kind = "paused"      // for long, without an end
	Lost        Kind = "lost"        // a log was lost, and put back
)

var order = [...]Kind{Ledger, Recovering, Key, Unreachable, NotKept, Closed, Starved, Failing, Disk, File,
	Dry, Spent, Server, Hosts, Clock, Paused, Lost}

// Nothing is what a status says without any trouble.
const Nothing = "nothing needs attention"

// A State is what is known of a daemon. A zero part is as it should be.
type State struct {
	Ledger      LedgerState
	Losses      []Loss
	Disk        DiskState
	File        FileState
	Credentials []CredentialState
	Jobs        []jobs.Status
	ClockWas    time.Time // what the host's clock showed before it was set back; zero: it was not
	ClockBy     time.Duration
}

// List returns what needs a person, the worst first. The times in its sentences are in the zone of now.
func List(s State, now time.Time) []Trouble {
	l := &list{State: s, now: now}
	l.ledger()
	l.host()
	for i := range s.Credentials {
		l.credential(&s.Credentials[i])
	}
	for i := range s.Jobs {
		l.job(&s.Jobs[i])
	}
	rank := func(t Trouble) int {
		if n := slices.Index(order[:], t.Kind); t.Grave {
			return n
		} else {
			return n + len(order)
		}
	}
	slices.SortStableFunc(l.found, func(a, b Trouble) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(a.Of, b.Of)) })
	return l.found
}

// First returns what the status says first.
func First(list []Trouble) string {
	if len(list) == 0 {
		return Nothing
	}
	return list[0].Says
}

// A list is one in progress.
type list struct {
	State
	now   time.Time
	found []Trouble
}

// maxSays bounds a sentence: upstreams and scripts write much of it.
const maxSays = 300

// add adds a trouble. Two of one name become one.
func (l *list) add(t Trouble) {
	t.Says = strings.TrimSuffix(quota.Clipped(t.Says, maxSays), ".")
	for i := range l.found {
		if known := &l.found[i]; known.Kind == t.Kind && known.Of == t.Of {
			known.Says, known.Grave = quota.Clipped(known.Says+"; "+t.Says, maxSays), known.Grave || t.Grave
			return
		}
	}
	l.found = append(l.found, t)
}

func (l *list) at(t time.Time) string { return At(t, l.now) }

// At writes a time as short as it is clear.
func At(t, now time.Time) string {
	t = t.In(now.Location())
	day := func(t time.Time) string { return t.Format(time.DateOnly) }
	switch apart := t.Sub(now).Abs(); {
	case day(t) == day(now):
		return t.Format("15:04")
	case apart < 6*24*time.Hour:
		return t.Format("Mon 15:04")
	case apart < 300*24*time.Hour:
		return t.Format("2 Jan 15:04")
	}
	return day(t)
}

// named joins the first names of a list, and counts the others.
func named(names []string) string {
	const most = 2
	text := ""
	for i, name := range names[:min(len(names), most)] {
		if i > 0 {
			text += ", "
		}
		text += quota.Clipped(name, 40)
	}
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

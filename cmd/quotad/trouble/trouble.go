package trouble

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/quota"
)

// A Trouble needs a person. Kind, Of and Cause are its name.
type Trouble struct {
	Kind  Kind
	Of    string    // "limit youtube daily", "credential youtube", "job trending", "ledger", "host"
	Cause string    // of a kind that has several; another one is another trouble
	Says  string    // what is wrong, in one sentence that names it
	Do    string    // a command that mends it, or shows more
	Grave bool      // calls or runs are lost now, or within the hour
	Since time.Time // zero: as long as it is known
}

// A Kind says what is wrong.
type Kind string

const (
	Ledger      Kind = "ledger"
	Key         Kind = "key"
	Unreachable Kind = "unreachable"
	Disk        Kind = "disk"
	Closed      Kind = "closed"
	Starved     Kind = "starved"
	Dry         Kind = "dry"
	Failing     Kind = "failing"
	Hosts       Kind = "hosts"
	File        Kind = "file"
	Server      Kind = "server"
	Uncounted   Kind = "uncounted"
	Lost        Kind = "lost"
)

// Kinds has each kind in its place, the worst first. The table of OPERATING.md says when each is one.
var Kinds = [...]Kind{Ledger, Key, Unreachable, Disk, Closed, Starved, Dry, Failing, Hosts, File, Server, Uncounted, Lost}

// Nothing is what a status says without any trouble, Scarce what it says then if the schedule lacks units.
const Nothing, Scarce = "nothing needs attention", "nothing is broken, but units are short"

// A State is what is known of a daemon. A zero part is as it should be.
type State struct {
	Ledger      LedgerState
	Losses      []Loss
	Disk        DiskState
	File        FileState
	Credentials []CredentialState
	Jobs        []jobs.Status
	Idle        map[string]int // by job: how many of its last runs there are, of which each ended well and made no call
	ClockWas    time.Time      // what the host's clock showed before it was set back; zero: it was not
	ClockBy     time.Duration
	Kills       []time.Time // when quotad began again after it was killed, since its last orderly stop
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
		place := slices.Index(Kinds[:], t.Kind)
		if !t.Grave {
			place += len(Kinds)
		}
		return place
	}
	slices.SortStableFunc(l.found, func(a, b Trouble) int { return rank(a) - rank(b) })
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
		if known := &l.found[i]; known.name() == t.name() {
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
	text := quota.Clipped(strings.Join(names[:min(len(names), most)], ", "), 80)
	if more := len(names) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

package redisledger

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"quotad/quota"
)

// A summary is all that a start needs to know of a journal.
type summary struct {
	broken int // lines that cannot be read
	marks  map[string]mark
	grants map[string]map[quota.ID]offlineGrant // by credential: pending, or young
	closed map[string]map[string]closing        // by credential and limit: what closed it
}

// A mark is what is known of a credential's log.
type mark struct {
	credential string
	position
	used    map[string]quota.Units
	daemons map[string]time.Time // that wrote to it, and when
}

// A closing is the entry of a limit that is closed, and what it says.
type closing struct {
	id     quota.ID
	text   string
	closed quota.Closed
}

func newSummary() summary {
	return summary{
		marks: make(map[string]mark), grants: make(map[string]map[quota.ID]offlineGrant),
		closed: make(map[string]map[string]closing),
	}
}

// take takes in what a line says.
func (s *summary) take(line string) {
	if line == headEnd {
		return
	}
	words := strings.SplitN(line, " ", 5)
	if len(words) < 4 {
		s.broken++
		return
	}
	name := words[1]
	switch id, err := quota.ParseID(words[min(3, len(words)-1)]); {
	case words[0] == "m" && err == nil && len(words) == 5:
		used, daemons, _ := strings.Cut(words[4], " ")
		m := mark{credential: name, position: position{epoch: unword(words[2]), newest: id}, used: unitsOf(used)}
		m.daemons = parseDaemons(daemons)
		s.noteMark(m)
	case words[0] == "e" && err == nil && len(words) == 5:
		s.noteEntry(name, words[2], id, words[4])
	case words[0] == "c":
		id, err := quota.ParseID(words[2])
		if err != nil {
			s.broken++
			return
		}
		s.noteClosing(name, id, strings.Join(words[3:], " "))
	case words[0] == "o" && len(words) == 5:
		id, err1 := quota.ParseID(words[2])
		g, err2 := readOffline(id, words[3], words[4])
		if err1 != nil || err2 != nil {
			s.broken++
			return
		}
		s.noteOffline(name, g)
	case words[0] == "b":
		id, err := quota.ParseID(words[2])
		if err != nil {
			s.broken++
			return
		}
		s.noteReplayed(name, id, words[3])
	default:
		s.broken++
	}
}

func unitsOf(charges string) map[string]quota.Units {
	units := make(map[string]quota.Units)
	for _, charge := range parseCharges(charges) {
		units[charge.Limit] = charge.Units
	}
	return units
}

func readOffline(id quota.ID, settledTo, text string) (offlineGrant, error) {
	e, err := parseEntry(id, text)
	if err != nil || e.Kind != quota.KindGrant {
		return offlineGrant{}, errors.Join(errReply, err)
	}
	return offlineGrant{
		id: id, operation: e.Operation, count: e.Count, digest: text[strings.LastIndexByte(text, ' ')+1:],
		text: text, charges: e.Charges, units: quota.Max(e.Charges), settledTo: settledTo, written: true, pending: true,
	}, nil
}

// noteMark takes in a mark. Where an entry has been written since it was taken, only the
// daemons in it are news.
func (s *summary) noteMark(m mark) {
	if before := s.marks[m.credential]; before.epoch == m.epoch && m.newest.Less(before.newest) {
		before.daemons = m.daemons
		m = before
	}
	s.marks[m.credential] = m
}

// noteEntry takes in an entry of a log. What it counts is used, until the next mark says what is;
// an entry that is written again, beside its settlement, counts once.
func (s *summary) noteEntry(name, epoch string, id quota.ID, text string) {
	m := s.marks[name]
	if m.credential == "" {
		m = mark{credential: name, used: make(map[string]quota.Units)}
	}
	if m.epoch != epoch || m.newest.Less(id) {
		m.position = position{epoch: epoch, newest: id}
		m.count(id, text)
	}
	s.marks[name] = m
	s.noteClosing(name, id, text)
}

// count counts an entry that adds to the log.
func (m *mark) count(id quota.ID, text string) {
	if !strings.HasPrefix(text, "s ") {
		list, _, _ := strings.Cut(text, " ")
		for _, charge := range parseCharges(strings.TrimLeft(list, "gu")) {
			m.used[charge.Limit] += charge.Units
		}
		return
	}
	if e, err := parseEntry(id, text); err == nil {
		for i, charge := range e.After {
			m.used[charge.Limit] += charge.Units - e.Before[i].Units
		}
	}
}

// noteClosing takes in an entry that closes a limit, or opens it, or all of them.
func (s *summary) noteClosing(name string, id quota.ID, text string) {
	if text == "" || strings.IndexByte("cor", text[0]) < 0 {
		return
	}
	e, err := parseEntry(id, text)
	switch {
	case err != nil:
		s.broken++
	case e.Kind == quota.KindReset:
		delete(s.closed, name)
	case e.Kind == quota.KindOpening:
		delete(s.closed[name], e.Limit)
	case e.Kind == quota.KindClosing:
		if s.closed[name] == nil {
			s.closed[name] = make(map[string]closing)
		}
		s.closed[name][e.Limit] = closing{id: id, text: text, closed: e.Closed()}
	}
}

func (s *summary) noteOffline(name string, g offlineGrant) {
	if s.grants[name] == nil {
		s.grants[name] = make(map[quota.ID]offlineGrant)
	}
	s.grants[name][g.id] = g
}

// noteReplayed takes in that an offline grant is in the log as it was then.
func (s *summary) noteReplayed(name string, id quota.ID, settledTo string) {
	if g, ok := s.grants[name][id]; ok && g.settledTo == settledTo {
		g.pending = false
		s.noteOffline(name, g)
	}
}

// head returns the lines that say it all, without what is older than anything kept.
func (s *summary) head(oldest int64) []byte {
	var head bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(s.marks)) {
		head.WriteString(s.marks[name].line())
	}
	for name, limits := range s.closed {
		maps.DeleteFunc(limits, func(_ string, c closing) bool { return c.closed.Until.UnixMilli() < oldest })
		for _, limit := range slices.Sorted(maps.Keys(limits)) {
			fmt.Fprintf(&head, "c %s %s %s\n", name, limits[limit].id, limits[limit].text)
		}
	}
	for name, grants := range s.grants {
		maps.DeleteFunc(grants, func(id quota.ID, g offlineGrant) bool { return !g.pending && id.Ms < oldest })
		for _, id := range slices.SortedFunc(maps.Keys(grants), quota.ID.Compare) {
			g := grants[id]
			head.WriteString(g.line(name))
			if !g.pending {
				head.WriteString(g.replayedLine(name))
			}
		}
	}
	return head.Bytes()
}

func (m mark) line() string {
	used := formatCharges(m.used, slices.Sorted(maps.Keys(m.used)))
	return fmt.Sprintf("m %s %s %s %s %s\n", m.credential, word(m.epoch), m.newest, cmp.Or(used, "-"), formatDaemons(m.daemons))
}

func (g *offlineGrant) line(credential string) string {
	return fmt.Sprintf("o %s %s %s %s\n", credential, g.id, g.settledTo, g.text)
}

func (g *offlineGrant) replayedLine(credential string) string {
	return fmt.Sprintf("b %s %s %s\n", credential, g.id, g.settledTo)
}

// parseDaemons reads "name@ms name@ms": which daemons wrote to a log, and when.
func parseDaemons(list string) map[string]time.Time {
	daemons := make(map[string]time.Time)
	for _, item := range strings.Fields(list) {
		name, text, _ := strings.Cut(item, "@")
		ms, _ := strconv.ParseInt(text, 10, 64)
		daemons[name] = time.UnixMilli(ms)
	}
	return daemons
}

func formatDaemons(daemons map[string]time.Time) string {
	var items []string
	for _, name := range slices.Sorted(maps.Keys(daemons)) {
		items = append(items, fmt.Sprintf("%s@%d", name, daemons[name].UnixMilli()))
	}
	return strings.Join(items, " ")
}

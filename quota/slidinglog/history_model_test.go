package slidinglog

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"quotad/lua"
	"quotad/quota"
)

// A model is a second opinion about the scripts: it has no sums, and works each answer out from all entries.
type model struct {
	bounds lua.Bounds

	epoch, server                            string // no epoch: there is no log
	clock, quiet, void, trimmed, trim, times int64
	wrong                                    int64         // the last time of a clock that a reset ended
	entries                                  []*modelEntry // by at
	closings                                 map[string][]modelClosing
	settled                                  map[string]modelSettled // by grant, also of one that is not there
}

type modelEntry struct {
	id, line2 string
	at        int64
	now, was  []quota.Charge // was: as they were granted, if it was settled
}

type modelSettled struct{ units, at int64 }

// A modelClosing closes a limit; until 0 opens it.
type modelClosing struct {
	until, at int64
	why       string
}

func newModel(b lua.Bounds) *model {
	return &model{bounds: b, closings: map[string][]modelClosing{}, settled: map[string]modelSettled{}}
}

// clone is an older copy.
func (m *model) clone() *model {
	c := *m
	c.entries = nil
	for _, e := range m.entries {
		copied := *e
		copied.now, copied.was = slices.Clone(e.now), slices.Clone(e.was)
		c.entries = append(c.entries, &copied)
	}
	c.settled, c.closings = maps.Clone(m.settled), map[string][]modelClosing{}
	for name, list := range m.closings {
		c.closings[name] = slices.Clone(list)
	}
	return &c
}

func modelEntryOf(id string, at int64, text string) *modelEntry {
	lines := strings.Split(text, "\n")
	e := &modelEntry{id: id, at: at, now: modelCharges(lines[0]), line2: lines[1]}
	if len(lines) > 2 {
		e.was = append([]quota.Charge{}, modelCharges(strings.TrimPrefix(lines[2], "was"))...)
	}
	return e
}

func modelCharges(line string) (charges []quota.Charge) {
	for _, field := range strings.Fields(line) {
		name, units, _ := strings.Cut(field, "=")
		n, _ := strconv.ParseInt(units, 10, 64)
		charges = append(charges, quota.Charge{Limit: name, Units: quota.Units(n)})
	}
	return charges
}

func (e *modelEntry) text() string {
	var b strings.Builder
	line := func(charges []quota.Charge) {
		for _, c := range charges {
			fmt.Fprintf(&b, " %s=%d", c.Limit, c.Units)
		}
	}
	line(e.now)
	b.WriteString("\n" + e.line2)
	if e.was != nil {
		b.WriteString("\nwas")
		line(e.was)
	}
	return b.String()
}

func (e *modelEntry) units(limit string) int64 {
	for _, c := range e.now {
		if c.Limit == limit {
			return int64(c.Units)
		}
	}
	return 0
}

// corrects returns what an entry corrects.
func (e *modelEntry) corrects() (what, of string, number int64, why string) {
	fields := strings.SplitN(e.line2, " ", 4)
	if len(e.now) > 0 || fields[0] == "grant" || fields[0] == "book" {
		return "", "", 0, ""
	}
	number, _ = strconv.ParseInt(fields[2], 10, 64)
	return fields[0], fields[1], number, fields[3]
}

func (m *model) find(id string) *modelEntry {
	i := slices.IndexFunc(m.entries, func(e *modelEntry) bool { return e.id == id })
	if i < 0 || id == "" {
		return nil
	}
	return m.entries[i]
}

func (m *model) at(at int64) bool {
	return slices.ContainsFunc(m.entries, func(e *modelEntry) bool { return e.at == at })
}

func (m *model) add(e *modelEntry) {
	m.entries = append(m.entries, e)
	slices.SortStableFunc(m.entries, func(a, b *modelEntry) int { return cmp.Compare(a.at, b.at) })
	m.clock = max(m.clock, e.at)
}

func (m *model) used(limit string, from int64) (sum int64) {
	for _, e := range m.entries {
		if e.at > from {
			sum += e.units(limit)
		}
	}
	return sum
}

// before returns the answer that does not depend on what is asked, if there is one: in this order.
func (m *model) before(clock int64, c call, drawn string) (now int64, r reply, ok bool) {
	now = max(clock, m.clock+1)
	r = reply{time: clock, clock: m.clock}
	known := c.last == "" || m.find(c.last) != nil || c.lastAt <= max(m.trimmed, now-c.keep) || m.misdated(clock, c.lastAt)
	e := m.find(c.id)
	switch {
	case m.epoch != c.epoch:
		r.word = lost
	case m.clock < c.seen || !known:
		r.word, m.epoch, m.quiet = lost, drawn, clock+m.bounds.QuietMicros
	case e != nil:
		r.word, r.at, r.text = again, e.at, e.text()
	case c.until != 0 && clock > c.until:
		r.word = late
	case clock < m.quiet:
		m.quiet = min(m.quiet, clock+m.bounds.QuietMicros)
		r.word, r.at = quiet, m.quiet
	default:
		return now, r, false
	}
	return now, r, true
}

// closed returns the closing of a limit in effect.
func (m *model) closed(limit string, now int64) (longest modelClosing) {
	opened := m.void
	for _, c := range m.closings[limit] {
		if c.until == 0 {
			opened = max(opened, c.at)
		}
	}
	for _, c := range m.closings[limit] {
		if c.at > opened && c.until > now && (c.until > longest.until || c.until == longest.until && c.at > longest.at) {
			longest = c
		}
	}
	return longest
}

func (m *model) acquire(clock int64, c call, drawn string) reply {
	now, r, answered := m.before(clock, c, drawn)
	if answered {
		return r
	}
	allFit, would := true, ""
	for _, k := range c.checks {
		from, ends := now-k.Length.Microseconds(), int64(0)
		if !k.Ends.IsZero() {
			if from, ends = k.From.UnixMicro(), k.Ends.UnixMicro(); now <= from || now >= ends {
				r.word, r.at, r.limits = "clock", now, nil
				return r
			}
		}
		from = max(from, m.void, m.trimmed)
		used, closed := m.used(k.Limit, from), modelClosing{}
		if k.Max < quota.MaxUnits {
			closed = m.closed(k.Limit, now)
		}
		limit := limitReply{used: quota.Units(used)}
		if closed.until > 0 {
			limit.closed = closedBy(fmt.Sprintf("%d %d %s", closed.until, closed.at, closed.why))
		}
		missing := used + int64(k.Cost-k.Max)
		switch {
		case k.Observes:
			if closed.until > 0 || missing > 0 {
				would += " would=" + k.Limit
			}
		case missing > 0 && ends > 0:
			limit.retry = max(closed.until, ends)
		case missing > 0:
			for _, e := range m.entries {
				if e.at > from && missing > 0 {
					missing -= e.units(k.Limit)
					limit.retry = e.at + k.Length.Microseconds()
				}
			}
			if missing > 0 { // the host never asks that
				limit.retry = now + k.Length.Microseconds()
			}
			limit.retry = max(closed.until, limit.retry)
		default:
			limit.retry = closed.until
		}
		allFit = allFit && limit.retry == 0
		r.limits = append(r.limits, limit)
	}
	switch {
	case !allFit:
		r.word, r.at = denied, now
	case c.id == "":
		r.word, r.at = fits, now
	default:
		for i, k := range c.checks {
			r.limits[i] = limitReply{used: r.limits[i].used + k.Cost}
		}
		r.word, r.clock, r.at, r.text = granted, now, now, c.text+would
		m.trimAt(now, c.keep)
		m.add(modelEntryOf(c.id, now, r.text))
	}
	return r
}

// trimAt drops what is too old, now and then.
func (m *model) trimAt(now, keep int64) {
	if now <= m.trim {
		return
	}
	n := 0
	for n < len(m.entries) && n < m.bounds.Trim && m.entries[n].at <= now-keep {
		e := m.entries[n]
		n++
		m.trimmed = e.at
		delete(m.settled, e.id)
		if what, of, _, _ := e.corrects(); what == "settle" {
			delete(m.settled, of)
		}
	}
	m.entries = slices.Delete(m.entries, 0, n)
	if m.trim = now; n < m.bounds.Trim {
		m.trim += keep / 50
	}
}

func (m *model) correct(clock int64, c call, drawn string) reply {
	now, r, answered := m.before(clock, c, drawn)
	if answered {
		return r
	}
	e := modelEntryOf(c.id, now, c.text)
	switch what, of, number, why := e.corrects(); what {
	case "settle":
		grant := m.find(of)
		if grant == nil || grant.at <= max(now-c.keep, m.void) || len(grant.now) == 0 {
			r.word, r.at = gone, now
			return r
		}
		r.was = grant.text()
		if s, found := m.settled[of]; found && s.units == number {
			r.word, r.at = done, now
			return r
		}
		m.settled[of] = modelSettled{number, now}
		m.settle(grant)
	case "reset":
		if m.clock > clock+60e6 {
			began := newModel(m.bounds)
			began.epoch, began.server, began.wrong, began.trimmed = drawn, m.server, max(m.wrong, m.clock), clock
			e.line2 = strings.Replace(e.line2, "0", fmt.Sprint(began.wrong), 1)
			*m, now, e.at = *began, clock, clock
		}
		m.void = now
	case "close":
		m.close(clock, of, modelClosing{number, now, why})
	}
	m.add(e)
	r.word, r.clock, r.at, r.text = done, now, now, e.text()
	return r
}

// misdated reports whether a time is one of the clock that a reset ended.
func (m *model) misdated(clock, at int64) bool { return at <= m.wrong && at > max(clock, m.clock)+60e6 }

// close adds a closing, and drops those that are over.
func (m *model) close(clock int64, limit string, c modelClosing) {
	m.closings[limit] = slices.DeleteFunc(append(m.closings[limit], c), func(c modelClosing) bool {
		return c.until != 0 && c.until <= clock
	})
}

// settle has a grant charge what its newest settlement says.
func (m *model) settle(e *modelEntry) {
	s, found := m.settled[e.id]
	if !found {
		return
	}
	if e.was == nil {
		e.was = append([]quota.Charge{}, e.now...)
	}
	to := quota.Units(s.units)
	for i, c := range e.was {
		if e.now[i].Units = min(c.Units, to); c.Units == quota.Max(e.was) {
			e.now[i].Units = to
		}
	}
}

// restore returns the epoch, the newest time, and how many entries were added; no epoch: lost.
func (m *model) restore(clock int64, server, drawn, first string, keep int64, more bool,
	records []record) (epoch string, newest, added int64) {
	if first != "" && m.epoch != first {
		return "", 0, 0
	}
	now, wasQuiet := max(clock, m.clock), clock < m.quiet
	if m.epoch == "" {
		*m = *newModel(m.bounds)
		m.epoch, m.server, m.quiet, wasQuiet = drawn, server, clock+m.bounds.QuietMicros, true
		now = clock
	}
	for _, w := range records {
		at := w.at
		if w.alone {
			at = min(at, now)
		}
		e, wrote := modelEntryOf(w.id, at, w.text), at
		what, of, number, why := e.corrects()
		if m.misdated(clock, at) {
			continue
		}
		switch what {
		case "close":
			m.close(clock, of, modelClosing{number, wrote, why})
		case "reset":
			m.void, m.wrong = max(m.void, wrote), max(m.wrong, number)
		}
		if at <= max(now-keep, m.trimmed) || m.find(w.id) != nil {
			continue
		}
		for m.at(e.at) {
			e.at++
		}
		m.add(e)
		now, added = max(now, e.at), added+1
		m.settle(e)
		if s, known := m.settled[of]; what == "settle" && (!known || s.at < wrote) {
			m.settled[of] = modelSettled{number, wrote}
			if grant := m.find(of); grant != nil {
				m.settle(grant)
			}
		}
	}
	if added > 0 {
		m.times++
	}
	if more && (wasQuiet || added > 0) {
		m.quiet = clock + m.bounds.QuietMicros
	}
	return m.epoch, m.clock, added
}

// declare reports whether the log was written on another server.
func (m *model) declare(clock int64, server, drawn string) int64 {
	if m.epoch == "" || m.server == server {
		return 0
	}
	m.server, m.epoch, m.quiet = server, drawn, clock+m.bounds.QuietMicros
	return 1
}

// mirror returns a page of entries.
func (m *model) mirror(after, before int64, count int) (page []*modelEntry) {
	for _, e := range m.entries {
		if e.at > after && (before == 0 || e.at < before) {
			page = append(page, e)
		}
	}
	if before > 0 {
		slices.Reverse(page)
	}
	return page[:min(count, len(page))]
}

// walk returns when missing units have left, and what the last entry that has to leave charges.
func (m *model) walk(clock int64, limit string, from, missing, length int64) (at, units int64) {
	for _, e := range m.entries {
		if e.at > from {
			if missing -= e.units(limit); missing <= 0 {
				return e.at + length, e.units(limit)
			}
		}
	}
	return clock + length, 0
}

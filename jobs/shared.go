package jobs

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"quotad/regions"
)

// A shared is what a desk knows from other hosts, and has to tell them.
type shared struct {
	last  *Run   // the last run of any host
	past  []Run  // of any host, over, the oldest first
	skips []Run  // the skipped ticks of each host
	rest  string // the id of our last run, while nobody else knows how it ended
}

// The parts of what is shared about a job. Only who holds it replaces the first
// three.
const (
	turnPart  = "turn"
	lastPart  = "last"
	pastPart  = "past"
	pausePart = "pause"
	skipsPart = "skips/" // and the host
)

// A turn is whose turn it is.
type turn struct {
	Cursor regions.Cursor `json:"cursor"`
	Dry    int            `json:"dry,omitempty"`
}

// sharedRuns is how many runs the hosts tell one another of.
const sharedRuns = 20

// adopt takes in what is shared about the job. What this host is about to tell
// itself, it knows better. It returns what it still knows and is not shared any
// more. The error is about parts that make no sense, which change nothing.
func (d *desk) adopt(parts map[string]string, holder string) (forgotten map[string]string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	changed, err1 := d.adoptPause(parts)
	moved, err2 := d.adoptTurn(parts, holder)
	trouble := []error{err1, err2, d.adoptSkips(parts)}
	if changed || moved {
		trouble = append(trouble, d.keep())
	}
	if _, known := parts[pausePart]; !known && d.memory.Pause != nil {
		forgotten = map[string]string{}
		trouble = append(trouble, encode(forgotten, pausePart, d.memory.Pause))
	}
	return forgotten, errors.Join(trouble...)
}

func (d *desk) adoptPause(parts map[string]string) (changed bool, err error) {
	pause, known, err := decode[*Pause](parts, pausePart)
	if !known || err != nil {
		return false, err
	}
	changed = (pause == nil) != (d.memory.Pause == nil) || pause != nil && *pause != *d.memory.Pause
	d.memory.Pause = pause
	return changed, nil
}

// adoptTurn takes in whose turn it is and the last runs, unless that is for this
// host to tell.
func (d *desk) adoptTurn(parts map[string]string, holder string) (moved bool, err error) {
	if d.walk != nil || d.shared.rest != "" {
		return false, nil
	}
	now, known, err := decode[turn](parts, turnPart)
	if known && err == nil {
		moved = now != turn{d.memory.Cursor, d.memory.Dry}
		d.memory.Cursor, d.memory.Dry = now.Cursor, now.Dry
	}
	return moved, errors.Join(err, d.adoptRuns(parts, holder))
}

// adoptRuns takes in the last runs. One that is said to be under way, but whose
// host does not hold the job any more, has died with it.
func (d *desk) adoptRuns(parts map[string]string, holder string) error {
	last, _, err1 := decode[*Run](parts, lastPart)
	past, _, err2 := decode[[]Run](parts, pastPart)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	d.shared.last, d.shared.past = last, past
	if last == nil {
		return nil
	}
	if last.State == RunRunning && last.ID != holder {
		last.interrupt(last.lastSign())
	}
	known := slices.ContainsFunc(past, func(r Run) bool { return r.ID == last.ID })
	if last.State != RunRunning && !known {
		d.shared.past = append(past, *last)
	}
	return nil
}

func (d *desk) adoptSkips(parts map[string]string) error {
	d.shared.skips = nil
	var trouble []error
	for name := range parts {
		if !strings.HasPrefix(name, skipsPart) {
			continue
		}
		skips, _, err := decode[*Run](parts, name)
		if skips != nil && err == nil {
			d.shared.skips = append(d.shared.skips, *skips)
		}
		trouble = append(trouble, err)
	}
	return errors.Join(trouble...)
}

// tell returns what the others are to know of a run of this host. The past is
// told by who begins a run. The caller holds mu.
func (d *desk) tell(run *Run, begins bool) (map[string]string, error) {
	parts := map[string]string{}
	err := errors.Join(
		encode(parts, turnPart, turn{d.memory.Cursor, d.memory.Dry}),
		encode(parts, lastPart, run.outline()),
	)
	if begins {
		past := d.shared.past
		err = errors.Join(err, encode(parts, pastPart, past[max(0, len(past)-sharedRuns):]))
	}
	return parts, err
}

// untold returns under which id the job was held by a run whose end the others do
// not know, and what they are to know; or no id.
func (d *desk) untold() (holder string, parts map[string]string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shared.rest == "" {
		return "", nil, nil
	}
	parts, err = d.tell(d.memory.Last, false)
	return d.shared.rest, parts, err
}

// told notes that the others know the end of a run, or have gone on without.
func (d *desk) told(holder string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.shared.rest == holder {
		d.shared.rest, d.shared.last = "", d.memory.Last.copy()
	}
}

// latest returns the last run of any host, of which this one knows its own best,
// and the ticks that were skipped since. The caller holds mu.
func (d *desk) latest() (last, skips *Run) {
	last, skips = d.memory.Last, d.memory.Skips
	others := d.shared.last
	if others != nil && d.walk == nil && d.shared.rest == "" && (last == nil || last.ID != others.ID) {
		last = others
	}
	for i := range d.shared.skips {
		if one := &d.shared.skips[i]; skips == nil || one.ID > skips.ID {
			skips = one
		}
	}
	if last != nil && skips != nil && skips.ID < last.ID {
		skips = nil
	}
	return last.copy(), skips.copy()
}

// known returns the runs and the skipped ticks that other hosts told of, and some
// of our own. The caller holds mu.
func (s *shared) known() []Run {
	var list []Run
	for _, run := range slices.Concat(s.past, s.skips) {
		list = append(list, run.clone())
	}
	if s.last != nil {
		list = append(list, s.last.clone())
	}
	return list
}

// encode adds a part.
func encode(parts map[string]string, name string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("cannot tell other hosts the %s: %w", name, err)
	}
	parts[name] = string(text)
	return nil
}

// decode returns a part, and whether there is one.
func decode[T any](parts map[string]string, name string) (v T, known bool, err error) {
	text, known := parts[name]
	if !known {
		return v, false, nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return v, true, fmt.Errorf("cannot understand the %s that another host told: %w", name, err)
	}
	return v, true, nil
}

package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
	"quotad/regions"
)

// A record is a line of a job's log: one fact about its runs, or what an operator set. It has one
// of the following.
type record struct {
	Version int `json:"v"`

	Run   *Run   `json:"run,omitempty"`   // one that begins; skipped ticks, as they stand now; or a whole run that is over
	Terms *terms `json:"terms,omitempty"` // of one that begins

	ID   string  `json:"id,omitempty"`   // of the run that what follows belongs to
	Gate *Pass   `json:"gate,omitempty"` // a pass that is about to ask the gate
	Pass *Pass   `json:"pass,omitempty"` // what is known of it from here on
	End  *ending `json:"end,omitempty"`
	Asks bool    `json:"asks,omitempty"` // a host asks whether the run's host is alive
	Here bool    `json:"here,omitempty"` // it is

	Cursor   *regions.Cursor `json:"cursor,omitempty"`
	Pause    *Pause          `json:"pause,omitempty"`
	Resumed  time.Time       `json:"resumed,omitzero"`
	Bookmark *bookmarked     `json:"bookmark,omitempty"`

	Known *logState `json:"known,omitempty"` // a snapshot: what the records before this one say
	Past  *Run      `json:"past,omitempty"`  // a run that is over, for hosts that do not know it

	// On this host alone.
	Host *hostFacts          `json:"host,omitempty"`
	Read slidinglog.Position `json:"read,omitzero"` // how far this host has read the hosts' log
}

// Terms are how a run holds its job among the hosts.
type terms struct {
	Lease      time.Duration          `json:"lease"` // how long its host may take to answer
	Credential string                 `json:"credential,omitempty"`
	Expects    map[string]quota.Units `json:"expects,omitempty"` // of each pass
}

// An ending is what is known of a run once it is over.
type ending struct {
	At      time.Time `json:"at"`
	State   RunState  `json:"state"`
	Reason  Reason    `json:"reason,omitempty"`
	Detail  string    `json:"detail,omitempty"`
	RetryAt time.Time `json:"retry_at,omitzero"`
}

// of ends a run like this, as failed if a region failed in it. It is the one place that judges that:
// people, logs and metrics go by the state.
func (e *ending) of(r *Run) {
	r.EndedAt, r.State, r.Reason, r.Detail, r.RetryAt = e.At, e.State, e.Reason, e.Detail, e.RetryAt
	for i := range r.Passes {
		if p := &r.Passes[i]; p.Outcome == Running {
			p.Outcome, p.Reason, p.EndedAt, p.Process, p.Deadline = Interrupted, e.Reason, e.At, nil, time.Time{}
		}
	}
	if len(r.Failed()) > 0 {
		r.State = RunFailed
	}
}

// A bookmarked is what a pass left for the next one of its region; no text removes it.
type bookmarked struct {
	Region regions.Region `json:"region"`
	Text   string         `json:"text,omitempty"`
}

// HostFacts are what only this host uses.
type hostFacts struct {
	Name string `json:"name,omitempty"` // of this host, among others
	// Schedule is the job's schedule. It is empty while the job is not configured: then it misses
	// nothing. Slots up to Since cannot have been missed: they were of another schedule, or this host
	// could not decide what becomes of them.
	Schedule string    `json:"schedule,omitempty"`
	Since    time.Time `json:"since,omitzero"`
	Expected time.Time `json:"expected,omitzero"` // since when good runs are expected
	// Leftovers are the processes of a killed daemon that may still live.
	Leftovers []Identity `json:"leftovers,omitempty"`
}

// recordVersion is that of the lines. Those of other versions are refused.
const recordVersion = 2

func passRecord(id string, p Pass) record { return record{ID: id, Pass: &p} }

// diedRecord ends a run whose daemon was killed.
func diedRecord(id string, at time.Time) record {
	return record{ID: id, End: &ending{At: at, State: RunInterrupted, Reason: Died}}
}

// run returns the id of the run that the record is about, empty if it is about none.
func (c record) run() string {
	for _, run := range []*Run{c.Run, c.Past} {
		if run != nil {
			return run.ID
		}
	}
	return c.ID
}

// outline returns the record without what only the run's own host uses.
func (c record) outline() record {
	if c.Pass != nil {
		p := c.Pass.outline()
		c.Pass = &p
	}
	if c.Run != nil {
		c.Run = c.Run.outline()
	}
	if c.Known != nil && c.Known.Last != nil {
		known := *c.Known
		known.Last = known.Last.outline()
		c.Known = &known
	}
	return c
}

func (p Pass) outline() Pass {
	p.Tail, p.Process = nil, nil
	return p
}

func (r *Run) outline() *Run {
	c := r.copy()
	for i, p := range c.Passes {
		c.Passes[i] = p.outline()
	}
	return c
}

// encodeRecords writes records as lines.
func encodeRecords(list []record) ([]byte, error) {
	var lines bytes.Buffer
	encode := json.NewEncoder(&lines)
	for _, one := range list {
		one.Version = recordVersion
		if err := encode.Encode(one); err != nil {
			return nil, fmt.Errorf("cannot encode what became of job runs: %w", err)
		}
	}
	return lines.Bytes(), nil
}

// eachRecord calls f with the record of each whole line. A damaged line is left out: the others
// are as good without it. A line of another version is an error.
func eachRecord(lines []byte, f func(record)) (damaged int, err error) {
	for len(lines) > 0 {
		line, rest, whole := bytes.Cut(lines, []byte{'\n'})
		if !whole {
			return damaged, nil // it is being written
		}
		var one record
		var version struct {
			Is *int `json:"v"`
		}
		switch {
		case json.Unmarshal(line, &version) != nil || version.Is == nil:
			damaged++
		case *version.Is != recordVersion:
			return damaged, fmt.Errorf("a record has version %d, this quotad knows %d: another version of quotad wrote it", *version.Is, recordVersion)
		case json.Unmarshal(line, &one) != nil:
			damaged++
		default:
			f(one)
		}
		lines = rest
	}
	return damaged, nil
}

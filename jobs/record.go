package jobs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"quotad/regions"
)

// A record is a line of a job's log: one fact about its runs, or what an operator set. It has one
// of the following.
type record struct {
	Version int `json:"v"`

	Run  *Run    `json:"run,omitempty"` // one that begins, or skipped ticks, as they stand now
	ID   string  `json:"id,omitempty"`  // of the run that what follows belongs to
	Pass *Pass   `json:"pass,omitempty"`
	End  *ending `json:"end,omitempty"`

	Cursor   *regions.Cursor `json:"cursor,omitempty"`
	Pause    *Pause          `json:"pause,omitempty"`
	Resumed  time.Time       `json:"resumed,omitzero"`
	Bookmark *bookmarked     `json:"bookmark,omitempty"`

	Known *state     `json:"known,omitempty"` // a snapshot: what the records before this one say
	Past  *Run       `json:"past,omitempty"`  // a run that is over, in a log that was shortened
	Host  *hostFacts `json:"host,omitempty"`

	Shared *sharedRecord                 `json:"shared,omitempty"` // as this host knows it from now on,
	Marks  map[regions.Region]sharedMark `json:"marks,omitempty"`  // with these bookmarks
}

// A bookmarked is what a pass left for the next one of its region; no text removes it.
type bookmarked struct {
	Region regions.Region `json:"region"`
	Text   string         `json:"text,omitempty"`
}

// HostFacts are what only this host uses.
type hostFacts struct {
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

// encodeRecords writes records as lines.
func encodeRecords(list ...record) []byte {
	var lines bytes.Buffer
	encode := json.NewEncoder(&lines)
	for _, one := range list {
		one.Version = recordVersion
		if err := encode.Encode(one); err != nil {
			panic(err) // nothing in a record can fail
		}
	}
	return lines.Bytes()
}

// eachRecord calls f with the record of each whole line. A damaged line is left out: the others
// are as good without it. A line of another version is an error.
func eachRecord(lines []byte, f func(record)) (damaged int, err error) {
	for len(lines) > 0 {
		line, rest, whole := bytes.Cut(lines, []byte{'\n'})
		if !whole {
			return damaged, nil // it is being written
		}
		one := record{Version: -1}
		switch err := json.Unmarshal(line, &one); {
		case one.Version != recordVersion && one.Version >= 0:
			return damaged, fmt.Errorf("a record has version %d, this quotad knows %d: another version of quotad wrote it", one.Version, recordVersion)
		case err != nil || one.Version < 0:
			damaged++
		default:
			f(one)
		}
		lines = rest
	}
	return damaged, nil
}

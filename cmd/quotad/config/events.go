package config

import "time"

// An Event is something that happens, of which a command is told.
type Event string

// The events. Each is told once when it begins to be so, and again only after it
// clearly was not.
const (
	NearLimit   Event = "near_limit"   // a limit is spent for the most part
	Exhausted   Event = "exhausted"    // a limit denies
	OutageBegan Event = "outage_began" // the ledger does not decide
	OutageEnded Event = "outage_ended" // it decides again
	JobFailing  Event = "job_failing"  // a pass failed, and none in the runs before
)

// OnEvent says which commands are told of events.
type OnEvent struct {
	Commands map[Event][]string // the program as a path, and its arguments; those that are not told are absent
	Timeout  time.Duration      // of one command
}

const (
	defaultEventTimeout = 30 * time.Second
	maxEventTimeout     = time.Hour
)

func (r *reader) onEvent(t *table) OnEvent {
	o := OnEvent{Commands: map[Event][]string{}, Timeout: t.duration("timeout", defaultEventTimeout)}
	if o.Timeout > maxEventTimeout {
		t.fail("timeout", "must be at most %v: %v", maxEventTimeout, o.Timeout)
	}
	for _, event := range []Event{NearLimit, Exhausted, OutageBegan, OutageEnded, JobFailing} {
		key := string(event)
		if !t.has(key) {
			continue
		}
		if array, ok := t.values[key].([]any); ok && (len(array) == 0 || array[0] == "") {
			t.fail(key, `must name a program, such as ["/usr/local/bin/notify"]; to run none, leave the key out`)
		}
		o.Commands[event] = r.command(t, key)
	}
	t.end()
	return o
}

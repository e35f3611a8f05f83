package config

import (
	"fmt"
	"time"

	"quotad/jobs"
)

// reference is when the slots begin that a file is judged by: what it means must
// not depend on when it is read.
var reference = time.Date(2024, time.January, 1, 0, 0, 0, 0, time.UTC)

// Verdicts returns whether the jobs fit the limits, limit by limit, if nobody else
// spends from them.
func (c *Config) Verdicts() []jobs.Verdict {
	return jobs.Judge(c.Jobs, c.Credentials, reference)
}

// Warnings returns one for each limit that the jobs do not fit, at the line of the
// change that gives up least. Nothing is wrong with the file, but runs will end
// before they come round.
func (c *Config) Warnings() Errors {
	var warnings Errors
	for _, v := range c.Verdicts() {
		if v.Proof {
			continue
		}
		path := c.cureOf(v)
		warnings = append(warnings, Error{
			File: c.File, Line: c.lines.at(path), Key: keyAt(path),
			Message: dryness(v) + cures(v.Changes),
		})
	}
	warnings.sort()
	return warnings
}

// cureOf returns the path of the key that is best changed.
func (c *Config) cureOf(v jobs.Verdict) []string {
	limit := []string{"credentials", v.Credential, "limits", v.Limit}
	if len(v.Changes) == 0 {
		return limit
	}
	switch best := v.Changes[0]; best.Key {
	case "reserve":
		return append(limit, best.Key)
	case "expects":
		return []string{"jobs", best.Job, best.Key, best.Operation}
	default:
		return []string{"jobs", best.Job, best.Key}
	}
}

// dryness says how far the jobs and the limit are apart.
func dryness(v jobs.Verdict) string {
	about := ""
	if v.Estimated {
		about = "about "
	}
	unit := "units"
	if v.Demand == 1 {
		unit = "unit"
	}
	text := fmt.Sprintf("the jobs ask for %s%d %s of %s %s in one window, which has %d for them", about, v.Demand, unit, v.Credential, v.Limit, v.Budget)
	if !v.Fits() {
		return text + ": they run dry"
	}
	return text + fmt.Sprintf(", but only up to %d is proof against jitter: now and then they run dry", v.Ceiling)
}

// cures names the change that gives up least and the next best, of another kind.
func cures(changes []jobs.Change) string {
	if len(changes) == 0 {
		return "; no single change is enough"
	}
	text := "; " + changes[0].String() + " would do"
	for _, c := range changes[1:] {
		if c.Key != changes[0].Key {
			return text + ", or " + c.String()
		}
	}
	return text
}

// Warning returns the line that tells of an error that is none: where editors and
// people look for the word.
func (e Error) Warning() string {
	return fmt.Sprintf("%s:%d: warning: %s: %s", e.File, e.Line, e.Key, e.Message)
}

package main

import (
	"errors"
	"time"
)

const (
	maxCalls = 3                // for one page and kind of trouble: each may cost a unit
	coolDown = time.Minute      // after which a limit per minute is open again
	backOff  = time.Second      // after the first transient trouble; doubles
	callRoom = 10 * time.Second // what a call after a pause needs before the deadline
)

// Tries counts what went wrong with one page.
type tries map[class]int

// again says after which pause to call again after an error of that class, or
// that calling again is useless.
func (t tries) again(c class) (pause time.Duration, ok bool) {
	t[c]++
	switch c {
	case minute:
		return coolDown, t[c] < maxCalls
	case unclear:
		return coolDown, t[c] < 2
	case transient, unsent:
		return backOff << (t[c] - 1), t[c] < maxCalls
	default:
		return 0, false
	}
}

// conclude returns the error after the last try: an unnamed limit that a cool-down did not
// open is a limit of the day.
func conclude(err error) error {
	var failed *callError
	if errors.As(err, &failed) && failed.class == unclear {
		failed.class = day
	}
	return err
}

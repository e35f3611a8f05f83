package main

import (
	"fmt"
	"io"
)

// check says what is wrong with the configuration, or what it means. It warns of limits
// that the schedule does not fit; if it is strict, such a limit is an error.
func check(o options, s systemd, stdout, stderr io.Writer) int {
	c, err := load(o.config, s)
	if err != nil {
		fail(stderr, err)
		return exitConfig
	}
	warnings := c.Warnings()
	if o.strict && len(warnings) > 0 {
		return fail(stderr, warnings)
	}
	for _, one := range append(warnings, c.Reminders()...) {
		fmt.Fprintln(stderr, one.Warning())
	}
	summarize(stdout, c)
	return exitOK
}

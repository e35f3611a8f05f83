package main

import (
	"time"

	"github.com/spf13/cobra"

	"quotad/quota/api"
)

// sinceFlag declares the flag --since, which leaves out what is older.
func sinceFlag(cmd *cobra.Command, since *string, what string) {
	cmd.Flags().StringVar(since, "since", "",
		"only "+what+" since `TIME`: 09:00, 90m, 24h, 7d, or an instant like 2026-03-14T09:00:00Z")
}

// since returns what --since says as the API reads it; empty for nothing.
func (c *cli) since(text string) (string, error) {
	at, ok := c.instant(text, true)
	switch {
	case text == "":
		return "", nil
	case !ok:
		return "", usageError("", "--since must be a time like 09:00, how long ago like 90m or 7d, or an instant like "+
			"2026-03-14T09:00:00Z: %q", text)
	}
	return at.Format(time.RFC3339Nano), nil
}

// instant reads a time as people write it, by the clock and in the zone in which times are printed.
func (c *cli) instant(text string, past bool) (at time.Time, ok bool) {
	v := c.view()
	return parseInstant(text, v.Now.In(v.Zone), past)
}

// parseInstant reads a time of day ("09:00"), which is the last one if it is in the past and else
// the next one; a length of time before or after now ("90m", "7d"); or an instant.
func parseInstant(text string, now time.Time, past bool) (at time.Time, ok bool) {
	if clock, err := time.Parse("15:04", text); err == nil {
		return atClock(clock, now, past), true
	}
	at, err := api.ParseInstant(text, now, past)
	return at, err == nil
}

// atClock returns when the clocks of now's zone showed a time of day last, or will show it next.
func atClock(clock, now time.Time, past bool) time.Time {
	day := func(n int) time.Time {
		return time.Date(now.Year(), now.Month(), now.Day()+n, clock.Hour(), clock.Minute(), 0, 0, now.Location())
	}
	switch today := day(0); {
	case past && today.After(now):
		return day(-1)
	case !past && !today.After(now):
		return day(1)
	default:
		return today
	}
}

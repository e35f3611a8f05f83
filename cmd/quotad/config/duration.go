package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

const (
	day              = 24 * time.Hour
	durationExamples = `such as "90s", "30m", "24h" or "7d"`
)

// parseDuration reads Go's durations, and before them a number of days of 24
// hours: "30m", "1.5h", "7d", "1d12h". None is below zero.
func parseDuration(text string) (time.Duration, error) {
	malformed := fmt.Errorf("%q is no duration: write a number with its unit, %s", text, durationExamples)
	var days uint64
	rest := text
	if number, behind, found := strings.Cut(text, "d"); found {
		var err error
		if days, err = strconv.ParseUint(number, 10, 32); err != nil {
			return 0, malformed
		}
		if rest = behind; rest == "" {
			rest = "0"
		}
	}
	d, err := time.ParseDuration(rest)
	switch {
	case err != nil:
		return 0, malformed
	case d < 0:
		return 0, fmt.Errorf("%q is below zero", text)
	case time.Duration(days) > (math.MaxInt64-d)/day:
		return 0, fmt.Errorf("%q is too long", text)
	}
	return time.Duration(days)*day + d, nil
}

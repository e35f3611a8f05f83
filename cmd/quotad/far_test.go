package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"
)

// far are the minute and the hour of a cron that ticks once a day, half a day from when the tests began:
// no slot falls into a test, whatever the time is.
var far = time.Now().UTC().Add(12 * time.Hour).Format("4 15")

// farMinute is a minute of the hour, half an hour from when the tests began.
var farMinute = fmt.Sprint((time.Now().Minute() + 30) % 60)

// farOff returns the text of a file with far in place of $FAR, as scripts have it.
func farOff(text string) string { return strings.ReplaceAll(text, "$FAR", far) }

var longSchedule = regexp.MustCompile(`(?m)^(every = "\d+[mhd]"|cron = ".*?")`)

// configOf is the configuration that a quotad will read, "" if there is none.
func configOf(cmd *exec.Cmd) string {
	file := filepath.Join(cmd.Dir, "config.toml")
	if last := cmd.Args[len(cmd.Args)-1]; filepath.IsAbs(last) {
		file = last
	} else if filepath.Ext(last) == ".toml" {
		file = filepath.Join(cmd.Dir, last)
	}
	text, _ := os.ReadFile(file)
	return string(text)
}

// slotsMayFallIn returns an error if a job of a configuration has a schedule whose slots are where the clock
// has them. A test that starts it fails once an hour, or once a day.
func slotsMayFallIn(config string) error {
	for _, job := range strings.Split("\n"+config, "\n[jobs.")[1:] {
		schedule := longSchedule.FindString(job)
		far := schedule == farOff(`cron = "$FAR * * *"`) || strings.HasPrefix(schedule, `cron = "`+farMinute+" *")
		if schedule != "" && !far {
			return fmt.Errorf(`a slot of %s may fall into the test: write cron = "$FAR * * *" or schedule = "manual"`, schedule)
		}
	}
	return nil
}

// clearOfReset returns for how long a test is to wait until the day of an upstream that resets at midnight
// in California begins, if that is soon: units would come back in its middle.
func clearOfReset(text string, now time.Time) time.Duration {
	if !strings.Contains(text, `preset = "youtube`) && !strings.Contains(text, "America/Los_Angeles") {
		return 0
	}
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		return 0
	}
	year, month, day := now.In(zone).Date()
	const soon = time.Minute
	if left := time.Date(year, month, day+1, 0, 0, 1, 0, zone).Sub(now); left < soon {
		return left
	}
	return 0
}

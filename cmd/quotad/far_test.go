package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"quotad/jobs/scheduler"
)

// far are the minute and the hour of a cron that ticks once a day, half a day from when the tests began:
// no slot falls into a test, whatever the time is.
var far = farFrom(time.Now())

func farFrom(now time.Time) string {
	at := now.UTC().Add(12 * time.Hour)
	return fmt.Sprintf("%d %d", at.Minute(), at.Hour())
}

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

func TestFarIsFar(t *testing.T) {
	day := time.Date(2026, 2, 28, 0, 0, 59, 999, time.FixedZone("Nepal", 20700))
	for now := day; now.Before(day.Add(25 * time.Hour)); now = now.Add(time.Minute) {
		schedule, err := scheduler.ParseCron(farFrom(now)+" * * *", time.UTC)
		must(t, err)
		if next := schedule.Next(now); next.Sub(now) < 11*time.Hour {
			t.Errorf("at %v the next slot of %v is at %v", now, schedule, next)
		}
	}
}

// What starts a daemon refuses a schedule whose slot may come while it runs.
func TestSlotsMayFallIn(t *testing.T) {
	for line, wrong := range map[string]bool{
		`every = "1h"`: true, `every = "30m" # often`: true, `cron = "0 5 * * *"`: true,
		`every = "1s"`: false, `cron = "$FAR * * *"`: false, `schedule = "manual"`: false, `cron = "` + farMinute + ` * * * *"`: false,
	} {
		if err := slotsMayFallIn(farOff("[jobs.a]\n" + line + "\n")); (err != nil) != wrong {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestClearOfReset(t *testing.T) {
	for _, row := range []struct {
		config, now string
		want        time.Duration
	}{
		{`preset = "youtube-classic"`, "2026-11-27T07:59:30Z", 31 * time.Second},
		{`preset = "youtube-classic"`, "2026-11-27T08:00:00Z", 0},
		{`preset = "youtube-classic"`, "2026-11-27T07:58:59Z", 0},
		{`window = "24h"`, "2026-11-27T07:59:30Z", 0},
	} {
		now, err := time.Parse(time.RFC3339, row.now)
		if got := clearOfReset(row.config, now); err != nil || got != row.want {
			t.Errorf("%s at %s: %v, %v, want %v", row.config, row.now, got, err, row.want)
		}
	}
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

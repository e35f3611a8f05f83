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

// farOff returns the text of a file with far in place of $FAR, as scripts have it.
func farOff(text string) string { return strings.ReplaceAll(text, "$FAR", far) }

var longSchedule = regexp.MustCompile(`(?m)^(every = "\d+[mhd]"|cron = ".*?")`)

// slotsMayFallIn returns an error if a job of a quotad that a test is to start has a schedule whose
// slots are where the clock has them. Such a test fails once an hour, or once a day.
func slotsMayFallIn(cmd *exec.Cmd) error {
	file := filepath.Join(cmd.Dir, "config.toml")
	if last := cmd.Args[len(cmd.Args)-1]; filepath.IsAbs(last) {
		file = last
	} else if filepath.Ext(last) == ".toml" {
		file = filepath.Join(cmd.Dir, last)
	}
	text, _ := os.ReadFile(file) // a test may start quotad without one
	for _, job := range strings.Split("\n"+string(text), "\n[jobs.")[1:] {
		schedule := longSchedule.FindString(job)
		if schedule != "" && schedule != farOff(`cron = "$FAR * * *"`) && !strings.Contains(job, "\noffset = ") {
			return fmt.Errorf(`a slot of %s may fall into the test: write cron = "$FAR * * *" or schedule = "manual"`, schedule)
		}
	}
	return nil
}

func TestFarIsFar(t *testing.T) {
	day := time.Date(2026, 2, 28, 0, 0, 59, 999, time.FixedZone("Nepal", 20700))
	for now := day; now.Before(day.Add(25 * time.Hour)); now = now.Add(time.Minute) {
		schedule, err := scheduler.ParseCron(farFrom(now)+" * * *", time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if next := schedule.Next(now); next.Sub(now) < 11*time.Hour {
			t.Errorf("at %v the next slot of %v is at %v", now, schedule, next)
		}
	}
}

// What starts a daemon refuses a schedule whose slot may come while it runs.
func TestSlotsMayFallIn(t *testing.T) {
	dir := shortDir(t)
	for line, wrong := range map[string]bool{
		`every = "1h"`: true, `every = "30m" # often`: true, `cron = "0 5 * * *"`: true,
		`every = "1s"`: false, `cron = "$FAR * * *"`: false, `schedule = "manual"`: false, "every = \"1h\"\noffset = \"7m\"": false,
	} {
		writeConfig(t, dir, "[jobs.a]\n"+line+"\n")
		cmd := exec.Command("quotad")
		cmd.Dir = dir
		if err := slotsMayFallIn(cmd); (err != nil) != wrong {
			t.Errorf("%s: %v", line, err)
		}
	}
}

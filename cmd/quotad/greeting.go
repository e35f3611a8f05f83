package main

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"quotad/jobs"
	"quotad/quota/api"
)

// greet says to a person at a terminal what runs at the start, what comes next, and how to ask.
func (d *daemon) greet() {
	if !isTerminal(d.stderr) {
		return
	}
	var now, next []string
	var soonest []jobs.Upcoming
	for _, job := range d.config.Jobs {
		first, err := d.runner.Upcoming(job.Name, 1)
		if err != nil || len(first) == 0 || first[0].Paused {
			continue
		}
		soonest = append(soonest, first...)
		if job.RunAtStart {
			now = append(now, job.Name)
		}
	}
	slices.SortStableFunc(soonest, func(a, b jobs.Upcoming) int { return a.Slot.Compare(b.Slot) })
	for _, u := range soonest {
		next = append(next, u.Job+" at "+clockOf(u.Slot, time.Now()))
	}
	d.log.Info().Msgf("runs now: %s; next: %s", cmp.Or(firstOf(now), "nothing"), cmp.Or(firstOf(next), "nothing"))
	d.log.Info().Msg("ask: " + askCommand(d.socket()))
}

// clockOf writes a time as a person at this host's clock reads it.
func clockOf(at, now time.Time) string {
	at, now = at.Local(), now.Local()
	if at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		return at.Format("Mon 15:04:05")
	}
	return at.Format(time.TimeOnly)
}

// askCommand is the shortest command, in the directory where quotad was started, that asks the
// daemon at a socket.
func askCommand(socket string) string {
	command := "quotactl"
	beside := filepath.Join(filepath.Dir(os.Args[0]), command)
	if _, err := exec.LookPath(command); err != nil && strings.ContainsRune(beside, filepath.Separator) {
		command = beside // as quotad itself was named
	}
	if found, err := filepath.Abs(api.FindSocket("")); err == nil && found == socket {
		return command
	}
	return command + " --socket " + socket
}

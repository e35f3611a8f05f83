package main

import (
	"context"
	"errors"
	"time"

	"quotad/quota/api"
)

// chances is how often the daemon may prove that it is alive before systemd
// takes it for dead: one slow answer must not end it.
const chances = 4

// feedWatchdog has the schedule's own loop ask the API whether it answers, and
// tell systemd if so. Whatever stops the one or the other ends the daemon.
func (d *daemon) feedWatchdog() error {
	if d.systemd.watchdog == 0 {
		return nil
	}
	every := d.systemd.watchdog / chances
	return d.ticks.Beat(every, func() { d.beat(every) })
}

// beat tells systemd that quotad is alive, if callers are answered.
func (s *supervisor) beat(within time.Duration) {
	if err := answers(&api.Client{Socket: s.socket()}, within); err != nil {
		s.log.Error().Err(err).Dur("within_ms", within).Msg("the API does not answer: no sign of life is sent to systemd")
		return
	}
	s.tellSystemd("WATCHDOG=1")
}

// answers asks the API what needs neither a disk nor Redis: that they are slow is
// no reason to restart. Any answer is one.
func answers(client *api.Client, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := client.Get(ctx, "/healthz", nil)
	var problem *api.Problem
	if errors.As(err, &problem) {
		return nil
	}
	return err
}

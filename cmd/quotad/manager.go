package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"quotad/jobs"
)

// tellSystemd tells the service manager something that the daemon can go on
// without.
func (d *daemon) tellSystemd(state string) {
	if err := d.systemd.notify(state); err != nil {
		d.log.Warn().Err(err).Msg("systemd does not hear how quotad is")
	}
}

// ready tells systemd and the log that what was to be started is. The ledger may
// be away: the order in which a host boots must not keep quotad from starting.
func (d *daemon) ready(ctx context.Context) error {
	health := d.keeper.Health(ctx)
	if !health.Reachable {
		d.log.Warn().Str("ledger", health.State).Msg("the ledger cannot be reached: calls are refused until it can")
	}
	for _, warning := range health.Warnings {
		d.log.Warn().Str("ledger", health.Backend).Msg(warning)
	}
	d.tellSystemd("READY=1\nSTATUS=" + d.summary(ctx).String())
	d.onStop("tell systemd", d.stopping)
	d.startStatusLine()
	d.log.Debug().Msg("ready")
	d.warn(d.config)
	return nil
}

// startStatusLine keeps systemd's status line up to date, if there is a systemd.
func (d *daemon) startStatusLine() {
	if d.systemd.notifySocket == "" {
		return
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		d.status.run(ctx)
	}()
	d.onStop("end the status line", func() error {
		end()
		<-ended
		return nil
	})
}

// stopping is the first thing on the way down. It asks for as much time as the
// passes under way may take to end, and the answers in flight after them.
func (d *daemon) stopping() error {
	grace := d.config.Passes.Drain + time.Duration(d.reloads.grace.Load())
	status, _ := d.runner.Status("") // of all jobs it cannot fail
	return d.systemd.notify(fmt.Sprintf("STOPPING=1\nSTATUS=%s\nEXTEND_TIMEOUT_USEC=%d",
		stopStatus(status, grace), (grace + answerTime + margin).Microseconds()))
}

// margin is for what takes no time worth mentioning, on a host that is busy.
const margin = 10 * time.Second

// stopStatus says what the daemon waits for before it ends.
func stopStatus(status []jobs.Status, grace time.Duration) string {
	var list []string
	for _, s := range status {
		if s.Last == nil || s.Last.State != jobs.RunRunning {
			continue
		}
		for _, pass := range s.Last.Passes {
			if pass.Outcome == jobs.Running {
				list = append(list, s.Job.Name+" "+string(pass.Region))
			}
		}
	}
	if len(list) == 0 {
		return "stopping"
	}
	return fmt.Sprintf("stopping: %s may take %v to end", strings.ReplaceAll(firstOf(list), "\n", " "), grace)
}

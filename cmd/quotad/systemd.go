package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	sdnotify "github.com/coreos/go-systemd/v22/daemon"

	"quotad/jobs"
)

// Systemd is what systemd tells a service; the zero value where there is none.
type systemd struct {
	stateDirectory string
	passesUser     string // whom our units have passes run as; empty: nobody else
	notifySocket   string
	journalStream  string        // names the descriptor that the journal reads
	watchdog       time.Duration // within which systemd wants to hear that we are alive; 0: it does not ask
	api            net.Listener  // the socket that is to be served; nil: none was passed
}

// apiSocket is the FileDescriptorName of the API's socket unit.
const apiSocket = "api"

// takeSystemd reads what systemd passed in the environment and removes it from
// there: what a child finds of it, it takes for its own.
func takeSystemd() (systemd, error) {
	var s systemd
	// Several directories may be configured; the first is the one that counts.
	s.stateDirectory, _, _ = strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	s.passesUser = os.Getenv("QUOTAD_PASSES_USER")
	s.notifySocket, s.journalStream = os.Getenv("NOTIFY_SOCKET"), os.Getenv("JOURNAL_STREAM")
	var err error
	// The rest of the environment is removed below, not by the library: that would
	// take away what it reads next.
	if s.watchdog, err = sdnotify.SdWatchdogEnabled(false); err != nil {
		return s, fmt.Errorf("cannot read systemd's watchdog: %w", err)
	}
	listeners, err := activation.ListenersWithNames()
	if err != nil {
		return s, fmt.Errorf("cannot use the sockets that systemd passed: %w", err)
	}
	for name, passed := range listeners {
		if name != apiSocket || len(passed) != 1 {
			return s, fmt.Errorf("systemd passed %d sockets named %q: one named %q is expected (FileDescriptorName=%s)", len(passed), name, apiSocket, apiSocket)
		}
		s.api = passed[0]
	}
	for _, name := range []string{
		"STATE_DIRECTORY", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES",
		"CREDENTIALS_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM", "MAINPID", "QUOTAD_PASSES_USER",
	} {
		os.Unsetenv(name)
	}
	return s, nil
}

// notify tells the service manager how the daemon is, see sd_notify(3). Without
// one it does nothing.
func (s systemd) notify(state string) error {
	if s.notifySocket == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: s.notifySocket, Net: "unixgram"})
	if err == nil {
		conn.SetWriteDeadline(time.Now().Add(notifyTime))
		_, err = conn.Write([]byte(state))
		conn.Close()
	}
	if err != nil {
		return fmt.Errorf("cannot notify systemd: %w", err)
	}
	return nil
}

// notifyTime is how long a service manager may take to listen: one that does not read keeps
// nobody from starting or stopping. The kernel holds ten messages for it.
const notifyTime = time.Second

// reloading is what systemd is told before the configuration is read again, until
// READY=1. When it was told, it wants to know of a Type=notify-reload.
func reloading() string { return "RELOADING=1\n" + sdnotify.SdNotifyMonotonicUsec() }

// tellSystemd tells the service manager something that the daemon can go on
// without.
func (s *supervisor) tellSystemd(state string) {
	if err := s.systemd.notify(state); err != nil {
		s.log.Warn().Err(err).Msg("systemd does not receive the state of quotad")
	}
}

// ready tells systemd and the log that what was to be started is. The ledger may
// be away: the order in which a host boots must not keep quotad from starting.
func (d *daemon) ready(ctx context.Context) error {
	health := d.service.Health(ctx)
	if !health.Reachable {
		d.log.Warn().Str("ledger", health.State).Msg("the ledger cannot be reached: calls are refused until it can")
	}
	for _, warning := range health.Warnings {
		d.log.Warn().Str("ledger", health.Backend).Msg(warning)
	}
	d.tellSystemd("READY=1\nSTATUS=" + d.summary(ctx).String())
	d.onStop("notify systemd", d.stopping)
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

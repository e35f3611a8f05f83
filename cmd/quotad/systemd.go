package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	sdnotify "github.com/coreos/go-systemd/v22/daemon"

	"quotad/cmd/quotad/config"
	"quotad/jobs"
	"quotad/quota/api"
)

// Systemd is what systemd passes to a service; the zero value where there is none.
type systemd struct {
	stateDirectory string
	passesUser     string // the user of passes that our units name; empty: quotad's own
	notifySocket   string
	journalStream  string        // names the descriptor that the journal reads
	watchdog       time.Duration // systemd expects a sign of life this often; 0: it expects none
	api            net.Listener  // the socket that is to be served; nil: none was passed
}

// passesUserEnv names the user of passes in our units.
const passesUserEnv = "QUOTAD_PASSES_USER"

// apiSocket is the FileDescriptorName of the API's socket unit.
const apiSocket = "api"

// readSystemd reads what systemd passed in the environment and removes it from
// there: a child would use it as its own.
func readSystemd() (systemd, error) {
	var s systemd
	// Several directories may be configured; the first is the one that counts.
	s.stateDirectory, _, _ = strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	s.passesUser = os.Getenv(passesUserEnv)
	s.notifySocket, s.journalStream = os.Getenv("NOTIFY_SOCKET"), os.Getenv("JOURNAL_STREAM")
	var err error
	// The rest of the environment is removed below, not by the library, which would
	// remove what it reads next.
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
		"CREDENTIALS_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM", "MAINPID", passesUserEnv,
	} {
		os.Unsetenv(name)
	}
	return s, nil
}

// host returns where a configuration is used.
func (s systemd) host() config.Host {
	return config.Host{Name: machineName(), StateDirectory: s.stateDirectory, PassesUser: s.passesUser}
}

// notify reports a state to the service manager, see sd_notify(3). Without
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

// notifyTime is how long a service manager may take to read a message: one that does not read must
// not keep quotad from starting or stopping. The kernel holds ten messages for it.
const notifyTime = time.Second

// notifySystemd reports a state to the service manager. The daemon works without it.
func (d *daemon) notifySystemd(state string) {
	if err := d.systemd.notify(state); err != nil {
		d.log.Warn().Err(err).Msg("systemd does not receive the state of quotad")
	}
}

// beats is how often the daemon may prove that it is alive before systemd
// takes it for dead: one slow answer must not end it.
const beats = 4

// beat reports to systemd that quotad is alive, if callers are answered.
func (d *daemon) beat(within time.Duration) {
	if err := answers(&api.Client{Socket: d.socket()}, within); err != nil {
		d.log.Error().Err(err).Dur("within_ms", within).Msg("the API does not answer: no sign of life is sent to systemd")
		return
	}
	d.notifySystemd("WATCHDOG=1")
}

// answers sends the API a request that needs neither a disk nor Redis: that they are slow is
// no reason to restart. Any answer is one.
func answers(client *api.Client, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := client.Get(ctx, "/healthz", nil)
	if errors.As(err, new(*api.Problem)) {
		return nil
	}
	return err
}

// ready reports to systemd and the log that the daemon has started. The ledger may
// be away: the order in which a host boots must not keep quotad from starting.
func (d *daemon) ready() {
	ctx := d.ask
	health := d.service.Health(ctx)
	if !health.Reachable {
		d.log.Warn().Str("ledger", health.State).Msg("the ledger does not decide yet: calls are refused until it does")
	}
	s, list := d.troubles(ctx)
	d.notifySystemd("READY=1\nSTATUS=" + statusLine(list, s.Jobs, time.Now()))
	d.onStop("notify systemd", d.stopping)
	d.background(d.watch)
	d.log.Debug().Msg("ready")
	d.warn(d.config)
}

// stopping comes first when the daemon stops. It asks systemd for as much time as the
// passes under way may take to end, and the answers in flight after them.
func (d *daemon) stopping() error {
	grace := d.config.Passes.Drain + jobs.KillGrace
	status, _ := d.runner.Status("") // of all jobs it cannot fail
	return d.systemd.notify(fmt.Sprintf("STOPPING=1\nSTATUS=%s\nEXTEND_TIMEOUT_USEC=%d",
		stopStatus(status, grace), (grace + answerTime + margin).Microseconds()))
}

// margin is for the rest of the stop, on a busy host.
const margin = 10 * time.Second

// stopStatus says what the daemon waits for before it ends.
func stopStatus(status []jobs.Status, grace time.Duration) string {
	var list []string
	for _, s := range status {
		if s.Last != nil && s.Last.State == jobs.RunRunning {
			list = append(list, s.Name)
		}
	}
	if len(list) == 0 {
		return "stopping"
	}
	return fmt.Sprintf("stopping: %s may take %v to end", strings.Join(list, ", "), grace)
}

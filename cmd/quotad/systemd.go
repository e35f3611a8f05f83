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

// readSystemd reads what systemd passed in the environment. Programs that quotad runs get none of it, see
// jobs.Inherited.
func readSystemd() (s systemd, err error) {
	// Several directories may be configured; the first is the one that counts.
	s.stateDirectory, _, _ = strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	s.passesUser = os.Getenv(passesUserEnv)
	s.notifySocket, s.journalStream = os.Getenv("NOTIFY_SOCKET"), os.Getenv("JOURNAL_STREAM")
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
	return s, nil
}

// host returns where a configuration is used.
func (s systemd) host() config.Host {
	name, _ := os.Hostname()
	return config.Host{Name: name, StateDirectory: s.stateDirectory, PassesUser: s.passesUser}
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

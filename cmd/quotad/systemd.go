package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/activation"
	sdnotify "github.com/coreos/go-systemd/v22/daemon"
)

// Systemd is what systemd tells a service; the zero value where there is none.
type systemd struct {
	stateDirectory string
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
		"CREDENTIALS_DIRECTORY", "INVOCATION_ID", "JOURNAL_STREAM", "MAINPID",
	} {
		os.Unsetenv(name)
	}
	return s, nil
}

// notify tells the service manager how the daemon is, see sd_notify(3). Without
// one it does nothing.
func (s systemd) notify(state string) error {
	if _, err := sdnotify.SdNotify(false, state); err != nil {
		return fmt.Errorf("cannot notify systemd: %w", err)
	}
	return nil
}

// reloading is what systemd is told before the configuration is read again, until
// READY=1. When it was told, it wants to know of a Type=notify-reload.
func reloading() string { return "RELOADING=1\n" + sdnotify.SdNotifyMonotonicUsec() }

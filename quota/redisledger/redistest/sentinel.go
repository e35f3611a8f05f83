package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Watched is a master with its replica, and the Sentinel that replaces the one
// by the other.
type Watched struct {
	Name                      string // of the master, as the Sentinel knows it
	Master, Replica, Sentinel *Server
}

// StartSentinel starts three processes, of which each knows of the others.
func StartSentinel(tb testing.TB) *Watched {
	tb.Helper()
	w := &Watched{Name: "budget", Master: StartTCP(tb, "--repl-diskless-sync-delay", "0")}
	w.Replica = StartTCP(tb, "--replicaof", "127.0.0.1 "+w.Master.port())
	w.Replica.says(tb, []string{"INFO", "replication"}, "master_link_status:up")
	w.Sentinel = startSentinel(tb, fmt.Sprintf(`
		sentinel monitor %[1]s 127.0.0.1 %[2]s 1
		sentinel down-after-milliseconds %[1]s 500
		sentinel failover-timeout %[1]s 5000
	`, w.Name, w.Master.port()))
	w.Sentinel.says(tb, []string{"SENTINEL", "MASTER", w.Name}, "num-slaves 1")
	return w
}

// startSentinel starts a Sentinel, which wants a file that it can write to.
func startSentinel(tb testing.TB, watch string) *Server {
	tb.Helper()
	s := prepare(tb)
	s.listen(freePorts(tb, 1)[0])
	config := fmt.Sprintf("port %s\nbind 127.0.0.1\nunixsocket %s\ndir %s\nlogfile %s\n%s",
		s.port(), s.socket(), s.dir, filepath.Join(s.dir, "log"), strings.ReplaceAll(watch, "\t", ""))
	path := filepath.Join(s.dir, "conf")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		tb.Fatal(err)
	}
	s.args = []string{path, "--sentinel"}
	s.Run(tb)
	return s
}

// Synced returns when the replica has all that the master wrote.
func (w *Watched) Synced(tb testing.TB) {
	tb.Helper()
	info := fmt.Sprint(w.Master.Do(tb, "INFO", "replication"))
	_, rest, _ := strings.Cut(info, "master_repl_offset:")
	offset, _, _ := strings.Cut(rest, "\r\n")
	w.Replica.says(tb, []string{"INFO", "replication"}, "slave_repl_offset:"+offset+"\r\n")
}

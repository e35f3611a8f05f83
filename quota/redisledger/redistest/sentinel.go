package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
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

// Synced returns when the replica has all that the master had written when it was called.
func (w *Watched) Synced(tb testing.TB) {
	tb.Helper()
	offset := func(s *Server, name string) int {
		answer, _ := s.ask("INFO", "replication")
		_, rest, _ := strings.Cut(fmt.Sprint(answer), "\n"+name+":")
		text, _, _ := strings.Cut(rest, "\r\n")
		n, err := strconv.Atoi(text)
		if err != nil {
			return -1
		}
		return n
	}
	wrote := offset(w.Master, "master_repl_offset")
	err := until(w.Replica.done, func() bool { return offset(w.Replica, "slave_repl_offset") >= wrote })
	if err != nil || wrote < 0 {
		tb.Fatalf("the replica has not what the master wrote, %d bytes: %v", wrote, err)
	}
}

// A Guarded is a master with its replicas, and the Sentinels that replace it by one of these.
type Guarded struct {
	Name             string // of the master, as the Sentinels know it
	Nodes, Sentinels []*Server
}

// StartSentinels starts Sentinels, a master and replicas, that know of each other. The nodes get further
// arguments of redis-server.
func StartSentinels(tb testing.TB, sentinels, replicas int, args ...string) *Guarded {
	tb.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	w := &Guarded{Name: "budget", Nodes: []*Server{StartTCP(tb, args...)}}
	for range replicas {
		w.Nodes = append(w.Nodes, StartTCP(tb, append(args, "--replicaof", "127.0.0.1 "+w.Nodes[0].port())...))
	}
	for range sentinels {
		w.Sentinels = append(w.Sentinels, startSentinel(tb, fmt.Sprintf(`
			sentinel monitor %[1]s 127.0.0.1 %[2]s %[3]d
			sentinel down-after-milliseconds %[1]s 2000
			sentinel failover-timeout %[1]s 5000
		`, w.Name, w.Nodes[0].port(), sentinels/2+1)))
	}
	w.Settled(tb)
	return w
}

// Settled returns when all Sentinels know one master, its replicas follow it, and they know each other.
func (w *Guarded) Settled(tb testing.TB) {
	tb.Helper()
	for _, s := range w.Sentinels {
		s.says(tb, []string{"SENTINEL", "MASTER", w.Name}, fmt.Sprintf("num-slaves %d", len(w.Nodes)-1),
			fmt.Sprintf("num-other-sentinels %d", len(w.Sentinels)-1), "flags master ")
	}
	master := w.master(tb)
	master.says(tb, []string{"INFO", "replication"}, "role:master", fmt.Sprintf("connected_slaves:%d", len(w.Nodes)-1))
	for _, s := range w.Sentinels {
		s.says(tb, []string{"SENTINEL", "MASTER", w.Name}, "port "+master.port())
	}
	for _, node := range w.Nodes {
		if node != master {
			node.says(tb, []string{"INFO", "replication"}, "master_port:"+master.port(), "master_link_status:up")
		}
	}
}

// master returns the node that the first Sentinel knows as the master.
func (w *Guarded) master(tb testing.TB) *Server {
	tb.Helper()
	said := w.Sentinels[0].Do(tb, "SENTINEL", "GET-MASTER-ADDR-BY-NAME", w.Name)
	for _, node := range w.Nodes {
		if strings.Contains(fmt.Sprint(said), node.port()+"]") {
			return node
		}
	}
	tb.Fatalf("the Sentinel knows none of the nodes: %v", said)
	return nil
}

// Failover orders a failover, and returns when it has begun.
func (w *Guarded) Failover(tb testing.TB) {
	tb.Helper()
	err := until(w.Sentinels[0].done, func() bool { // another one may just have ended
		said, err := w.Sentinels[0].ask("SENTINEL", "FAILOVER", w.Name)
		return err == nil && said == "OK"
	})
	if err != nil {
		tb.Fatalf("no failover begins: %v", err)
	}
}

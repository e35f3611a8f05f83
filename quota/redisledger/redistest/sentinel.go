package redistest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A Guarded is a master with its replicas, and the Sentinels that replace it by one of these.
type Guarded struct {
	Name             string // of the master, as the Sentinels know it
	Nodes, Sentinels []*Server
}

// StartSentinels starts Sentinels, a master and replicas, that know of each other. The nodes get further arguments of
// redis-server.
func StartSentinels(tb testing.TB, sentinels, replicas int, args ...string) *Guarded {
	tb.Helper()
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	w := &Guarded{Name: "budget", Nodes: []*Server{StartTCP(tb, args...)}}
	for range replicas {
		w.Nodes = append(w.Nodes, StartTCP(tb, append(args, "--replicaof", "127.0.0.1", w.Nodes[0].port())...))
	}
	for range sentinels {
		s := prepare(tb)
		s.listen(freePorts(tb, 1)[0])
		config := fmt.Sprintf("port %s\nbind 127.0.0.1\nunixsocket %s\ndir %s\nsentinel monitor %[4]s 127.0.0.1 %[5]s %[6]d\n"+
			"sentinel down-after-milliseconds %[4]s 1000\nsentinel failover-timeout %[4]s 5000\n",
			s.port(), s.socket(), s.dir, w.Name, w.Nodes[0].port(), sentinels/2+1)
		path := filepath.Join(s.dir, "conf") // which a Sentinel writes to
		must(tb, os.WriteFile(path, []byte(config), 0o600))
		s.args = []string{path, "--sentinel"}
		s.Run(tb)
		w.Sentinels = append(w.Sentinels, s)
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
	master := w.Master(tb)
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

// Master returns the node that the first Sentinel knows as the master.
func (w *Guarded) Master(tb testing.TB) *Server {
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
	Until(tb, "a failover begins", func() bool { // another one may just have ended
		said, err := w.Sentinels[0].ask("SENTINEL", "FAILOVER", w.Name)
		return err == nil && said == "OK"
	})
}

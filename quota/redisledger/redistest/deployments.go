package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// nextPort is where freePorts looks next. Its ports are below those that the kernel gives to connections, of which one
// could be there before the server is; each process of tests begins at another.
var nextPort = func() *atomic.Int32 {
	var port atomic.Int32
	port.Store(int32(10_000 + os.Getpid()%400*50))
	return &port
}()

// freePorts returns ports of the loopback address at which no server listens.
func freePorts(tb testing.TB, n int) (ports []string) {
	tb.Helper()
	for len(ports) < n {
		port := strconv.Itoa(int(nextPort.Add(1)))
		listener, err := net.Listen("tcp", "127.0.0.1:"+port)
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		} else if err != nil {
			tb.Fatal(err)
		}
		listener.Close()
		ports = append(ports, port)
	}
	return ports
}

// StartTCP is Start on a port of the loopback address.
func StartTCP(tb testing.TB, args ...string) *Server {
	tb.Helper()
	s := prepare(tb, append([]string{"--save", "", "--appendonly", "no"}, args...)...)
	s.listen(freePorts(tb, 1)[0])
	s.Run(tb)
	return s
}

func (s *Server) listen(port string) {
	s.args = append(s.args, "--bind", "127.0.0.1", "--port", port)
	s.Addr = net.JoinHostPort("127.0.0.1", port)
}

// port is where a server listens that has an address with one.
func (s *Server) port() string {
	_, port, _ := net.SplitHostPort(s.Addr)
	return port
}

// slots is how many hash slots a Cluster has.
const slots = 16384

// StartCluster starts a Cluster of three masters that share the slots.
func StartCluster(tb testing.TB) []*Server {
	tb.Helper()
	const masters = 3
	ports := freePorts(tb, 2*masters)
	var nodes []*Server
	for i := range masters {
		node := prepare(tb, "--save", "", "--appendonly", "no", "--cluster-enabled", "yes", "--cluster-port", ports[masters+i])
		node.listen(ports[i])
		node.Run(tb)
		node.Do(tb, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
		node.Do(tb, "CLUSTER", "ADDSLOTSRANGE", strconv.Itoa(slots*i/masters), strconv.Itoa(slots*(i+1)/masters-1))
		nodes = append(nodes, node)
	}
	for i, node := range nodes[1:] {
		nodes[0].Do(tb, "CLUSTER", "MEET", "127.0.0.1", node.port(), ports[masters+1+i])
	}
	for _, node := range nodes {
		node.says(tb, []string{"CLUSTER", "INFO"}, "cluster_state:ok", fmt.Sprintf("cluster_slots_ok:%d", slots), fmt.Sprintf("cluster_known_nodes:%d", masters))
	}
	return nodes
}

// says waits until all of these stand in the answer to a command.
func (s *Server) says(tb testing.TB, command []string, want ...string) {
	tb.Helper()
	Until(tb, fmt.Sprintf("%v of redis says %q", command, want), func() bool {
		said, _ := s.ask(command...)
		return !slices.ContainsFunc(want, func(part string) bool { return !strings.Contains(fmt.Sprint(said), part) })
	})
}

// MoveSlot moves a slot of a Cluster with its keys, as redis-cli does. During is called when the keys have moved, and the
// slot has not.
func MoveSlot(tb testing.TB, from, to *Server, slot string, during func()) {
	tb.Helper()
	id := func(s *Server) string { return fmt.Sprint(s.Do(tb, "CLUSTER", "MYID")) }
	to.Do(tb, "CLUSTER", "SETSLOT", slot, "IMPORTING", id(from))
	from.Do(tb, "CLUSTER", "SETSLOT", slot, "MIGRATING", id(to))
	keys := []string{"MIGRATE", "127.0.0.1", to.port(), "", "0", "5000", "KEYS"}
	for _, key := range from.Do(tb, "CLUSTER", "GETKEYSINSLOT", slot, "1000").([]any) {
		keys = append(keys, key.(string))
	}
	if len(keys) > 7 {
		from.Do(tb, keys...)
	}
	during()
	for _, node := range []*Server{to, from} {
		node.Do(tb, "CLUSTER", "SETSLOT", slot, "NODE", id(to))
	}
}

// StartTLS starts a Redis that speaks TLS only, and knows its clients by their certificates. It returns what such a
// client needs: the one certificate of all, which is its own authority.
func StartTLS(tb testing.TB) (*Server, *tls.Config) {
	tb.Helper()
	s := prepare(tb, "--save", "", "--appendonly", "no", "--port", "0")
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(tb, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "redis"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	must(tb, err)
	keyText, err := x509.MarshalECPrivateKey(key)
	must(tb, err)
	certificate, file := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: raw}), filepath.Join(s.dir, "pem")
	both := append(certificate, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyText})...)
	must(tb, os.WriteFile(file, both, 0o600))
	port := freePorts(tb, 1)[0]
	s.Addr = net.JoinHostPort("127.0.0.1", port)
	s.args = append(s.args, "--bind", "127.0.0.1", "--tls-port", port, "--tls-auth-clients", "yes",
		"--tls-ca-cert-file", file, "--tls-cert-file", file, "--tls-key-file", file)
	s.Run(tb)
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(both)
	return s, &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{{Certificate: [][]byte{raw}, PrivateKey: key}}}
}

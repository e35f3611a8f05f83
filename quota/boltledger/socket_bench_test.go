package boltledger_test

import (
	"encoding/binary"
	"errors"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"go.etcd.io/bbolt"

	"quotad/quota/benchmark"
)

// TestServeCommit is a server of the benchmarks, until it is killed: each answer is
// preceded by one small synced commit, without a decision.
func TestServeCommit(t *testing.T) {
	socket := os.Getenv(benchmark.SocketVariable)
	if socket == "" {
		t.Skip("only a process of the benchmarks serves")
	}
	db, err := bbolt.Open(filepath.Join(filepath.Dir(socket), "commits.db"), 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if err := db.Update(commit); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"granted":true}`))
	})
	if err := http.Serve(listener, handler); !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
}

func commit(tx *bbolt.Tx) error {
	bucket, err := tx.CreateBucketIfNotExists([]byte("log"))
	if err != nil {
		return err
	}
	n, err := bucket.NextSequence()
	if err != nil {
		return err
	}
	return bucket.Put(binary.BigEndian.AppendUint64(nil, n), make([]byte, 50))
}

const embedded = `
[ledger]
deadline = "10s"
[credentials.youtube.limits.daily]
units = 1_000_000_000_000
window = "24h"
[credentials.youtube.operations]
"videos.list" = 1
`

// BenchmarkSocket compares durable acquires over the socket with a handler that makes
// one synced commit. One iteration is the whole comparison:
//
//	go test -run - -bench Socket -benchtime 1x -v ./quota/boltledger
func BenchmarkSocket(b *testing.B) {
	daemon := benchmark.Quotad(b, benchmark.BuildQuotad(b), embedded)
	floor := benchmark.Again(b, "TestServeCommit")
	dial := func(p *benchmark.Process) func() (benchmark.Client, error) {
		return func() (benchmark.Client, error) {
			return benchmark.HTTP(p.Socket, "/v1/acquire", "credential=youtube&operation=videos.list", http.StatusOK)
		}
	}
	const commits = "handler with a synced commit"
	rivals := []benchmark.Rival{
		{Name: commits, Slow: true, Dial: dial(floor), Servers: []*benchmark.Process{floor}},
		{Name: "acquire, embedded", Slow: true, Dial: dial(daemon), Servers: []*benchmark.Process{daemon}, Floor: commits},
	}
	for b.Loop() {
		benchmark.Compare(b, rivals)
	}
}

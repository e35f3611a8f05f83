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
		if err := db.Update(func(tx *bbolt.Tx) error { return commit(tx, make([]byte, 50)) }); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		w.Write([]byte(`{"granted":true}`))
	})
	if err := http.Serve(listener, handler); !errors.Is(err, http.ErrServerClosed) {
		t.Fatal(err)
	}
}

// BenchmarkSocket compares durable acquires over the socket with a handler that makes one synced commit. One
// iteration is the whole comparison:
//
//	go test -run - -bench Socket -benchtime 1x -v ./quota/boltledger
func BenchmarkSocket(b *testing.B) {
	daemon := benchmark.Quotad(b, benchmark.BuildQuotad(b), `
[ledger]
deadline = "10s"
[credentials.youtube.limits.daily]
units = 1_000_000_000_000
window = "24h"
[credentials.youtube.operations]
"videos.list" = 1
`)
	dial := func(p *benchmark.Process) func() (benchmark.Client, error) {
		return func() (benchmark.Client, error) {
			return benchmark.HTTP(p.Socket, "/v1/acquire", "credential=youtube&operation=videos.list", http.StatusOK)
		}
	}
	floor := benchmark.Again(b, "TestServeCommit")
	const commits, ours = "a handler with one synced commit", "acquire, embedded"
	rivals := []benchmark.Rival{
		{Name: commits, Slow: true, Dial: dial(floor), Servers: []*benchmark.Process{floor}},
		{Name: ours, Slow: true, Dial: dial(daemon), Servers: []*benchmark.Process{daemon}, Floor: commits},
	}
	table := benchmark.Table{
		Name: "embedded", Command: "QUOTAD_BENCH_README=1 go test -run - -bench Socket -benchtime 1x -v ./quota/boltledger",
		Sources: benchmark.OfAcquire, Head: benchmark.Sides,
	}
	for b.Loop() {
		measured := benchmark.Compare(b, rivals)
		of, commit := measured[ours], measured[commits]
		table.Rows = nil
		table.Beside("embedded, one client, every grant synced", " µs", of.P50, commits, commit.P50)
		table.Beside("embedded, one client: context switches of quotad", "", of.Switches, commits, commit.Switches)
		table.Beside("embedded, one client: system calls of quotad, under strace", "", of.Calls, commits, commit.Calls)
		table.Beside("embedded, 64 clients, every grant synced: grants a second", "", of.Rate, commits, commit.Rate)
		table.Write(b)
	}
}

// commit is one small commit of a store that has a log.
func commit(tx *bbolt.Tx, value []byte) error {
	bucket, err := tx.CreateBucketIfNotExists([]byte("log"))
	if err != nil {
		return err
	}
	n, err := bucket.NextSequence()
	if err != nil {
		return err
	}
	return bucket.Put(binary.BigEndian.AppendUint64(nil, n), value)
}

package boltledger_test

import (
	"bytes"
	"encoding/binary"
	"path/filepath"
	"runtime"
	"testing"

	"go.etcd.io/bbolt"

	"quotad/quota/boltledger"
)

// BenchmarkAppend compares an Append, alone and of many callers, with what it takes the place
// of: one small synced commit.
//
//	go test -run - -bench Append ./quota/boltledger
func BenchmarkAppend(b *testing.B) {
	frame := bytes.Repeat([]byte("f"), 150)
	b.Run("synced commit of bbolt", func(b *testing.B) {
		db, err := bbolt.Open(filepath.Join(b.TempDir(), "commits.db"), 0o600, nil)
		if err != nil {
			b.Fatal(err)
		}
		defer db.Close()
		for b.Loop() {
			if err := db.Update(func(tx *bbolt.Tx) error { return commit(tx, frame) }); err != nil {
				b.Fatal(err)
			}
		}
	})
	for _, row := range []struct {
		name    string
		callers int
		sync    bool
	}{{"synced, 1 caller", 0, true}, {"synced, 64 callers", 64, true}, {"not synced", 0, false}} {
		b.Run(row.name, func(b *testing.B) {
			l, err := boltledger.Open(boltledger.Config{Path: filepath.Join(b.TempDir(), "ledger.db")})
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			appendOne := func() {
				if err := l.Append("youtube", frame, row.sync); err != nil {
					b.Error(err)
				}
			}
			appendOne() // makes the first room
			if row.callers == 0 {
				for b.Loop() {
					appendOne()
				}
				return
			}
			b.SetParallelism(max(1, row.callers/runtime.GOMAXPROCS(0)))
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					appendOne()
				}
			})
		})
	}
}

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

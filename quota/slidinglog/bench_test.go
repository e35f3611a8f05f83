package slidinglog_test

import (
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// alone opens a ledger without a store, on a clock that moves by a millisecond with each reading.
func alone(b *testing.B) (*slidinglog.Ledger, *quota.Credential) {
	c, now := credential(time.Hour), time.UnixMilli(1795345190000)
	c.Limits[0].Units = quota.MaxUnits
	l, err := slidinglog.Open(slidinglog.Config{
		File: ledgertest.NewMemFile(), Credentials: []*quota.Credential{c}, Manual: true,
		Clock: func() time.Time { now = now.Add(time.Millisecond); return now },
	})
	if err != nil {
		b.Fatal(err)
	}
	return l, c
}

// grant has the ledger grant n calls, one after the other.
func grant(b *testing.B, l *slidinglog.Ledger, c *quota.Credential, n int) {
	asks := []quota.Ask{{
		Request: quota.Request{Credential: c.Name, Operation: "list", Count: 1, Caller: quota.Caller{Job: "trending", Region: "US"}},
		Charges: []quota.Charge{{Limit: "daily", Units: 1}},
	}}
	for range n {
		if d, err := l.Acquire(b.Context(), c, asks); err != nil || !d[0].Granted() {
			b.Fatal(d, err)
		}
	}
}

// BenchmarkGrant decides a grant, and writes it to a file in memory.
func BenchmarkGrant(b *testing.B) {
	l, c := alone(b)
	b.ReportAllocs()
	for b.Loop() {
		grant(b, l, c, 1)
	}
}

// BenchmarkFold writes 1,000 grants to the tables of a file in memory.
func BenchmarkFold(b *testing.B) {
	l, c := alone(b)
	b.ReportAllocs()
	for b.Loop() {
		b.StopTimer()
		grant(b, l, c, 1000)
		b.StartTimer()
		if err := l.Fold(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLog reads a page of 1,000 grants from the tables.
func BenchmarkLog(b *testing.B) {
	l, c := alone(b)
	grant(b, l, c, 1000)
	if err := l.Fold(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if page, err := l.Log(b.Context(), c, quota.LogQuery{Newest: true, Max: 1000}); err != nil || len(page.Entries) != 1000 {
			b.Fatal(len(page.Entries), err)
		}
	}
}

package slidinglog

import (
	"fmt"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/journal"
)

// A start on one host reads a day of entries: of the time until READY, this is what grows.
func BenchmarkOpen(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n, " entries"), func(b *testing.B) {
			dir, now := b.TempDir(), time.Now()
			j, err := journal.Open(dir, "youtube", false)
			for i := range n {
				at := now.Add(-time.Duration(n-i) * 8 * time.Second / 2).UnixMicro()
				text := " daily=1 search=1\ngrant videos.list 1 trending US %"
				if err == nil {
					err = j.Append(journal.Record{Kind: journal.Own, At: at, ID: string(quota.NewID()), Text: text})
				}
			}
			if err == nil {
				err = j.Close()
			}
			if err != nil {
				b.Fatal(err)
			}
			c := &quota.Credential{Name: "youtube", Operations: map[string]quota.Cost{"videos.list": {Every: 1}},
				Limits: []quota.Limit{{Name: "daily", Units: 100_000, Window: quota.Sliding(24 * time.Hour)}}}
			for b.Loop() {
				l := Open(Config{Engine: NewMemory(time.Now), Dir: dir})
				if err := l.SetCredentials([]*quota.Credential{c}, nil); err != nil {
					b.Fatal(err)
				}
				l.Await(b.Context())
				b.StopTimer()
				l.Close()
				b.StartTimer()
			}
		})
	}
}

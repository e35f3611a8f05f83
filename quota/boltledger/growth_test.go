package boltledger_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/boltledger"
)

// A file that grows is mapped anew, for which the writer waits for all readers, and lets
// nobody else read: nobody of these may be waiting for the account of whoever is to read
// next.
func TestReadersWhileTheFileGrows(t *testing.T) {
	const files, entries = 4, 20
	for range files {
		l, err := boltledger.Open(boltledger.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Unsynced: true})
		if err != nil {
			t.Fatal(err)
		}
		credentials := make([]*quota.Credential, 4)
		for i := range credentials {
			credentials[i] = growthCredential(fmt.Sprintf("c%d", i))
		}
		var writers, readers sync.WaitGroup
		over := make(chan struct{})
		for _, c := range credentials {
			for range 2 {
				readers.Go(func() {
					for {
						select {
						case <-over:
							return
						default:
						}
						if _, err := l.Usage(t.Context(), c); err != nil {
							t.Error(err)
						}
					}
				})
			}
			writers.Go(func() {
				region := strings.Repeat("r", 100)
				asks := make([]quota.Ask, 50)
				for i := range asks {
					asks[i] = quota.Ask{
						Request: quota.Request{Credential: c.Name, Operation: "list", Count: 1, Caller: quota.Caller{Region: region}},
						Charges: []quota.Charge{{Limit: "daily", Units: 1}},
					}
				}
				for range entries {
					if _, err := l.Acquire(t.Context(), c, asks); err != nil {
						t.Error(err)
					}
				}
			})
		}
		writers.Wait()
		close(over)
		readers.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

func growthCredential(name string) *quota.Credential {
	return &quota.Credential{
		Name:       name,
		Limits:     []quota.Limit{{Name: "daily", Units: 1_000_000, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}
}

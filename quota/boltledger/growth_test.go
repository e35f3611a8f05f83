package boltledger_test

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"quotad/quota"
	"quotad/quota/boltledger"
	"quotad/quota/slidinglog"
)

// A file that grows is mapped anew, for which the Fold waits for all readers, and lets nobody
// else read: nobody waits for ever, and an Append for none of them.
func TestReadersWhileTheFileGrows(t *testing.T) {
	for range 4 {
		l, err := boltledger.Open(boltledger.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), Unsynced: true})
		if err != nil {
			t.Fatal(err)
		}
		credentials := []string{"a", "b", "c", "d"}
		var readers, writers sync.WaitGroup
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
						err := l.View(c, func(tables slidinglog.Tables) error {
							for _, err := range tables.Entries(quota.ID{}, true) {
								if err != nil {
									return err
								}
							}
							return l.Room(c, 100)
						})
						if err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
		writers.Go(func() {
			value := []byte(strings.Repeat("r", 150))
			for n := range 20 {
				var changes []slidinglog.TableChange
				for _, c := range credentials {
					var items []slidinglog.Item
					for i := range 50 {
						items = append(items, slidinglog.Item{ID: quota.ID{Ms: int64(n + 1), Seq: int64(i)}, Value: value})
					}
					changes = append(changes, slidinglog.TableChange{Credential: c, Put: items})
					if err := l.Append(c, value, true); err != nil {
						t.Error(err)
					}
				}
				l.Cut()
				if err := l.Fold(changes); err != nil {
					t.Error(err)
				}
			}
		})
		writers.Wait()
		close(over)
		readers.Wait()
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}

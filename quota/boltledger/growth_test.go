package boltledger_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"quotad/quota/boltledger"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
)

// A file that grows is mapped anew, for which the Fold waits for all readers, and lets nobody
// else read: nobody waits for ever, and an Append for none of them.
func TestReadersWhileTheFileGrows(t *testing.T) {
	seedtest.SkipUnderRace(t)
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
							for range tables.Rows(slidinglog.EntryTable, nil, true) {
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
					var rows []slidinglog.Row
					for i := range 50 {
						rows = append(rows, slidinglog.Row{Key: fmt.Appendf(nil, "%08d-%08d", n+1, i), Value: value})
					}
					changes = append(changes, slidinglog.TableChange{Credential: c, Rows: rows})
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

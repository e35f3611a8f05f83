package journal

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
)

// BenchmarkAppend compares an entry that is appended and synced with its floor, the same bytes written and synced.
func BenchmarkAppend(b *testing.B) {
	text := strings.Repeat("x", 60)
	b.Run("floor", func(b *testing.B) {
		f, err := os.Create(filepath.Join(b.TempDir(), "file"))
		must(b, err)
		line, _ := Record{Own, 1764000000000000, "0123456789abcdef", text}.appendLine(nil, 0)
		for b.Loop() {
			_, err := f.Write(line)
			must(b, errors.Join(err, syscall.Fdatasync(int(f.Fd()))))
		}
	})
	for _, callers := range []int{1, 64} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			j, err := Open(b.TempDir(), credential, false)
			must(b, err)
			var all sync.WaitGroup
			var next atomic.Int64
			for range callers {
				all.Go(func() {
					for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
						r := Record{Own, 1764000000000000, fmt.Sprintf("%016d", n), text}
						if err := errors.Join(j.Append(r), j.Sync()); err != nil {
							b.Error(err)
						}
					}
				})
			}
			all.Wait()
			must(b, j.Close())
		})
	}
}

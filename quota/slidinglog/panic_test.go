package slidinglog_test

import (
	"flag"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A brokenFile panics when it is read, once it is broken.
type brokenFile struct {
	*ledgertest.MemFile
	broken bool
}

func (f *brokenFile) View(credential string, of func(slidinglog.Tables) error) error {
	return f.MemFile.View(credential, func(tables slidinglog.Tables) error {
		if f.broken {
			panic("a mistake in quotad")
		}
		return of(tables)
	})
}

// A panic in the middle of a decision ends the process, though net/http recovers it: no call waits for its locks, and
// nothing is written of a copy that is half changed.
func TestAPanicEndsTheProcess(t *testing.T) {
	calls := map[string]func(*scene, *slidinglog.Ledger){
		"acquire": func(s *scene, l *slidinglog.Ledger) { l.Acquire(t.Context(), s.c, s.asks(1)) },
		"peek": func(s *scene, l *slidinglog.Ledger) {
			l.Peek(t.Context(), s.c, nil, s.asks(1)[0].Charges, false)
		},
		"usage": func(s *scene, l *slidinglog.Ledger) { l.Usage(t.Context(), s.c) },
		"reset": func(s *scene, l *slidinglog.Ledger) { l.Reset(t.Context(), s.c, quota.Caller{}, "") },
	}
	if call := calls[flag.Arg(0)]; call != nil {
		s := newScene(t)
		file := &brokenFile{MemFile: ledgertest.NewMemFile()}
		l := s.open(slidinglog.Config{File: file})
		s.follow(20, l)
		file.broken = true
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { call(s, l) }))
		http.Get(server.URL)
		t.Fatal("the process lives on")
	}
	for name := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAPanicEndsTheProcess$", name)
			c.WaitDelay = time.Second
			out, err := c.CombinedOutput()
			for _, want := range []string{"panic: a mistake in quotad", "brokenFile).View"} {
				if err == nil || !strings.Contains(string(out), want) {
					t.Errorf("%v; it does not say %q: %s", err, want, out)
				}
			}
		})
	}
}

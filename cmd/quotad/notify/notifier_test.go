package notify

import (
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/jobs/process"
)

// results counts what became of commands.
type results struct{ ok, failed, dropped atomic.Int64 }

func (r *results) add(event any) {
	if one, ok := event.(Result); ok {
		map[string]*atomic.Int64{OK: &r.ok, Failed: &r.failed, Dropped: &r.dropped}[one.Outcome].Add(1)
	}
}

// Commands that do not end cost a few processes, and keep nobody waiting.
func TestNotifierIsBounded(t *testing.T) {
	dir := t.TempDir()
	var r results
	n := NewNotifier(dir, r.add)
	n.Configure(config.OnEvent{Timeout: time.Minute, Commands: map[config.Event][]string{
		config.NearLimit: {"/bin/sh", "-c", "echo >$$.begun; until test -e go; do sleep 0.01; done"},
	}})
	n.Start(process.Launcher{})
	const events = 200
	const queued = workers * queueLength
	for i := range events {
		n.Record(Alert{Event: config.NearLimit, At: time.Now(), Credential: fmt.Sprint("credential-", i)})
	}
	if dropped := r.dropped.Load(); dropped < events-queued-workers {
		t.Errorf("%d events were dropped of %d", dropped, events)
	}
	n.Record(Alert{Event: config.Exhausted}) // no command is configured for it
	begun := func() int {
		files, _ := filepath.Glob(filepath.Join(dir, "*.begun"))
		return len(files)
	}
	eventually(t, func() bool { return begun() == workers })
	if err := os.WriteFile(filepath.Join(dir, "go"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	n.Stop()
	if ran := r.ok.Load() + r.failed.Load(); ran != events-r.dropped.Load() {
		t.Errorf("%d commands ran and %d events were dropped, of %d", ran, r.dropped.Load(), events)
	}
}

func TestNotifierEndsWhatHangs(t *testing.T) {
	t.Parallel()
	var r results
	n := NewNotifier(t.TempDir(), r.add)
	n.Configure(config.OnEvent{Timeout: 20 * time.Millisecond, Commands: map[config.Event][]string{
		config.NearLimit: {"/bin/sh", "-c", "trap '' TERM; sleep 1000"},
		config.Exhausted: {"/no/such/program"},
	}})
	n.Start(process.Launcher{})
	n.Record(Alert{Event: config.NearLimit, At: time.Now()})
	n.Record(Alert{Event: config.Exhausted, At: time.Now()})
	eventually(t, func() bool { return r.failed.Load() == 2 })
	n.Stop()
}

// eventually waits until something is so.
func eventually(t *testing.T, so func() bool) {
	t.Helper()
	tick, deadline := time.NewTicker(5*time.Millisecond), time.After(3*time.Minute)
	defer tick.Stop()
	for !so() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("it does not come to pass")
		}
	}
}

package notify

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/jobs/process"
	"quotad/quota"
)

// results counts what became of commands.
type results struct{ ok, failed, dropped atomic.Int64 }

func (r *results) add(event any) {
	if one, ok := event.(Result); ok {
		map[string]*atomic.Int64{OK: &r.ok, Failed: &r.failed, Dropped: &r.dropped}[one.Outcome].Add(1)
	}
}

// The start of a run is reported before its end, and what waits of older runs gives way.
func TestTheStartComesBeforeTheEnd(t *testing.T) {
	dir := t.TempDir()
	var r results
	n := NewNotifier(dir, r.add)
	command := []string{"/bin/sh", "-c", "echo $QUOTAD_EVENT $QUOTAD_RUN_ID $QUOTAD_TOOK_MS >>told; cat >>told"}
	n.Configure(config.OnEvent{Timeout: time.Minute, Commands: map[config.EventName][]string{config.RunStarted: command, config.RunEnded: command}})
	at := time.Now()
	for _, id := range []string{"a", "b"} {
		n.Record(Alert{Event: config.RunStarted, Run: jobs.Run{ID: id, Job: "fetch", StartedAt: at}})
		n.Record(Alert{Event: config.RunEnded, Run: jobs.Run{ID: id, Job: "fetch", StartedAt: at, EndedAt: at.Add(1500 * time.Millisecond), Passes: []jobs.Pass{
			{Region: "US", Outcome: jobs.OK, Tail: []string{"fine"}},
			{Region: "GB", Outcome: jobs.Timeout, Tail: []string{"no route", "still none"}},
		}}})
	}
	n.Start(process.Launcher{})
	n.Stop()
	told, err := os.ReadFile(filepath.Join(dir, "told"))
	if want := "run_started b\nrun_ended b 1500\nGB: no route\nGB: still none\n"; string(told) != want || err != nil || r.dropped.Load() != 2 {
		t.Errorf("got %q, %v and %d dropped, want %q and 2", told, err, r.dropped.Load(), want)
	}
}

// A storm: 500 limits are exhausted at once, and 500 are closed, while commands do not end. Each is reported once, none is
// dropped, and what comes and goes meanwhile takes no more room.
func TestAStorm(t *testing.T) {
	dir := t.TempDir()
	var r results
	n := NewNotifier(dir, r.add)
	n.Configure(config.OnEvent{Timeout: time.Minute, Commands: map[config.EventName][]string{
		config.Exhausted:   {"/bin/sh", "-c", "until test -e go; do sleep 0.01; done; echo $QUOTAD_EVENT $QUOTAD_CREDENTIAL $QUOTAD_LIMIT >>told"},
		config.LimitClosed: {"/bin/sh", "-c", "until test -e go; do sleep 0.01; done; echo $QUOTAD_EVENT $QUOTAD_CREDENTIAL $QUOTAD_LIMIT >>told"},
	}})
	const limits = 500
	var done atomic.Int64
	for i := range limits {
		limit := fmt.Sprint("limit-", i)
		n.Record(Alert{Event: config.Exhausted, At: time.Now(), Credential: "api", Limit: quota.LimitState{Limit: quota.Limit{Name: limit}}})
		for j := range 21 { // it is closed at last
			c := trouble.Change{Trouble: trouble.Trouble{Kind: trouble.Closed, Of: "limit api " + limit}, Ended: j%2 == 1}
			n.Record(Changed(c, time.Now(), func() { done.Add(1) }))
		}
	}
	n.Record(Alert{Event: config.NearLimit}) // no command is configured for it
	n.mu.Lock()
	waits := 0
	for _, alerts := range n.waiting {
		waits += len(alerts)
	}
	if subjects := len(n.waiting); subjects > 2*limits || waits > 3*limits {
		t.Errorf("%d alerts of %d subjects wait", waits, subjects)
	}
	n.mu.Unlock()
	n.Start(process.Launcher{})
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	eventually(t, func() bool { return r.ok.Load() >= 2*limits })
	n.Stop()
	text, err := os.ReadFile(filepath.Join(dir, "told"))
	must(t, err)
	told := map[string]int{}
	for line := range strings.Lines(string(text)) {
		told[line]++
	}
	for line, times := range told {
		if times != 1 {
			t.Errorf("%q was told %d times", line, times)
		}
	}
	if len(told) != 2*limits || r.dropped.Load() > 0 || r.failed.Load() > 0 {
		t.Errorf("%d were told, %d dropped, %d failed", len(told), r.dropped.Load(), r.failed.Load())
	}
}

// What began and ended before its command could run is reported as both, in this order; an end that is reported is done, and
// one for which there is no time at the stop is not.
func TestNothingIsToldHalf(t *testing.T) {
	dir := t.TempDir()
	var r results
	n := NewNotifier(dir, r.add)
	n.Configure(config.OnEvent{Timeout: time.Minute, Commands: map[config.EventName][]string{
		config.NearLimit:   {"/bin/sh", "-c", "until test -e go; do sleep 0.01; done"},
		config.OutageBegan: {"/bin/sh", "-c", "echo $QUOTAD_EVENT $QUOTAD_DETAIL >>told"},
		config.OutageEnded: {"/bin/sh", "-c", "echo $QUOTAD_EVENT >>told"},
		config.JobFailing:  {"/bin/sh", "-c", "sleep 1000"},
	}})
	n.Start(process.Launcher{})
	for i := range workers {
		n.Record(Alert{Event: config.NearLimit, Percent: quota.Units(i)})
	}
	var done atomic.Int64
	for i, ended := range []bool{false, true, false, true} {
		c := trouble.Change{Trouble: trouble.Trouble{Kind: trouble.Ledger, Of: "ledger", Says: fmt.Sprint(i)}, Ended: ended}
		n.Record(Changed(c, time.Now(), func() { done.Add(1) }))
	}
	must(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	eventually(t, func() bool { return done.Load() == 2 })
	text, _ := os.ReadFile(filepath.Join(dir, "told"))
	if got, want := string(text), "outage_began 0\noutage_ended\n"; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	for range workers + 1 {
		c := trouble.Change{Trouble: trouble.Trouble{Kind: trouble.Failing, Of: fmt.Sprint("job ", done.Add(1))}}
		n.Record(Changed(c, time.Now(), func() { t.Error("done, though it was ended") }))
	}
	n.Stop()
}

func TestNotifierEndsWhatHangs(t *testing.T) {
	t.Parallel()
	var r results
	n := NewNotifier(t.TempDir(), r.add)
	n.Configure(config.OnEvent{Timeout: 20 * time.Millisecond, Commands: map[config.EventName][]string{
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

// must fails a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

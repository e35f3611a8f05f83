package jobs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota/seedtest"
	"quotad/regions"
)

func openTestLog(t *testing.T, path string) *runLog {
	t.Helper()
	l, _, err := openRunLog(path)
	must(t, err)
	return l
}

// appendTo appends records to a log.
func appendTo(l *runLog, sync bool, list ...logRecord) error {
	l.add(list...)
	return l.flush(sync)
}

func wantRuns(t *testing.T, l *runLog, n int, first, last string) {
	t.Helper()
	runs, err := l.latest(3000)
	if err != nil || len(runs) != n {
		t.Fatalf("got %d runs, %v, want %d", len(runs), err, n)
	}
	if runs[n-1].ID != first || runs[0].ID != last {
		t.Errorf("got %s … %s, want %s … %s", runs[n-1].ID, runs[0].ID, first, last)
	}
}

// Killed at any byte of what was written last: the next daemon knows all that came
// before it, nothing is running for ever, no region has lost or been given a turn, and
// no slot is lost or run twice.
func TestKilledAtEveryByteOfTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.CatchUp = true
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			p.output(Line{Stream: "stdout", Text: "four pages of " + p.region})
			time.Sleep(time.Minute)
			return Exit{}
		}
		eleven := time.Now().Truncate(time.Hour).Add(time.Hour).UTC()
		time.Sleep(time.Until(eleven.Add(-time.Second)))
		for _, step := range []struct {
			name          string
			at            time.Duration // after the slot
			records       int           // that are written then; those before the last one are left whole
			unbegun       bool          // without the last one nothing is known of the run
			before, after string        // the cursor without the last record, or without the whole of it, and with it
			state         RunState      // with it
		}{
			{"the run began", 0, 3, true, "US", "US", RunInterrupted},
			{"a pass started", 7*time.Minute + 30*time.Second, 2, false, "GB", "GB", RunInterrupted},
			{"a pass ended", 8*time.Minute + 30*time.Second, 1, false, "GB", "DE", RunInterrupted},
			{"the run ended", 53*time.Minute + 30*time.Second, 2, false, "US", "US", RunDone},
		} {
			time.Sleep(time.Until(eleven.Add(step.at)) - time.Millisecond)
			synctest.Wait()
			dir, log := copyOf(t, dir), filepath.Join(dir, "trending.runs")
			known, _ := os.ReadFile(log) // there is none at first
			if step.unbegun {
				b.Tick("trending", eleven)
			}
			time.Sleep(time.Millisecond)
			synctest.Wait()
			content, err := os.ReadFile(log)
			must(t, err)
			records := bytes.SplitAfter(content[len(known):], []byte{'\n'})
			if len(records)-1 != step.records { // behind the last newline is nothing
				t.Fatalf("%s: got the records %q, want %d", step.name, records, step.records)
			}
			last := records[step.records-1]
			if step.unbegun {
				last, content = records[0], content[:len(known)+len(records[0])]
			}
			for cut := 0; cut <= len(last); cut++ {
				copied := copyOf(t, dir)
				file := filepath.Join(copied, "trending.runs")
				must(t, os.WriteFile(file, content[:len(content)-len(last)+cut], 0o600))
				next := newBed(t, copied, job)
				what := fmt.Sprintf("%s, cut at byte %d of %d", step.name, cut, len(last))
				if cut < len(last) {
					next.wantAfterKill(what, step.before, RunInterrupted, !step.unbegun, eleven)
				} else {
					next.wantAfterKill(what, step.after, step.state, true, eleven)
				}
			}
		}
	})
}

// wantAfterKill checks how a daemon finds the job that another one left, which was killed
// during the slot, and that the slot is made up for if nothing is known of its run.
func (b *bed) wantAfterKill(what, cursor string, state RunState, begun bool, slot time.Time) {
	b.t.Helper()
	got := b.status()
	switch {
	case string(got.Cursor) != cursor:
		b.t.Fatalf("%s: the cursor is at %s, want %s", what, got.Cursor, cursor)
	case !begun && got.Last != nil:
		b.t.Fatalf("%s: got %+v, want nothing", what, got.Last)
	case begun && (got.Last.State != state || len(got.Last.Ring) != 8):
		b.t.Fatalf("%s: got %+v, want it %s", what, got.Last, state)
	case begun && slices.ContainsFunc(got.Last.Passes, func(p Pass) bool { return p.Outcome == Running }):
		b.t.Fatalf("%s: got %+v, want none of them running", what, got.Last.Passes)
	}
	b.Start(b.t.Context())
	synctest.Wait()
	if got := b.status(); !got.Last.Slot.Equal(slot) || (got.Last.Trigger == CatchUp) == begun {
		b.t.Fatalf("%s: after the start got %+v, want the slot once", what, got.Last)
	}
	b.stop()
}

// copyOf copies a directory, if it is there.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return copied
}

// The last pass of a long run writes as much as the first.
func TestPassesWriteAlike(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions, job.Stagger = nil, 0
		for i := range 200 {
			job.Regions = append(job.Regions, regions.Region(fmt.Sprintf("r%03d", i)))
		}
		b := newBed(t, dir, job)
		b.play = func(context.Context, played) Exit { time.Sleep(time.Second); return Exit{} }
		path := filepath.Join(dir, "trending.runs")
		var sizes []int64
		slot := time.Now().Truncate(time.Hour).Add(time.Hour)
		time.Sleep(time.Until(slot))
		b.Tick("trending", slot.UTC())
		for range 200 {
			time.Sleep(time.Second)
			synctest.Wait()
			info, err := os.Stat(path)
			must(t, err)
			sizes = append(sizes, info.Size())
		}
		second, last := sizes[1]-sizes[0], sizes[198]-sizes[197]
		if last > second+16 || last > 4096 {
			t.Errorf("the second pass wrote %d bytes, the last %d", second, last)
		}
		t.Logf("%d bytes a pass", last)
	})
}

// A record that is damaged is left out, those before and after it are not; those of
// another version are refused, with the way out.
func TestDamagedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trending.runs")
	l := openTestLog(t, path)
	for _, id := range []string{"a", "b", "c"} {
		must(t, appendTo(l, true, logRecord{Run: &Run{ID: id}}))
	}
	data, err := os.ReadFile(path)
	must(t, err)
	lines := strings.SplitAfter(string(data), "\n")
	must(t, os.WriteFile(path, []byte(lines[0]+strings.Repeat("\x00", len(lines[1])-1)+"\n"+lines[2]+lines[0][:5]), 0o600))
	l = openTestLog(t, path)
	wantRuns(t, l, 2, "a", "c")
	must(t, appendTo(l, true, logRecord{Run: &Run{ID: "d"}}))
	wantRuns(t, openTestLog(t, path), 3, "a", "d")
	var told state
	l, recent, err := openRunLog(path)
	must(t, err)
	if damaged, err := l.each(recent, told.apply); err != nil || damaged != 1 || told.Last.ID != "d" {
		t.Errorf("got %+v, %v as the last run", told.Last, err)
	}
	must(t, os.WriteFile(path, []byte(strings.Replace(lines[0], `"v":2`, `"v":1`, 1)), 0o600))
	if _, err := openTestLog(t, path).latest(10); err == nil || !strings.Contains(err.Error(), "version 1") || !strings.Contains(err.Error(), "move the file away") {
		t.Errorf("got %v", err)
	}
}

// A log that has grown long begins a new file, and replaces the one before it. What a run is known by is
// not lost, wherever that is killed.
func TestLogIsBounded(t *testing.T) {
	seedtest.SkipUnderRace(t)
	path := filepath.Join(t.TempDir(), "trending.runs")
	l, told := openTestLog(t, path), state{}
	known := func() logRecord { return logRecord{Known: &told} }
	run, whole := 0, 0
	fill := func() { // a file
		t.Helper()
		for before := l.size; l.size >= before; run++ {
			before = l.size
			r := Run{ID: fmt.Sprintf("%04d", run), State: RunDone, Detail: strings.Repeat("x", snapshotEvery/2), Passes: []Pass{{Region: "US", Outcome: OK}}}
			told.apply(logRecord{Run: &r})
			must(t, errors.Join(appendTo(l, false, logRecord{Run: &r}), l.keep(&sync.Mutex{}, known)))
		}
		if list, err := filepath.Glob(path + "*"); err != nil || len(list) != 2 {
			t.Fatalf("got the files %v, %v", list, err)
		}
	}
	wants := func(n int) {
		t.Helper()
		first, last := fmt.Sprintf("%04d", run-n), fmt.Sprintf("%04d", run-1)
		wantRuns(t, l, n, first, last)
		again := openTestLog(t, path)
		wantRuns(t, again, n, first, last)
		var s state
		_, recent, err := openRunLog(path)
		must(t, err)
		if _, err := again.each(recent, s.apply); err != nil || s.Last.ID != last || len(s.Last.Passes) != 1 {
			t.Errorf("got %+v, %v as the last run, want %s", s.Last, err, last)
		}
		if r, found, err := again.find(first); err != nil || !found || len(r.Passes) != 1 {
			t.Errorf("got %+v, %v, %v, want run %s", r, found, err, first)
		}
	}
	fill()
	whole = run
	wants(run)
	fill()
	wants(run - whole + 1)                  // the new file begins with the last run of the one before
	if err := os.Remove(path); err != nil { // killed before the new file was written
		t.Fatal(err)
	}
	wants(run - whole + 1)
	next := Run{ID: fmt.Sprintf("%04d", run), Passes: []Pass{{Region: "US"}}}
	l = openTestLog(t, path)
	must(t, appendTo(l, true, logRecord{Run: &next}))
	run++
	wants(run - whole + 1)
}

// The latest runs come from the end of the file, and one run from the lines that name it: lines of
// another version, which cannot be decoded, are not in the way.
func TestHistoryIsNotReadWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trending.runs")
	text := []byte(strings.Repeat(`{"v":1,"what":"another version wrote this"}`+"\n", 2*snapshotEvery/40))
	for i := range 4 * snapshotEvery / 200 {
		run := Run{ID: fmt.Sprintf("r%05d", i), State: RunRunning}
		text = append(text, encodeRecords(logRecord{Run: &run}, passRecord(run.ID, Pass{Region: "US", Outcome: OK}), logRecord{ID: run.ID, End: &ending{State: RunDone}})...)
	}
	must(t, os.WriteFile(path, text, 0o600))
	l := &runLog{path: path}
	if runs, err := l.latest(5); err != nil || len(runs) != 5 || runs[0].State != RunDone || len(runs[0].Passes) != 1 {
		t.Errorf("got %+v, %v, want the last five, whole", runs, err)
	}
	if _, err := l.latest(1 << 20); err == nil {
		t.Error("all runs were read, over lines of another version")
	}
	if run, found, err := l.find("r00007"); err != nil || !found || run.State != RunDone || len(run.Passes) != 1 {
		t.Errorf("got %+v, %v, %v, want that run", run, found, err)
	}
	if _, found, err := l.find("r99999"); err != nil || found {
		t.Errorf("got %v, %v, want no such run", found, err)
	}
}

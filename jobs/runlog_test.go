package jobs

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quotad/regions"
)

func openTestLog(t *testing.T, path string) *runLog {
	t.Helper()
	l, err := openRunLog(path)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func wantRuns(t *testing.T, l *runLog, n int, first, last string) {
	t.Helper()
	runs, err := l.read()
	if err != nil || len(runs) != n {
		t.Fatalf("got %d runs, %v, want %d", len(runs), err, n)
	}
	if runs[0].ID != first || runs[n-1].ID != last {
		t.Errorf("got %s … %s, want %s … %s", runs[0].ID, runs[n-1].ID, first, last)
	}
}

// Killed at any byte of what was written last: the next daemon knows all that came
// before it, nothing is running for ever, and no region has lost or been given a turn.
func TestKilledAtEveryByteOfTheLog(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.play = func(_ context.Context, p played) Exit {
			p.output(Line{Stream: "stdout", Text: "four pages of " + p.region})
			time.Sleep(time.Minute)
			return Exit{}
		}
		path := filepath.Join(dir, "trending.runs")
		size := func() int64 {
			info, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			return info.Size()
		}
		b.tick()
		time.Sleep(7 * time.Minute) // US is over
		for _, step := range []struct {
			name   string
			until  time.Duration
			before string // the cursor without the record, or without the whole of it
			after  string
		}{
			{"a pass started", 30*time.Second + time.Second, "GB", "GB"},
			{"a pass ended", time.Minute, "GB", "DE"},
		} {
			from := size()
			time.Sleep(step.until)
			synctest.Wait()
			whole := size()
			for cut := from; cut <= whole; cut++ {
				next := b.killedAt(path, cut)
				got, want := next.status(), step.before
				if cut == whole {
					want = step.after
				}
				if string(got.Cursor) != want || got.Last.State != RunInterrupted || got.Last.Reason != Died || len(got.Last.Ring) != 8 {
					t.Fatalf("%s, cut at byte %d of %d: got the cursor at %s after %+v", step.name, cut-from, whole-from, got.Cursor, got.Last)
				}
				if slices.ContainsFunc(got.Last.Passes, func(p Pass) bool { return p.Outcome == Running }) || got.Last.Passes[0].Outcome != OK {
					t.Fatalf("%s, cut at byte %d of %d: got %+v", step.name, cut-from, whole-from, got.Last.Passes)
				}
				next.stop()
			}
		}
		b.stop()
	})
}

// killedAt is killed, with a file cut off.
func (b *bed) killedAt(path string, size int64) *bed {
	b.t.Helper()
	dir := b.t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(b.dir)); err != nil {
		b.t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, filepath.Base(path)), size); err != nil {
		b.t.Fatal(err)
	}
	return newBed(b.t, dir, trending(b.t))
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
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, info.Size())
		}
		second, last := sizes[1]-sizes[0], sizes[198]-sizes[197]
		if last > second+16 || last > 4096 {
			t.Errorf("the second pass wrote %d bytes, the last %d", second, last)
		}
		t.Logf("%d bytes a pass", last)
		b.stop()
	})
}

// A record that is damaged is left out, those before and after it are not; those of
// another version are refused, with the way out.
func TestDamagedLog(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trending.runs")
	l := openTestLog(t, path)
	for _, id := range []string{"a", "b", "c"} {
		if err := l.append(true, begunRecord(&Run{ID: id})); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(data), "\n")
	if err := os.WriteFile(path, []byte(lines[0]+strings.Repeat("\x00", len(lines[1])-1)+"\n"+lines[2]+lines[0][:5]), 0o600); err != nil {
		t.Fatal(err)
	}
	l = openTestLog(t, path)
	wantRuns(t, l, 2, "a", "c")
	if err := l.append(true, begunRecord(&Run{ID: "d"})); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, openTestLog(t, path), 3, "a", "d")
	if last, err := l.last(); err != nil || last.ID != "d" {
		t.Errorf("got %+v, %v as the last run", last, err)
	}
	if err := os.WriteFile(path, []byte(strings.Replace(lines[0], `"v":1`, `"v":2`, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openTestLog(t, path).read(); err == nil || !strings.Contains(err.Error(), "version 2") || !strings.Contains(err.Error(), "move the file away") {
		t.Errorf("got %v", err)
	}
}

// A log that has grown long is rewritten: what is kept are the latest runs, whole.
func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trending.runs")
	now := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	l := openTestLog(t, path)
	var list []record
	for i := range 3 * keptRuns {
		run := Run{ID: fmt.Sprintf("%04d", i), StartedAt: now, State: RunDone, EndedAt: now, Passes: []Pass{{Region: "US", Outcome: OK}}}
		list = append(list, run.records()...)
	}
	if err := l.append(false, list...); err != nil {
		t.Fatal(err)
	}
	small := l.size
	if err := l.shorten(now); err != nil || l.size != small {
		t.Errorf("a log of %d bytes was rewritten: %v", small, err)
	}
	l.size = maxLog
	if err := l.shorten(now); err != nil {
		t.Fatal(err)
	}
	wantRuns(t, l, keptRuns, "1000", "1499")
	wantRuns(t, openTestLog(t, path), keptRuns, "1000", "1499")
	runs, err := l.read()
	if err != nil || len(runs[0].Passes) != 1 || runs[0].State != RunDone {
		t.Errorf("got %+v, %v, want the whole run", runs[0], err)
	}
	l.size = maxLog
	if err := l.shorten(now.Add(keptFor + time.Second)); err != nil {
		t.Fatal(err)
	}
	if runs, err := l.read(); err != nil || len(runs) != 0 {
		t.Errorf("got %d runs, %v, want none that are too old", len(runs), err)
	}
}

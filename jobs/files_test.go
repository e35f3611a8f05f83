package jobs

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/regions"
)

// Killed after any change of its files, during a run of five regions: the next daemon serves each region of the ring
// that had not had its turn, and of those that had it none again. Nothing is running for ever.
func TestKilledAtEachWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t, 5)
		job.Stagger = 0
		b := newBed(t, dir, job)
		var copies []string
		var had []int // regions that had their turn before
		turns := 0
		copyNow := func() {
			copies, had = append(copies, fmt.Sprint(dir, len(copies))), append(had, turns)
			must(t, os.CopyFS(copies[len(copies)-1], os.DirFS(dir)))
		}
		b.Runner.config.OnEvent = func(event any) { // each step is written before it is reported
			if e, is := event.(PassChanged); is && e.Pass.Outcome != Running {
				turns++
			}
			copyNow()
		}
		b.play = func(context.Context, played) Exit { copyNow(); return Exit{} } // its process is known
		b.tick()
		if len(copies) != 17 { // two of the run, and of each pass its beginning, its process and its end
			t.Fatalf("got %d copies, want 17", len(copies))
		}
		run := b.status().Last.ID
		for i, copied := range copies {
			b.dir, b.play = copied, exits(0)
			b.restart(job)
			if got := b.status().Last; i < len(copies)-1 && (got.State != RunInterrupted || got.Reason != Died || len(got.Passes) < had[i]) {
				t.Errorf("copy %d: got %+v, want a run that died", i, got)
			}
			b.begun()
			var again []regions.Region
			for _, p := range b.status().Last.Passes {
				again = append(again, p.Region)
			}
			if want := job.Regions.From(regions.Cursor(eight()[had[i]%5])); !slices.Equal(again, want) {
				t.Errorf("copy %d: the next run serves %v, want %v", i, again, want)
			}
			if runs, err := b.Runs("", 10); err != nil || len(runs) != 2 || runs[1].ID != run {
				t.Errorf("copy %d: got the runs %+v, %v", i, runs, err)
			}
		}
	})
}

// A state is not understood if it is of another version, or damaged: it is set aside, which is a trouble, and the job
// runs from its first region.
func TestAFileThatIsNotUnderstood(t *testing.T) {
	for name, text := range map[string]string{
		"half": `{"v":3,"cursor":"G`, "another version": `{"v":4,"cursor":"GB"}`, "no JSON": "cursor = GB\n", "empty": "",
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				must(t, os.MkdirAll(dir, 0o750))
				path := filepath.Join(dir, "trending.json")
				must(t, os.WriteFile(path, []byte(text), 0o600))
				b := newBed(t, dir, trending(t, 2))
				b.start()
				if log := b.forget(); len(log) != 1 || !strings.Contains(log[0], "trouble: trending: cannot understand "+path) {
					t.Errorf("got %q, want one trouble", log)
				}
				if got := b.status(); got.Cursor != "US" || !strings.Contains(got.Aside, "trending.json"+asideEnding) {
					t.Errorf("got the cursor at %s, and %q", got.Cursor, got.Aside)
				}
				if kept, err := os.ReadFile(path + asideEnding); err != nil || string(kept) != text {
					t.Errorf("got %q, %v set aside", kept, err)
				}
				b.restart(trending(t, 2))
				if got := b.status().Aside; got != "" {
					t.Errorf("the next start sets something aside again: %s", got)
				}
			})
		})
	}
}

// A line of the runs that is damaged, or of another version, is left out, and one that was cut short is ended.
func TestDamagedLines(t *testing.T) {
	dir := t.TempDir()
	add := func(id string) *files {
		f := &files{dir: dir, job: "j"}
		must(t, f.add([]runsLine{{Of: id, Pass: new(passOf("US", 0, OK))}}))
		must(t, f.add([]runsLine{{Run: &Run{ID: id, State: RunDone}}}))
		return f
	}
	for _, id := range []string{"a", "b", "c"} {
		add(id)
	}
	path := filepath.Join(dir, "j.runs")
	text, err := os.ReadFile(path)
	must(t, err)
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines[3] = append(bytes.Repeat([]byte{0}, len(lines[3])-1), '\n')
	old := []byte(`{"v":2,"run":{"id":"z","state":"done"}}` + "\n")
	must(t, os.WriteFile(path, slices.Concat(old, bytes.Join(lines, nil), lines[0][:5]), 0o600))
	f := add("d")
	runs, err := f.latest(10)
	if err != nil || len(runs) != 3 || runs[0].ID != "d" || runs[1].ID != "c" || runs[2].ID != "a" || len(runs[0].Passes) != 1 {
		t.Errorf("got %+v, %v, want d, c and a", runs, err)
	}
	if runs, err := f.latest(1); err != nil || len(runs) != 1 || runs[0].ID != "d" {
		t.Errorf("got %+v, %v, want d alone", runs, err)
	}
	if run, err := f.find("c"); err != nil || run.ID != "c" || len(run.Passes) != 1 {
		t.Errorf("got %+v, %v, want c", run, err)
	}
}

// The last pass of a long run writes as much as the first, and the state does not grow with the ring.
func TestPassesWriteAlike(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		const n = 50
		job := trending(t, 1)
		job.Regions, job.Stagger = nil, 0
		for i := range n {
			job.Regions = append(job.Regions, regions.Region(fmt.Sprintf("r%04d", i)))
		}
		b := newBed(t, dir, job)
		size := func(file string) int64 {
			info, err := os.Stat(filepath.Join(dir, file))
			if err != nil {
				return 0
			}
			return info.Size()
		}
		var runs, state []int64
		b.play = func(context.Context, played) Exit {
			runs, state = append(runs, size("trending.runs")), append(state, size("trending.json"))
			return Exit{}
		}
		b.begun()
		if second, last := runs[2]-runs[1], runs[n-1]-runs[n-2]; second != last || last > 4096 {
			t.Errorf("the second pass wrote %d bytes, the last %d", second, last)
		}
		if state[1] != state[n-1] || state[1] > 4096 {
			t.Errorf("the state has %d bytes at the second pass, %d at the last", state[1], state[n-1])
		}
	})
}

// The oldest lines leave a file that is too long.
func TestRunsAreBounded(t *testing.T) {
	f := &files{dir: t.TempDir(), job: "j"}
	most, last := int64(0), 0
	for last = range 100 {
		must(t, f.add([]runsLine{{Of: fmt.Sprint(last), Pass: &Pass{Region: "US", Stop: Stop{Detail: strings.Repeat("x", 100_000)}}},
			{Run: &Run{ID: fmt.Sprint(last), State: RunDone}}}))
		info, err := os.Stat(f.path(runsEnding))
		must(t, err)
		most = max(most, info.Size())
	}
	runs, err := f.latest(100)
	if err != nil || most > maxRuns+101_000 || len(runs) < 60 || len(runs) == 100 || runs[0].ID != fmt.Sprint(last) {
		t.Errorf("%d runs are kept, %v, in up to %d bytes", len(runs), err, most)
	}
	for n := range 5 { // of what is read, the first run may lack its pass
		if runs, err := f.latest(n); err != nil || len(runs) != n || slices.ContainsFunc(runs, func(r Run) bool { return len(r.Passes) != 1 }) {
			t.Errorf("got %d runs of %d, %v, or one without its pass", len(runs), n, err)
		}
	}
}

// A state that claims a slot is not on disk without the slot's line, whoever writes it.
func TestNoStateIsAheadOfItsLines(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t, 1))
		b.wait(11 * time.Minute)
		j := b.job()
		j.mu.Lock()
		j.skip(b.now(), skippedSlot(b.now().Truncate(time.Hour), Stop{Reason: Overlap}))
		j.mu.Unlock()
		must(t, b.Pause("trending", "root", "", 0)) // before the tick itself has written it
		b.kill(trending(t, 1))
		if runs, err := b.Runs("trending", 9); err != nil || len(runs) != 1 || runs[0].Reason != Overlap {
			t.Errorf("got %+v, %v, want the slot that was skipped", runs, err)
		}
	})
}

// A disk that takes nothing: a pause that cannot be kept does not hold, what has happened holds all the same, and is
// written once it can be.
func TestADiskThatIsFull(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t, 2))
		aside := dir + ".aside"
		must(t, os.Rename(dir, aside))
		if err := b.Pause("trending", "root", "", 0); err == nil || b.status().Pause != nil {
			t.Fatalf("got %v, and the job is paused: %v", err, b.status().Pause)
		}
		b.forget()
		b.tick()
		if got := b.status(); got.NotKept == "" {
			t.Error("the status does not say that nothing is kept")
		}
		b.wait(31 * time.Minute)
		if got := b.status(); got.Last.State != RunDone || got.Cursor != "US" {
			t.Errorf("got %+v, want that the run goes on", got)
		}
		must(t, os.Rename(aside, dir))
		must(t, b.Pause("trending", "root", "", 0))
		if got := b.status(); got.NotKept != "" || got.Pause == nil {
			t.Errorf("got %+v, want that it is kept again", got)
		}
		b.begun()
		if runs, err := b.job().files.latest(10); err != nil || len(runs) != 2 || len(runs[1].Passes) != 2 || runs[1].State != RunDone {
			t.Errorf("got %+v, %v, want both runs, whole", runs, err)
		}
		b.restart(trending(t, 2))
		if got := b.status(); got.Pause == nil {
			t.Errorf("the next daemon finds %+v", got)
		}
	})
}

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
	"testing"
	"testing/synctest"
	"time"

	"quotad/regions"
)

// copyOf copies a directory, if it is there.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	copied := t.TempDir()
	if err := os.CopyFS(copied, os.DirFS(dir)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return copied
}

// Killed after any change of its files, during a run of five regions: the next daemon serves each region of the ring
// that had not had its turn, and of those that had it none again. Nothing is running for ever.
func TestKilledAtEachWrite(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 5)
		job.Stagger = 0
		b := newBed(t, dir, job)
		var served []string
		var copies []string
		var had [][]string // which had their turn before
		copyNow := func() {
			copies, had = append(copies, copyOf(t, dir)), append(had, slices.Clone(served))
		}
		b.Runner.config.OnEvent = func(event any) {
			if e, is := event.(PassChanged); is && e.Pass.Outcome != Running {
				served = append(served, string(e.Pass.Region))
			}
			copyNow() // each step is written before it is reported
		}
		b.play = func(context.Context, played) Exit {
			copyNow() // its process is known
			return Exit{}
		}
		b.tick()
		if len(copies) != 17 { // two of the run, and of each pass its beginning, its process and its end
			t.Fatalf("got %d copies, want 17", len(copies))
		}
		for i, copied := range copies {
			next := newBed(t, copied, job)
			what := fmt.Sprintf("copy %d, %v had their turn", i, had[i])
			if got := next.status().Last; i < len(copies)-1 && (got.State != RunInterrupted || got.Reason != Died || len(got.Passes) < len(had[i])) {
				t.Errorf("%s: got %+v, want a run that died", what, got)
			}
			next.begun()
			var again []string
			for _, p := range next.status().Last.Passes {
				again = append(again, string(p.Region))
			}
			want := []string{"US", "GB", "DE", "FR", "IN"}
			want = append(slices.Clone(want[len(had[i])%5:]), want[:len(had[i])%5]...)
			if !slices.Equal(again, want) {
				t.Errorf("%s: the next run serves %v, want %v", what, again, want)
			}
			if runs, err := next.Runs("", 10); err != nil || len(runs) != 2 || runs[1].ID != b.status().Last.ID {
				t.Errorf("%s: got the runs %+v, %v", what, runs, err)
			}
			next.stop()
		}
	})
}

// Neither file is understood if it is of another version, or damaged: it is set aside, which is a trouble, and the job
// runs from its first region.
func TestAFileThatIsNotUnderstood(t *testing.T) {
	for _, row := range []struct{ name, file, text string }{
		{"half a state", "trending.json", `{"v":3,"cursor":"G`},
		{"another version", "trending.json", `{"v":4,"cursor":"GB"}`},
		{"no JSON", "trending.json", "cursor = GB\n"},
		{"empty", "trending.json", ""},
		{"of the version before", "trending.runs", `{"v":2,"run":{"id":"a"}}` + "\n"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				must(t, os.MkdirAll(dir, 0o750))
				path := filepath.Join(dir, row.file)
				must(t, os.WriteFile(path, []byte(row.text), 0o600))
				b := newBed(t, dir, trendingIn(t, 2))
				b.Start(t.Context())
				b.mu.Lock()
				if len(b.log) != 1 || !strings.Contains(b.log[0], "trouble: trending: cannot understand "+path) {
					t.Errorf("got %q, want one trouble", b.log)
				}
				b.mu.Unlock()
				if got := b.status(); got.Cursor != "US" || !strings.Contains(got.Aside, row.file+asideEnding) {
					t.Errorf("got the cursor at %s, and %q", got.Cursor, got.Aside)
				}
				if text, err := os.ReadFile(path + asideEnding); err != nil || string(text) != row.text {
					t.Errorf("got %q, %v set aside", text, err)
				}
				b.begun()
				if got := b.status().Last; got.State != RunDone {
					t.Errorf("got %+v, want a run", got)
				}
				if again := newBed(t, dir, trendingIn(t, 2)); again.status().Aside != "" {
					t.Error("the next start sets something aside again")
				}
			})
		})
	}
}

// A line of the runs that is damaged is left out, and one that was cut short is ended.
func TestDamagedLines(t *testing.T) {
	dir := t.TempDir()
	add := func(id string) *files {
		f := &files{dir: dir, job: "j"}
		var s state
		if aside, err := f.load(&s); aside != nil || err != nil {
			t.Fatal(aside, err)
		}
		must(t, f.add(runsLine{Of: id, Pass: &Pass{Region: "US", Outcome: OK}}))
		must(t, f.add(runsLine{Run: &Run{ID: id, State: RunDone}}))
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
	must(t, os.WriteFile(path, append(bytes.Join(lines, nil), lines[0][:5]...), 0o600))
	f := add("d")
	runs, err := f.latest(10)
	if err != nil || len(runs) != 3 || runs[0].ID != "d" || runs[1].ID != "c" || runs[2].ID != "a" || len(runs[0].Passes) != 1 {
		t.Errorf("got %+v, %v, want d, c and a", runs, err)
	}
	if runs, err := f.latest(1); err != nil || len(runs) != 1 || runs[0].ID != "d" {
		t.Errorf("got %+v, %v, want d alone", runs, err)
	}
	if run, passes, err := f.find("c"); err != nil || run.ID != "c" || len(passes) != 1 {
		t.Errorf("got %+v, %+v, %v, want c", run, passes, err)
	}
}

// The last pass of a long run writes as much as the first, and the state does not grow with the ring.
func TestPassesWriteAlike(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions, job.Stagger = nil, 0
		for i := range 3000 {
			job.Regions = append(job.Regions, regions.Region(fmt.Sprintf("r%04d", i)))
		}
		b := newBed(t, dir, job)
		size := func(file string) int64 {
			info, err := os.Stat(filepath.Join(dir, file))
			must(t, err)
			return info.Size()
		}
		runs, state := make(map[int]int64), make(map[int]int64)
		n := 0
		b.play = func(context.Context, played) Exit {
			if n++; n == 2 || n == 3 || n == 2998 || n == 2999 {
				runs[n], state[n] = size("trending.runs"), size("trending.json")
			}
			return Exit{}
		}
		b.begun()
		if second, last := runs[3]-runs[2], runs[2999]-runs[2998]; second != last || last > 4096 {
			t.Errorf("the second pass wrote %d bytes, the last %d", second, last)
		}
		if state[2] != state[2999] || state[2] > 4096 {
			t.Errorf("the state has %d bytes at the second pass, %d at the last", state[2], state[2999])
		}
		t.Logf("%d bytes a pass, %d of state", runs[3]-runs[2], state[3])
	})
}

// What is kept: a thousand runs or a week, whichever is more, and at most 8 MB.
func TestRunsAreBounded(t *testing.T) {
	now := time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)
	one := func(id, size int, ago time.Duration) []byte {
		run := Run{ID: fmt.Sprint(id), State: RunDone, StartedAt: now.Add(-ago), Detail: strings.Repeat("x", size)}
		return append(encoded(runsLine{Version: stateVersion, Run: &run}), '\n')
	}
	for _, row := range []struct {
		name       string
		runs, size int
		each       time.Duration // between two of them
		kept       int
	}{
		{"a thousand, however old", 1200, 100, 24 * time.Hour, 1000},
		{"a week, however many", 3000, 100, 5 * time.Minute, 2017},
		{"no more than fits", 900, 20_000, time.Minute, 312},
		{"all", 900, 100, time.Hour, 900},
	} {
		var text []byte
		for i := range row.runs {
			text = append(text, one(i, row.size, time.Duration(row.runs-1-i)*row.each)...)
		}
		runs, _ := runsOf(text[tooOld(text, now):])
		if len(runs) != row.kept || runs[len(runs)-1].ID != fmt.Sprint(row.runs-1) {
			t.Errorf("%s: %d of %d runs are kept, want the last %d", row.name, len(runs), row.runs, row.kept)
		}
	}
	if text := bytes.Repeat(append(encoded(runsLine{Version: stateVersion, Of: "a", Pass: &Pass{Said: strings.Repeat("x", 4000)}}), '\n'), 2500); len(text)-tooOld(text, now) > maxRuns {
		t.Error("the passes of one long run are not bounded")
	}
}

// A disk that takes nothing: a pause that cannot be kept does not hold, what has happened holds all the same, and is
// written once it can be.
func TestADiskThatIsFull(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trendingIn(t, 2))
		aside := dir + ".aside"
		must(t, os.Rename(dir, aside))
		if err := b.Pause("trending", "root", "", 0); err == nil || b.status().Pause != nil {
			t.Errorf("got %v, and the job is paused: %v", err, b.status().Pause)
		}
		b.forget()
		b.tick()
		synctest.Wait()
		if got := b.status(); got.NotKept == "" {
			t.Error("the status does not say that nothing is kept")
		}
		time.Sleep(31 * time.Minute)
		synctest.Wait()
		if got := b.status(); got.Last.State != RunDone || got.Cursor != "US" {
			t.Errorf("got %+v, want that the run goes on", got)
		}
		must(t, os.Rename(aside, dir))
		must(t, b.Pause("trending", "root", "", 0))
		if got := b.status(); got.NotKept != "" || got.Pause == nil {
			t.Errorf("got %+v, want that it is kept again", got)
		}
		b.begun()
		if runs, err := b.states["trending"].files.latest(10); err != nil || len(runs) != 2 || len(runs[1].Passes) != 2 || runs[1].State != RunDone {
			t.Errorf("got %+v, %v, want both runs, whole", runs, err)
		}
		b.stop()
		next := newBed(t, dir, trendingIn(t, 2))
		if got := next.status(); got.Pause == nil {
			t.Errorf("the next daemon finds %+v", got)
		}
	})
}

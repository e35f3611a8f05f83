package jobs

import (
	"context"
	"errors"
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

func TestPassesAreStaggered(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.play = func(_ context.Context, p played) Exit {
			b.spend(p, "youtube:1-0", 3)
			time.Sleep(10 * time.Second)
			return Exit{}
		}
		b.run()
		b.wants(
			"11:00:00 run running",
			"11:00:00 US running", "11:00:10 US ok", "11:07:30 GB running", "11:07:40 GB ok",
			"11:15:00 DE running", "11:15:10 DE ok", "11:22:30 FR running", "11:22:40 FR ok",
			"11:30:00 IN running", "11:30:10 IN ok", "11:37:30 BR running", "11:37:40 BR ok",
			"11:45:00 AU running", "11:45:10 AU ok", "11:52:30 CA running", "11:52:40 CA ok",
			"11:52:40 run done",
		)
		b.wantCursor("US") // a full turn: the next run begins where this one did
		last := b.status().Last
		if len(last.Passes) != 8 || last.Passes[3].Units != 3 || last.Passes[3].Calls != 1 || last.Passes[3].Process != nil || last.Trigger != Scheduled {
			t.Errorf("got %+v", last)
		}
	})
}

// A pass that takes longer than the stagger makes the next one late, and no two
// are under way at once.
func TestPassesWaitForOneAnother(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 3)
		job.Stagger = 2 * time.Second
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			if p.region == "US" {
				time.Sleep(5 * time.Second)
			}
			return Exit{}
		}
		b.run()
		b.wants("11:00:00 run running", "11:00:00 US running", "11:00:05 US ok", "11:00:05 GB running", "11:00:05 GB ok",
			"11:00:05 DE running", "11:00:05 DE ok", "11:00:05 run done")
	})
}

func TestParallelPasses(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 4)
		job.Stagger, job.Parallel = 0, 2
		b := newBed(t, dir, job)
		b.play = func(ctx context.Context, p played) Exit {
			switch p.region {
			case "US":
				time.Sleep(5 * time.Second)
			case "GB":
				time.Sleep(time.Second)
			case "DE":
				time.Sleep(2 * time.Second)
				b.deny(p)
			}
			return Exit{}
		}
		b.tick()
		time.Sleep(2 * time.Second)
		b.wantCursor("US") // it is under way still, though GB behind it has had its turn
		time.Sleep(time.Minute)
		synctest.Wait()
		got := b.status()
		if got.Last.State != RunStopped || got.Cursor != "DE" || len(got.Last.Passes) != 3 {
			t.Errorf("got the cursor at %s after %+v, want it at DE, and FR not launched", got.Cursor, got.Last)
		}
	})
}

func TestDirectoryOfAJob(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 1)
		job.Files = filepath.Join(dir, "data", "trending")
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			if info, err := os.Stat(job.Files); err != nil || !info.IsDir() {
				t.Errorf("the directory is not there: %v", err)
			}
			return Exit{}
		}
		b.run()
		must(t, os.RemoveAll(job.Files))
		must(t, os.WriteFile(job.Files, nil, 0o600))
		b.run()
		if got := b.status().Last.Passes[0]; got.Outcome != Failed || !strings.Contains(got.Detail, "the directory of the job") {
			t.Errorf("got %+v, want a failed pass", got)
		}
	})
}

// A directory that an operator names is his: one that is mistyped, or gone, is not made.
func TestNamedDirectoryIsNotMade(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 1)
		job.Dir = filepath.Join(dir, "dtaa")
		b := newBed(t, dir, job)
		b.run()
		if _, err := os.Stat(job.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the directory was made: %v", err)
		}
	})
}

// A region that is gone from the configuration takes the cursor to the beginning.
func TestCursorOfARegionThatIsGone(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.cursorAt("BR")
		b.stop()
		job := trending(t)
		job.Regions = regions.Ring{"US", "GB", "DE"}
		b = newBed(t, dir, job)
		b.wantCursor("US")
		b.run()
		if got := b.status().Last; !slices.Equal(got.Ring, job.Regions) {
			t.Errorf("got %v, want the whole ring from its beginning", got.Ring)
		}
	})
}

// Regions that failed are served again when the last pass of the ring is over, one after the other.
func TestFailedRegionsAreServedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 3)
		job.Stagger, job.Retry = 10*time.Minute, 2
		b := newBed(t, dir, job)
		tries := map[string]int{}
		b.play = func(_ context.Context, p played) Exit {
			if bearer, _ := b.tokens.Bearer(p.token); bearer.Caller.Attempt != tries[p.region] { // else it gets the grants of the one that failed
				t.Errorf("attempt %d of %s, want %d", bearer.Caller.Attempt, p.region, tries[p.region])
			}
			time.Sleep(time.Minute)
			if tries[p.region]++; p.region == "US" && tries["US"] < 3 || p.region == "DE" && tries["DE"] < 2 {
				return Exit{Code: 1}
			}
			return Exit{}
		}
		b.run()
		b.wants("11:00:00 run running", "11:00:00 US running", "11:01:00 US failed", "11:10:00 GB running", "11:11:00 GB ok",
			"11:20:00 DE running", "11:21:00 DE failed", "11:21:00 US running", "11:22:00 US failed", "11:22:00 DE running", "11:23:00 DE ok",
			"11:23:00 US running", "11:24:00 US ok", "11:24:00 run done")
	})
}

// The regions that failed wait for retry_after each time, and are not served again in the time of the next slot.
func TestFailedRegionsWait(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 2)
		job.Stagger, job.Retry, job.RetryAfter = 10*time.Minute, 3, 19*time.Minute
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			time.Sleep(time.Minute)
			if p.region == "US" {
				return Exit{Code: 1}
			}
			return Exit{}
		}
		b.run()
		b.wants("11:00:00 run running", "11:00:00 US running", "11:01:00 US failed", "11:10:00 GB running", "11:11:00 GB ok",
			"11:30:00 US running", "11:31:00 US failed", "11:50:00 US running", "11:51:00 US failed", "11:51:00 run failed")
	})
}

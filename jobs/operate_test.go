package jobs

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/regions"
)

func TestManualRun(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		b.cursorAt("DE")
		must(t, b.Pause("trending", "root", "", 0))
		run := b.begun("CA", "US")
		// In the order asked for, at once, without taking anybody's turn, and though the job is paused.
		b.wants("10:50:00 run running", "10:50:00 CA running", "10:50:00 CA ok", "10:50:00 US running", "10:50:00 US ok", "10:50:00 run done")
		b.wantCursor("DE")
		if got := b.status().Last; got.ID != run.ID || got.By != "root" || got.Trigger != Manual {
			t.Errorf("got %+v, want the run that was asked for", got)
		}
		b.begun()
		if got := b.status().Last; got.Ring[0] != "DE" || got.State != RunDone {
			t.Errorf("got %+v, want the ring from its cursor", got)
		}
	})
}

func TestManualRunIsRefused(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t))
		for _, test := range []struct {
			name    string
			job     string
			regions []regions.Region
			want    error
		}{
			{"another job", "channels", nil, ErrUnknown},
			{"another region", "trending", []regions.Region{"US", "XX"}, ErrUnknown},
		} {
			if _, err := b.Run(test.job, "root", test.regions...); !errors.Is(err, test.want) {
				t.Errorf("%s: got %v, want %v", test.name, err, test.want)
			}
		}
		if _, err := b.Run("trending", "root", "US", "US"); err == nil {
			t.Error("a region was accepted twice")
		}
		b.wants()
		b.tick()
		if _, err := b.Run("trending", "root"); !errors.Is(err, ErrUnderWay) {
			t.Errorf("got %v, want %v", err, ErrUnderWay)
		}
	})
}

func TestManualRunGoesThroughTheGate(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Expects = map[string]quota.Units{"videos.list": 4}
		b := newBed(t, dir, job)
		b.peek = func(map[string]quota.Units) (quota.Decision, error) { return refused(), nil }
		b.begun("FR")
		b.wants("10:50:00 run running", "10:50:00 FR not_launched (not_launched)", "10:50:00 run stopped (not_launched)")
		b.wantCursor("US")
	})
}

func TestRuns(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		one, two := trending(t), trending(t)
		two.Name, two.CatchUp = "channels", true
		one.Regions, two.Regions = eight()[:1], eight()[:1]
		b := newBed(t, dir, one, two)
		for range 3 {
			b.run()
			b.Tick("channels", time.Now().UTC().Truncate(time.Hour))
			synctest.Wait()
		}
		b.stop()
		b = newBed(t, dir, one, two) // the history outlives the daemon
		for _, test := range []struct {
			job  string
			most int
			want []string
		}{
			{"trending", 10, []string{"trending", "trending", "trending"}},
			{"", 4, []string{"channels", "trending", "channels", "trending"}},
			{"", 100, []string{"channels", "trending", "channels", "trending", "channels", "trending"}},
		} {
			runs, err := b.Runs(test.job, test.most)
			must(t, err)
			var got []string
			for _, run := range runs {
				got = append(got, run.Job)
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("the latest %d of %q: got %q, want %q", test.most, test.job, got, test.want)
			}
		}
		if _, err := b.Runs("unknown", 1); !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v, want %v", err, ErrUnknown)
		}
	})
}

package jobs

import (
	"context"
	"strings"
	"testing"
	"time"

	"quotad/quota"
)

// soon is a refusal that ends after a while.
func soon(after time.Duration) quota.Decision {
	return quota.Decision{Reason: quota.LimitExceeded, Limit: "minute", Units: 4, RetryAt: time.Now().Add(after), RetryAfter: after}
}

// A limit that comes back within max_wait delays the next pass, and the run says what it waits
// for. One that comes back later, or behind the next slot, ends the run.
func TestAPaceIsNoBudget(t *testing.T) {
	for _, test := range []struct {
		name  string
		wait  time.Duration // of the job
		after time.Duration // when the limit comes back
		want  []string
	}{
		{"soon", time.Minute, 40 * time.Second, []string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US ok", "11:00:40 GB running", "11:00:40 GB ok", "11:00:40 run done"}},
		{"soon enough", time.Minute, time.Minute, []string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US ok",
			"11:01:00 GB running", "11:01:00 GB ok", "11:01:00 run done"}},
		{"later", time.Minute, 61 * time.Second, []string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US ok", "11:00:00 GB not_launched (not_launched)", "11:00:00 run stopped (not_launched)"}},
		{"behind the next slot", time.Hour, time.Hour, []string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US ok", "11:00:00 GB not_launched (not_launched)", "11:00:00 run stopped (not_launched)"}},
		{"a job that waits for nothing", 0, time.Second, []string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US ok", "11:00:00 GB not_launched (not_launched)", "11:00:00 run stopped (not_launched)"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 2)
				job.Stagger, job.MaxWait, job.Expects = 0, test.wait, map[string]quota.Units{"videos.list": 4}
				b := newBed(t, dir, job)
				back := time.Time{}
				b.peek = func(map[string]quota.Units) (quota.Decision, error) {
					if left := time.Until(back); left > 0 {
						return soon(left), nil
					}
					back = time.Now().Add(test.after)
					return quota.Decision{}, nil
				}
				b.tick()
				got, waits := b.status().Last.Waits, strings.HasPrefix(test.name, "soon")
				if (got != nil) != waits || waits && got.Limit != "minute" {
					t.Errorf("it waits for %+v", got)
				}
				time.Sleep(50 * time.Minute)
				b.wants(test.want...)
				if got := b.status().Last.Waits; got != nil {
					t.Errorf("a run that is over waits for %+v", got)
				}
			})
		})
	}
}

// A pass that such a limit has stopped comes again, three times at most.
func TestAPassComesAgain(t *testing.T) {
	for _, test := range []struct {
		name string
		play func(b *bed, p played, n int) Exit // n counts the passes of the region
		want []string
	}{
		{"granted nothing", func(b *bed, p played, n int) Exit {
			if n < 2 {
				b.decided(p, quota.Request{}, soon(10*time.Second))
				return Exit{Code: ExitExhausted}
			}
			return Exit{}
		}, []string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US exhausted", "11:00:10 US running", "11:00:10 US exhausted", "11:00:20 US running", "11:00:20 US ok",
			"11:00:20 GB running", "11:00:20 GB ok", "11:00:20 run done"}},
		{"three times", func(b *bed, p played, n int) Exit {
			b.decided(p, quota.Request{}, soon(10*time.Second))
			return Exit{Code: ExitExhausted}
		}, []string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US exhausted", "11:00:10 US running", "11:00:10 US exhausted", "11:00:20 US running", "11:00:20 US exhausted",
			"11:00:30 US running", "11:00:30 US exhausted", "11:00:30 run stopped (exhausted)"}},
		{"from its start, which it pays for twice", func(b *bed, p played, n int) Exit {
			b.spend(p, p.region+string(rune('0'+n)), 1)
			if n == 0 {
				b.decided(p, quota.Request{}, soon(10*time.Second))
				return Exit{Code: ExitExhausted}
			}
			return Exit{}
		}, []string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US exhausted", "11:00:10 US running", "11:00:10 US ok",
			"11:00:10 GB running", "11:00:10 GB ok", "11:00:10 run done"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 2)
				job.Stagger, job.MaxWait = 0, time.Minute
				b := newBed(t, dir, job)
				times := 0
				b.play = func(_ context.Context, p played) Exit {
					if p.region == "GB" {
						return Exit{}
					}
					times++
					return test.play(b, p, times-1)
				}
				b.run()
				b.wants(test.want...)
			})
		})
	}
}

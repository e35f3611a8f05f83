package jobs

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
)

// Passes that expect 4 each on a budget of 5, of two jobs, asked about at once or one after the other: one
// is served, and the other is not launched to spend what that still needs. What is over needs nothing any more. The gate
// counts the reserve for a job that may use it, and for no other.
func TestNobodyIsLaunchedAgainstUnitsThatAreSpokenFor(t *testing.T) {
	for name, slow := range map[string]time.Duration{"at once": time.Second, "one after the other": 0} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				one, two := trending(t, 1), trending(t, 1)
				two.Name, one.UseReserve = "channels", true
				for _, job := range []*Job{one, two} {
					job.Expects = map[string]quota.Units{"videos.list": 4}
				}
				b := newBed(t, dir, one, two)
				var left atomic.Int64
				left.Store(5)
				b.peek = func(calls map[string]quota.Units) (quota.Decision, error) {
					if time.Sleep(slow); calls["videos.list"] > quota.Units(left.Load()) {
						return refused(), nil
					}
					return quota.Decision{}, nil
				}
				b.play = func(_ context.Context, p played) Exit { // a unit each second
					for i := range 4 {
						if left.Add(-1) < 0 {
							t.Error("a pass that was launched finds nothing left")
						}
						b.spend(p, "videos.list", fmt.Sprint(p.token, i), 1)
						time.Sleep(time.Second)
					}
					return Exit{}
				}
				b.tick("channels")
				b.wait(time.Minute)
				list, err := b.Status("")
				must(t, err)
				first, second := list[0].Last, list[1].Last
				if first.State != RunDone || second.Reason != DoesNotFit || second.Detail != "no room, with the passes under way" || left.Load() != 1 {
					t.Errorf("got %+v and %+v, want the second not launched; %d units are left", first, second, left.Load())
				}
				if b.reserved.Load() {
					t.Error("the gate was asked with the reserve")
				}
				left.Store(4)
				b.tick()
				if !b.reserved.Load() {
					b.wait(time.Minute)
					t.Error("the gate was asked without the reserve")
				}
				b.wait(time.Minute)
				if last := b.status().Last; last.State != RunDone {
					t.Errorf("got %+v, want it served: nothing is spoken for any more", last)
				}
			})
		})
	}
}

// A limit that comes back within max_wait delays the next pass, and the run says what it waits
// for. One that comes back later, or behind the next slot, ends the run.
func TestAPaceIsNoBudget(t *testing.T) {
	head := []string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US ok"}
	ends := []string{"11:00:00 GB not_launched (not_launched)", "11:00:00 run stopped (not_launched)"}
	var histories []history
	for _, row := range []struct {
		name        string
		wait, after time.Duration // of the job, and when the limit comes back
		want        []string
	}{
		{"soon", time.Minute, time.Minute, []string{"11:01:00 GB running", "11:01:00 GB ok", "11:01:00 run done"}},
		{"later", time.Minute, 61 * time.Second, ends},
		{"behind the next slot", time.Hour, time.Hour, ends},
		{"a job that waits for nothing", 0, time.Second, ends},
	} {
		histories = append(histories, history{name: row.name, regions: 2, job: func(j *Job) {
			j.Stagger, j.MaxWait, j.Expects = 0, row.wait, map[string]quota.Units{"videos.list": 4}
		}, live: func(b *bed, _ *Job) {
			back := time.Time{}
			b.peek = func(map[string]quota.Units) (quota.Decision, error) {
				if left := time.Until(back); left > 0 {
					return quota.Decision{Reason: quota.LimitExceeded, Limit: "minute", RetryAt: back, RetryAfter: left}, nil
				}
				back = time.Now().Add(row.after)
				return quota.Decision{}, nil
			}
			b.tick()
			if got, waits := b.status().Last.Waits, row.name == "soon"; (got != nil) != waits || waits && got.Limit != "minute" {
				b.t.Errorf("it waits for %+v", got)
			}
			b.wait(50 * time.Minute)
			if got := b.status().Last.Waits; got != nil {
				b.t.Errorf("a run that is over waits for %+v", got)
			}
		}, want: append(head[:3:3], row.want...)})
	}
	play(t, histories)
}

// A pass that such a limit has stopped comes again, three times at most; from the second time on when all of the limit
// has returned, if the job waits that long.
func TestAPassComesAgain(t *testing.T) {
	for _, row := range []struct {
		times  int // how often it is denied
		window time.Duration
		reason quota.Reason
		want   []string
	}{
		{2, 50 * time.Second, quota.LimitClosed, []string{"11:00:20 US running", "11:00:20 US ok", "11:00:20 GB running", "11:00:20 GB ok", "11:00:20 run done"}},
		{2, 50 * time.Second, quota.LimitExceeded, []string{"11:01:00 US running", "11:01:00 US ok", "11:01:00 GB running", "11:01:00 GB ok", "11:01:00 run done"}},
		{2, time.Hour, quota.LimitExceeded, []string{"11:00:20 US running", "11:00:20 US ok", "11:00:20 GB running", "11:00:20 GB ok", "11:00:20 run done"}},
		{9, 0, quota.LimitExceeded, []string{"11:00:20 US running", "11:00:20 US exhausted", "11:00:30 US running", "11:00:30 US exhausted", "11:00:30 run stopped (exhausted)"}},
	} {
		passes := 0
		play(t, []history{{name: fmt.Sprint(row.reason, row.times, " in ", row.window), regions: 2, job: func(j *Job) { j.Stagger, j.MaxWait = 0, time.Minute },
			play: func(_ context.Context, b *bed, p played) Exit {
				if passes++; p.region == "US" && passes <= row.times {
					d := refused()
					d.Reason = row.reason
					d.Limits = []quota.LimitState{{Limit: quota.Limit{Name: d.Limit, Window: quota.Sliding(row.window)}}}
					d.RetryAt, d.RetryAfter = b.now().Add(10*time.Second), 10*time.Second
					b.tokens.Decided(p.token, quota.Request{Operation: "list"}, d, nil)
					return Exit{Code: ExitExhausted}
				}
				return Exit{}
			}, want: append([]string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US exhausted", "11:00:10 US running", "11:00:10 US exhausted"}, row.want...)}})
	}
}

// A pass that obeys Retry-After, or asks again and again, is ended once what it was denied, by whomever, cannot
// return before its timeout: after half a minute, from the first such denial on, whatever it calls meanwhile.
func TestADeniedPassIsEnded(t *testing.T) {
	ended := func(at string) []string {
		return []string{"11:00:00 run running", "11:00:00 US running", at + " US exhausted", at + " run stopped (exhausted)"}
	}
	upstream := func(b *bed, p played, until time.Duration) {
		b.tokens.Observed(p.token, quota.Word{Operation: "list", Limit: "daily", Until: time.Now().Add(until)})
	}
	var histories []history
	for _, row := range []struct {
		name string
		play func(b *bed, p played) // before it hangs
		want []string
	}{
		{"it waits until the limit returns", func(b *bed, p played) { b.deny(p, "list", time.Hour) }, ended("11:00:30")},
		{"it asks each second", func(b *bed, p played) {
			for range 20 {
				b.deny(p, "list", time.Hour)
				time.Sleep(time.Second)
			}
		}, ended("11:00:30")},
		{"it is granted others meanwhile", func(b *bed, p played) {
			b.deny(p, "search", time.Hour)
			time.Sleep(20 * time.Second)
			b.spend(p, "list", "a", 1)
		}, ended("11:00:30")},
		{"it is granted it, and denied it later", func(b *bed, p played) {
			b.deny(p, "list", time.Hour)
			time.Sleep(20 * time.Second)
			b.spend(p, "list", "a", 1)
			time.Sleep(5 * time.Second)
			b.deny(p, "list", time.Hour)
		}, ended("11:00:55")},
		{"it returns before the timeout", func(b *bed, p played) { b.deny(p, "list", 50*time.Second) }, ended("11:01:00")},
		{"the upstream refuses it for a day", func(b *bed, p played) { upstream(b, p, 79892*time.Second) }, ended("11:00:30")},
		{"the upstream refuses it for less than the timeout", func(b *bed, p played) { upstream(b, p, 50*time.Second) }, ended("11:01:00")},
	} {
		histories = append(histories, history{name: row.name, regions: 2, job: func(j *Job) { j.Stagger = 0 },
			play: func(ctx context.Context, b *bed, p played) Exit {
				ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, ErrTimeout)
				defer cancel()
				row.play(b, p)
				return hang(ctx, p)
			}, want: row.want})
	}
	play(t, histories)
}

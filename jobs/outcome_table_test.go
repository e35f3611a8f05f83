package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
)

// What users see of a run over US, GB, DE whose second pass ends in each of the ways
// there are: the passes, the run, and where the next one begins.
func TestWhatBecomesOfARun(t *testing.T) {
	hang := func(ctx context.Context) Exit {
		<-ctx.Done()
		return Exit{Code: -1, Signal: "SIGTERM", Cause: context.Cause(ctx)}
	}
	for _, test := range []struct {
		name   string
		job    func(*Job)
		gb     func(ctx context.Context, b *bed, p played) Exit
		during func(b *bed) // while GB's pass hangs
		want   string       // passes, run, cursor
	}{
		{"ok", nil, func(context.Context, *bed, played) Exit { return Exit{} }, nil, "US ok, GB ok, DE ok: done; US"},
		{"it fails", nil, func(context.Context, *bed, played) Exit { return Exit{Code: 3} }, nil, "US ok, GB failed, DE ok: failed; US"},
		{"it cannot be started", nil, func(context.Context, *bed, played) Exit { return Exit{Code: -1, Err: errors.New("no such file")} }, nil,
			"US ok, GB failed, DE ok: failed; US"},
		{"it takes too long", nil, func(context.Context, *bed, played) Exit { return Exit{Code: -1, Cause: ErrTimeout} }, nil, "US ok, GB timeout, DE ok: failed; US"},
		{"a signal ends it", nil, func(context.Context, *bed, played) Exit { return Exit{Code: -1, Signal: "SIGSEGV"} }, nil, "US ok, GB killed, DE ok: failed; US"},
		{"it says that the budget is gone", nil, func(context.Context, *bed, played) Exit { return Exit{Code: ExitExhausted} }, nil,
			"US ok, GB exhausted: stopped (exhausted); GB"},
		{"it is denied, and fails", nil, func(_ context.Context, b *bed, p played) Exit { b.deny(p); return Exit{Code: 1} }, nil,
			"US ok, GB exhausted: stopped (exhausted); GB"},
		{"it is denied, and says that all is well", nil, func(_ context.Context, b *bed, p played) Exit { b.deny(p); return Exit{} }, nil,
			"US ok, GB exhausted: stopped (exhausted); GB"},
		{"it is denied, waits and is granted", nil, func(_ context.Context, b *bed, p played) Exit {
			b.deny(p)
			time.Sleep(2 * time.Second)
			b.spend(p, "youtube:1-0", 4)
			return Exit{}
		}, nil, "US ok, GB ok, DE ok: done; US"},
		{"it is granted what it was denied, and takes too long", nil, func(_ context.Context, b *bed, p played) Exit {
			b.deny(p)
			b.spend(p, "youtube:1-0", 4)
			return Exit{Code: -1, Cause: ErrTimeout}
		}, nil, "US ok, GB timeout, DE ok: failed; US"},
		{"the upstream's quota is gone, and it fails", nil, func(_ context.Context, b *bed, p played) Exit {
			b.tokens.Observed(p.token, quota.Word{Limit: "daily", Until: time.Now().Add(time.Hour)})
			return Exit{Code: 1}
		}, nil, "US ok, GB exhausted: stopped (exhausted); GB"},
		{"the upstream refuses the key, and it fails", nil, func(_ context.Context, b *bed, p played) Exit {
			b.tokens.Observed(p.token, quota.Word{Refuses: "API key not valid"})
			return Exit{Code: 1}
		}, nil, "US ok, GB failed: failed (upstream_refuses); DE"},
		{"it is denied, and somebody stops the run", nil, func(ctx context.Context, b *bed, p played) Exit {
			b.denyUntil(p, "", time.Now().Add(50*time.Second))
			return hang(ctx)
		}, func(b *bed) {
			if err := b.StopRun(b.status().Last.ID); err != nil {
				b.t.Error(err)
			}
		}, "US ok, GB interrupted (operator): interrupted (operator); GB"},
		{"somebody stops the run", nil, func(ctx context.Context, _ *bed, _ played) Exit { return hang(ctx) },
			func(b *bed) {
				if err := b.StopRun(b.status().Last.ID); err != nil {
					b.t.Error(err)
				}
			}, "US ok, GB interrupted (operator): interrupted (operator); GB"},
		{"the daemon stops", nil, func(ctx context.Context, _ *bed, _ played) Exit { return hang(ctx) },
			func(b *bed) { b.stop() }, "US ok, GB interrupted (shutdown): interrupted (shutdown); GB"},
		{"a pause begins", nil, func(context.Context, *bed, played) Exit { time.Sleep(time.Minute); return Exit{} },
			func(b *bed) {
				if err := b.Pause("trending", "root", "", 0); err != nil {
					b.t.Error(err)
				}
			}, "US ok, GB ok, DE ok: done; US"},
		{"the gate refuses the next", func(j *Job) { j.Expects = map[string]quota.Units{"videos.list": 4} },
			func(_ context.Context, b *bed, _ played) Exit {
				b.peek = func(map[string]quota.Units) (quota.Decision, error) { return refused(), nil }
				return Exit{}
			}, nil, "US ok, GB ok, DE not_launched (not_launched): stopped (not_launched); DE"},
		{"nobody can tell about the next", func(j *Job) { j.Expects = map[string]quota.Units{"videos.list": 4} },
			func(_ context.Context, b *bed, _ played) Exit {
				b.peek = func(map[string]quota.Units) (quota.Decision, error) { return quota.Decision{}, errLedger }
				return Exit{}
			}, nil, "US ok, GB ok, DE not_launched (ledger_unavailable): stopped (ledger_unavailable); DE"},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 3)
				job.Stagger = 0
				if test.job != nil {
					test.job(job)
				}
				b := newBed(t, dir, job)
				b.play = func(ctx context.Context, p played) Exit {
					if p.region == "GB" {
						return test.gb(ctx, b, p)
					}
					return Exit{}
				}
				b.tick()
				time.Sleep(30 * time.Second)
				if test.during != nil {
					test.during(b)
				}
				time.Sleep(time.Minute)
				synctest.Wait()
				if got := b.seen(); got != test.want {
					t.Errorf("got  %s\nwant %s", got, test.want)
				}
				b.stop()
				b = newBed(t, dir, job) // and the same after a restart
				if got := b.seen(); got != test.want {
					t.Errorf("after a restart\ngot  %s\nwant %s", got, test.want)
				}
			})
		})
	}
}

// seen writes what a user sees of the last run.
func (b *bed) seen() string {
	b.t.Helper()
	s := b.status()
	withReason := func(text string, reason Reason) string {
		if reason == "" {
			return text
		}
		return fmt.Sprintf("%s (%s)", text, reason)
	}
	var passes []string
	for _, p := range s.Last.Passes {
		passes = append(passes, withReason(string(p.Region)+" "+string(p.Outcome), p.Reason))
	}
	return fmt.Sprintf("%s: %s; %s", strings.Join(passes, ", "), withReason(string(s.Last.State), s.Last.Reason), s.Cursor)
}

package jobs

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
)

// A pass that obeys Retry-After, or asks again and again, is ended once what it was denied cannot
// return before its timeout: after half a minute, from the first such denial on, whatever it calls
// meanwhile.
func TestADeniedPassIsEnded(t *testing.T) {
	for _, test := range []struct {
		name string
		play func(b *bed, p played) // before it hangs
		want []string
	}{
		{"it waits until the limit returns", func(b *bed, p played) { b.denyUntil(p, "list", time.Now().Add(time.Hour)) },
			[]string{"11:00:00 GB running", "11:00:30 GB exhausted", "11:00:30 run stopped (exhausted)"}},
		{"it asks each second", func(b *bed, p played) {
			for range 20 {
				b.denyUntil(p, "list", time.Now().Add(time.Hour))
				time.Sleep(time.Second)
			}
		}, []string{"11:00:00 GB running", "11:00:30 GB exhausted", "11:00:30 run stopped (exhausted)"}},
		{"it is granted others meanwhile", func(b *bed, p played) {
			b.denyUntil(p, "search", time.Now().Add(time.Hour))
			for range 20 {
				time.Sleep(time.Second)
				b.decided(p, quota.Request{Operation: "list"}, quota.Decision{GrantID: time.Now().String(), Units: 1})
			}
		}, []string{"11:00:00 GB running", "11:00:30 GB exhausted", "11:00:30 run stopped (exhausted)"}},
		{"it is granted it, and denied it later", func(b *bed, p played) {
			b.denyUntil(p, "list", time.Now().Add(time.Hour))
			time.Sleep(20 * time.Second)
			b.decided(p, quota.Request{Operation: "list"}, quota.Decision{GrantID: "a", Units: 1})
			time.Sleep(5 * time.Second)
			b.denyUntil(p, "list", time.Now().Add(time.Hour))
		}, []string{"11:00:00 GB running", "11:00:55 GB exhausted", "11:00:55 run stopped (exhausted)"}},
		{"it returns before the timeout", func(b *bed, p played) { b.denyUntil(p, "list", time.Now().Add(50*time.Second)) },
			[]string{"11:00:00 GB running", "11:01:00 GB exhausted", "11:01:00 run stopped (exhausted)"}},
		{"the first returns before the timeout, the second does not", func(b *bed, p played) {
			b.denyUntil(p, "list", time.Now().Add(40*time.Second))
			time.Sleep(10 * time.Second)
			b.denyUntil(p, "list", time.Now().Add(time.Hour))
		}, []string{"11:00:00 GB running", "11:00:40 GB exhausted", "11:00:40 run stopped (exhausted)"}},
		{"the upstream refuses it for a day", func(b *bed, p played) {
			b.tokens.Observed(p.token, quota.Word{Operation: "list", Limit: "daily", Until: time.Now().Add(79892 * time.Second)})
		}, []string{"11:00:00 GB running", "11:00:30 GB exhausted", "11:00:30 run stopped (exhausted)"}},
		{"the upstream refuses it for less than the timeout", func(b *bed, p played) {
			b.tokens.Observed(p.token, quota.Word{Operation: "list", Limit: "daily", Until: time.Now().Add(50 * time.Second)})
		}, []string{"11:00:00 GB running", "11:01:00 GB exhausted", "11:01:00 run stopped (exhausted)"}},
		{"it could do without", func(b *bed, p played) {
			b.decided(p, quota.Request{Operation: "list", Optional: true}, refused())
		}, []string{"11:00:00 GB running", "11:01:00 GB timeout", "11:01:00 US running", "11:01:00 US ok", "11:01:00 run failed"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 2)
				job.Stagger = 0
				job.Regions[0], job.Regions[1] = "GB", "US"
				b := newBed(t, dir, job)
				b.play = func(ctx context.Context, p played) Exit {
					if p.region != "GB" {
						return Exit{}
					}
					ctx, cancel := context.WithTimeoutCause(ctx, p.Timeout, ErrTimeout)
					defer cancel()
					test.play(b, p)
					<-ctx.Done()
					return Exit{Code: -1, Signal: "SIGTERM", Cause: context.Cause(ctx)}
				}
				b.run()
				b.wants(append([]string{"11:00:00 run running"}, test.want...)...)
			})
		})
	}
}

// While a pass lacks what it was denied no other one is launched, however many may be under way; once
// it was granted that, the run continues.
func TestNoPassIsLaunchedAfterADenial(t *testing.T) {
	for name, granted := range map[string]bool{"that is for good": false, "that is granted later": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 3)
				job.Stagger, job.Parallel = time.Second, 3
				b := newBed(t, dir, job)
				b.play = func(_ context.Context, p played) Exit {
					if p.region != "GB" {
						time.Sleep(1500 * time.Millisecond)
						return Exit{}
					}
					b.denyUntil(p, "list", time.Now().Add(20*time.Second))
					time.Sleep(20 * time.Second)
					if granted {
						b.decided(p, quota.Request{Operation: "list"}, quota.Decision{GrantID: "a", Units: 1})
					}
					time.Sleep(time.Second)
					return Exit{}
				}
				b.run()
				want := []string{"11:00:00 run running", "11:00:00 US running", "11:00:01 GB running", "11:00:01 US ok",
					"11:00:22 GB exhausted", "11:00:22 run stopped (exhausted)"}
				if granted {
					want = []string{"11:00:00 run running", "11:00:00 US running", "11:00:01 GB running", "11:00:01 US ok",
						"11:00:21 DE running", "11:00:22 GB ok", "11:00:22 DE ok", "11:00:22 run done"}
				}
				b.wants(want...)
				b.stop()
				synctest.Wait()
			})
		})
	}
}

// An answer that comes when its pass is over holds up no other.
func TestALateDenialHoldsUpNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 2)
		job.Stagger = time.Second
		b := newBed(t, dir, job)
		var token string
		b.play = func(_ context.Context, p played) Exit {
			token = p.token
			return Exit{}
		}
		b.tick()
		b.tokens.Decided(token, quota.Request{Operation: "list"}, refused(), nil)
		time.Sleep(time.Minute)
		b.wants("11:00:00 run running", "11:00:00 US running", "11:00:00 US ok", "11:00:01 GB running", "11:00:01 GB ok", "11:00:01 run done")
	})
}

// Only the last call of a pass without a denial, of which nobody saw an answer, is reported as what
// exit code 75 may mean.
func TestExitCodeWithoutAnAnswer(t *testing.T) {
	for _, test := range []struct {
		name string
		exit int
		seen *quota.Word
		want string
	}{
		{"no answer was seen", ExitExhausted, nil, "g2"},
		{"the answer was good", ExitExhausted, &quota.Word{Operation: "list"}, ""},
		{"the answer was not understood", ExitExhausted, &quota.Word{Operation: "list", Unclear: true}, ""},
		{"the upstream refuses the key", ExitExhausted, &quota.Word{Operation: "list", Refuses: "API key not valid"}, ""},
		{"another exit code", 1, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trendingIn(t, 1)
				b := newBed(t, dir, job)
				b.play = func(_ context.Context, p played) Exit {
					b.decided(p, quota.Request{Operation: "list"}, quota.Decision{GrantID: "g1", Units: 1})
					b.tokens.Observed(p.token, quota.Word{Operation: "list"})
					b.decided(p, quota.Request{Operation: "list"}, quota.Decision{GrantID: "g2", Units: 1})
					if test.seen != nil {
						b.tokens.Observed(p.token, *test.seen)
					}
					return Exit{Code: test.exit}
				}
				b.tick()
				if got := b.status().Last.Passes[0].Unanswered; got != test.want {
					t.Errorf("got %q, want %q", got, test.want)
				}
			})
		})
	}
}

package jobs

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
)

// A region fails by its own last pass, whatever later runs did without it: one that the budget stopped, one of
// another region, a restart, a kill. A region that left the job fails no more.
func TestARegionFailsUntilItIsServed(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 3)
		job.Stagger = 0
		job.Expects = map[string]quota.Units{"list": 1}
		bad, gate := map[string]bool{"GB": true}, quota.Decision{}
		play := func(_ context.Context, p played) Exit {
			if bad[p.region] {
				p.output(Line{Stream: "stderr", Text: "HTTP Error 400\x1b[31m " + strings.Repeat("x", 64<<10)})
				return Exit{Code: 1}
			}
			return Exit{}
		}
		peek := func(map[string]quota.Units) (quota.Decision, error) { return gate, nil }
		b := newBed(t, dir, job)
		b.play, b.peek = play, peek
		want := func(want string) {
			t.Helper()
			var got []string
			for _, f := range b.status().Failing {
				got = append(got, fmt.Sprintf("%s since %s, ×%d: %.14s", f.Region, f.Since.Format("15:04"), f.Times, f.Cause))
				if strings.Contains(f.Cause, "\x1b") || len(f.Cause) > maxCause+len("…") || f.Run == "" {
					t.Errorf("the cause is %q, of run %q", f.Cause, f.Run)
				}
			}
			if text := strings.Join(got, "; "); text != want {
				t.Errorf("got %q, want %q", text, want)
			}
		}
		b.Start(t.Context())
		b.run()
		want("GB since 11:00, ×1: HTTP Error 400")
		b.run()
		want("GB since 11:00, ×2: HTTP Error 400")
		gate = refused() // nothing is launched
		b.run()
		want("GB since 11:00, ×2: HTTP Error 400")
		b.begun("GB") // nor is the region itself
		want("GB since 11:00, ×2: HTTP Error 400")
		gate = quota.Decision{}
		b.begun("US")
		want("GB since 11:00, ×2: HTTP Error 400")
		b.stop()
		b = b.killed(job)
		b.play, b.peek = play, peek
		want("GB since 11:00, ×2: HTTP Error 400")
		less := *job
		less.Regions = eight()[:1]
		must(t, b.SetJobs([]*Job{&less}))
		want("")
		must(t, b.SetJobs([]*Job{job}))
		bad["GB"], bad["DE"] = false, true
		b.Start(t.Context())
		b.run()
		want("DE since 14:00, ×1: HTTP Error 400")
	})
}

// A region that may be tried again in its run does not fail yet; where the budget ends the run first, it
// does.
func TestAFailureThatMayBeTriedAgain(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 2)
		job.Stagger, job.Retry = time.Minute, 1
		job.Expects = map[string]quota.Units{"list": 1}
		var gate atomic.Pointer[quota.Decision]
		gate.Store(&quota.Decision{})
		b := newBed(t, dir, job)
		b.peek = func(map[string]quota.Units) (quota.Decision, error) { return *gate.Load(), nil }
		b.play = func(_ context.Context, p played) Exit { return Exit{Code: map[string]int{"US": 1}[p.region]} }
		b.Start(t.Context())
		b.tick()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if f := b.status().Failing; len(f) != 0 {
			t.Errorf("%+v fails before it was tried again", f)
		}
		refusal := refused()
		gate.Store(&refusal)
		time.Sleep(time.Hour)
		synctest.Wait()
		if f := b.status().Failing; len(f) != 1 || f[0].Region != "US" || f[0].Times != 1 {
			t.Errorf("got %+v, want US once", f)
		}
	})
}

// The reason of a failed pass is what quotad has seen, else what its command wrote last to stderr, else how it ended.
func TestWhyAPassFailed(t *testing.T) {
	for name, row := range map[string]struct {
		seen func(b *bed, p played)
		said string
		want string
	}{
		"it said why":                  {func(*bed, played) {}, "curl: (22) 502", "curl: (22) 502"},
		"it said nothing":              {func(*bed, played) {}, "", "exit status 22"},
		"none of its calls was made":   {func(b *bed, p played) { b.tokens.Refused(p.token, "no answer") }, "curl: (22) 502", "1 call and none made: no answer"},
		"the upstream refuses the key": {func(b *bed, p played) { b.tokens.Observed(p.token, quota.Word{Refuses: "bad key"}) }, "curl: (22) 400", "bad key"},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				b := newBed(t, dir, trendingIn(t, 1))
				b.play = func(_ context.Context, p played) Exit {
					row.seen(b, p)
					p.output(Line{Stream: "stderr", Text: row.said})
					return Exit{Code: 22}
				}
				b.tick()
				if got := b.status().Last.Passes[0].Cause(); got != row.want {
					t.Errorf("got %q, want %q", got, row.want)
				}
			})
		})
	}
}

// A job is short of units for as long as its runs serve no region for want of them, or stop at the same one.
func TestAShortage(t *testing.T) {
	ran := func(outcomes ...Outcome) *Run {
		r := &Run{State: RunStopped, Reason: BudgetGone, Ring: eight()}
		for i, o := range outcomes {
			p := Pass{Region: eight()[i], Outcome: o, Limit: "daily"}
			if o == NotLaunched {
				p.Reason = DoesNotFit
			}
			r.Passes = append(r.Passes, p)
		}
		return r
	}
	unknown := ran(NotLaunched)
	unknown.Passes[0].Reason = LedgerUnavailable
	waited := ran(Exhausted)
	waited.Passes = append(waited.Passes, Pass{Region: "US", Attempt: 1, Outcome: OK})
	for _, row := range []struct {
		name string
		runs []*Run
		want string
	}{
		{"none", []*Run{ran(OK, OK)}, ""},
		{"a run that served some", []*Run{ran(OK, Exhausted)}, "runs 0, GB ×1 by daily"},
		{"not launched twice", []*Run{ran(NotLaunched), ran(NotLaunched)}, "runs 2, US ×2 by daily"},
		{"denied, then not launched", []*Run{ran(Exhausted), ran(NotLaunched)}, "runs 2, US ×2 by daily"},
		{"it failed, and that is a turn", []*Run{ran(NotLaunched), ran(Failed, NotLaunched)}, "runs 0, GB ×1 by daily"},
		{"served in between", []*Run{ran(NotLaunched), ran(OK), ran(NotLaunched)}, "runs 1, US ×1 by daily"},
		{"the last region each time", []*Run{ran(OK, Exhausted), ran(OK, NotLaunched), ran(OK, NotLaunched)}, "runs 0, GB ×3 by daily"},
		{"nothing is known of the third", []*Run{ran(NotLaunched), ran(NotLaunched), unknown}, "runs 2, US ×2 by daily"},
		{"waited for", []*Run{waited}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var s *Shortage
			for _, r := range row.runs {
				s = r.shortage(s)
			}
			got := ""
			if s != nil {
				got = fmt.Sprintf("runs %d, %s ×%d by %s", s.Runs, s.Region, s.Times, s.Limit)
			}
			if got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/quota"
)

// What users see of a run over US, GB, DE whose second pass ends in each of the ways
// there are: the passes, the run, and where the next one begins; and the same after a restart. The reason of a failed
// pass is what quotad has seen, else what its command wrote last to stderr, else how it ended.
func TestWhatBecomesOfARun(t *testing.T) {
	type ending func(ctx context.Context, b *bed, p played) Exit
	ends := func(exit Exit) ending { return func(context.Context, *bed, played) Exit { return exit } }
	hangs := func(ctx context.Context, _ *bed, p played) Exit { return hang(ctx, p) }
	hears := func(word quota.Word) ending { // and says that it failed
		return func(_ context.Context, b *bed, p played) Exit {
			b.tokens.Observed(p.token, word)
			p.output(Line{Stream: "stderr", Text: "curl: (22) 400"})
			return Exit{Code: 22}
		}
	}
	gate := func(d quota.Decision, err error) ending { // says of the next
		return func(_ context.Context, b *bed, _ played) Exit {
			b.peek = func(map[string]quota.Units) (quota.Decision, error) { return d, err }
			return Exit{}
		}
	}
	stops := func(b *bed) { must(b.t, b.StopRun(b.status().Last.ID)) }
	const stopped = "US ok, GB exhausted: stopped (exhausted); GB"
	for _, row := range []struct {
		name   string
		gb     ending
		during func(b *bed) // while GB's pass hangs
		want   string       // passes, run, cursor
	}{
		{"it fails", ends(Exit{Code: 3}), nil, "US ok, GB failed: exit status 3, DE ok: failed; US"},
		{"it fails, and says why", hears(quota.Word{}), nil, "US ok, GB failed: curl: (22) 400, DE ok: failed; US"},
		{"none of its calls was made, and it fails", func(_ context.Context, b *bed, p played) Exit {
			b.tokens.Refused(p.token, "no answer")
			p.output(Line{Stream: "stderr", Text: "curl: (22) 502"})
			return Exit{Code: 22}
		}, nil, "US ok, GB failed: 1 call and none made: no answer, DE ok: failed; US"},
		{"it cannot be started", ends(Exit{Code: -1, Err: errors.New("no such file")}), nil, "US ok, GB failed: no such file, DE ok: failed; US"},
		{"it takes too long", ends(Exit{Code: -1, Cause: ErrTimeout}), nil, "US ok, GB timeout: the pass reached its timeout, DE ok: failed; US"},
		{"a signal ends it", ends(Exit{Code: -1, Signal: "SIGSEGV"}), nil, "US ok, GB killed: killed by SIGSEGV, DE ok: failed; US"},
		{"it says that the budget is gone", ends(Exit{Code: ExitExhausted}), nil, stopped},
		{"it is denied, and says that all is well", func(_ context.Context, b *bed, p played) Exit { b.deny(p, "", time.Hour); return Exit{} }, nil, stopped},
		{"it is denied, waits and is granted", func(_ context.Context, b *bed, p played) Exit {
			b.deny(p, "list", 2*time.Second)
			time.Sleep(2 * time.Second)
			b.spend(p, "list", "youtube:1-0", 4)
			return Exit{}
		}, nil, "US ok, GB ok, DE ok: done; US"},
		{"the upstream's quota is gone, and it fails", hears(quota.Word{Limit: "daily", Until: time.Now().Add(time.Hour)}), nil, stopped},
		{"the upstream refuses the key, and it fails", hears(quota.Word{Refuses: "bad key"}), nil, "US ok, GB failed: bad key: failed (upstream_refuses); DE"},
		{"it is denied, and somebody stops the run", func(ctx context.Context, b *bed, p played) Exit { b.deny(p, "", 50*time.Second); return hang(ctx, p) },
			stops, "US ok, GB interrupted (operator): interrupted (operator); GB"},
		{"somebody stops the run", hangs, stops, "US ok, GB interrupted (operator): interrupted (operator); GB"},
		{"the daemon stops", hangs, (*bed).stop, "US ok, GB interrupted (shutdown): interrupted (shutdown); GB"},
		{"a pause begins", takes(time.Minute), func(b *bed) { must(b.t, b.Pause("trending", "root", "", 0)) }, "US ok, GB ok, DE ok: done; US"},
		{"the gate refuses the next", gate(refused(), nil), nil, "US ok, GB ok, DE not_launched (not_launched): stopped (not_launched); DE"},
		{"nobody can tell about the next", gate(quota.Decision{}, errLedger), nil, "US ok, GB ok, DE not_launched (ledger_unavailable): stopped (ledger_unavailable); DE"},
	} {
		t.Run(row.name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trending(t, 3)
				job.Stagger, job.Expects = 0, map[string]quota.Units{"videos.list": 4}
				b := newBed(t, dir, job)
				b.play = func(ctx context.Context, p played) Exit {
					if p.region == "GB" {
						return row.gb(ctx, b, p)
					}
					return Exit{}
				}
				b.tick()
				time.Sleep(30 * time.Second)
				if row.during != nil {
					row.during(b)
				}
				b.wait(time.Minute)
				for _, when := range []string{"then", "after a restart"} {
					if got := b.seen(); got != row.want {
						t.Errorf("%s:\ngot  %s\nwant %s", when, got, row.want)
					}
					b.restart(job)
				}
			})
		})
	}
}

// seen writes what a user sees of the last run.
func (b *bed) seen() string {
	b.t.Helper()
	s := b.status()
	var passes []string
	for _, p := range s.Last.Passes {
		pass := fmt.Sprintf("%s %s", p.Region, p.Outcome) + because(p.Reason)
		if p.Outcome.Failure() {
			pass += ": " + p.Cause()
		}
		passes = append(passes, pass)
	}
	return fmt.Sprintf("%s: %s; %s", strings.Join(passes, ", "), string(s.Last.State)+because(s.Last.Reason), s.Cursor)
}

// A region fails by its own last pass, whatever later runs did without it: one that the budget stopped, one of
// another region, a restart, a kill. A region that left the job fails no more.
func TestARegionFailsUntilItIsServed(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t, 3)
		job.Stagger, job.Retry, job.Expects = 0, 1, map[string]quota.Units{"list": 1}
		bad, gate := map[string]bool{"GB": true}, quota.Decision{}
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			if bad[p.region] {
				p.output(Line{Stream: "stderr", Text: "HTTP Error 400\x1b[31m " + strings.Repeat("x", 64<<10)})
				return Exit{Code: 1}
			}
			return Exit{}
		}
		b.peek = func(map[string]quota.Units) (quota.Decision, error) { return gate, nil }
		step := func(what string, does func(), want string) {
			t.Helper()
			does()
			var got []string
			for _, f := range b.status().Failing {
				got = append(got, fmt.Sprintf("%s since %s, ×%d: %.14s", f.Region, f.Since.Format("15:04"), f.Times, f.Cause))
				if strings.Contains(f.Cause, "\x1b") || len(f.Cause) > maxCause+len("…") || f.Run == "" {
					t.Errorf("%s: the cause is %q, of run %q", what, f.Cause, f.Run)
				}
			}
			if text := strings.Join(got, "; "); text != want {
				t.Errorf("%s: got %q, want %q", what, text, want)
			}
		}
		step("twice in a run", b.run, "GB since 11:00, ×1: HTTP Error 400")
		const gb = "GB since 11:00, ×2: HTTP Error 400"
		step("again", b.run, gb)
		step("nothing is launched", func() { gate = refused(); b.run(); b.begun("GB") }, gb)
		if s := b.status().Short; s == nil || s.Runs != 1 {
			t.Errorf("got %+v, want that a run of regions that somebody chose says nothing of a shortage", s)
		}
		step("another region", func() { gate = quota.Decision{}; b.begun("US") }, gb)
		step("a kill", func() { b.kill(job); b.start() }, gb)
		less := *job
		less.Regions = eight()[:1]
		step("it left the job", func() { must(t, b.SetJobs([]*Job{&less})) }, "")
		step("it is served, and another one fails", func() {
			must(t, b.SetJobs([]*Job{job}))
			bad["GB"], bad["DE"] = false, true
			b.run()
		}, "DE since 14:00, ×1: HTTP Error 400")
	})
}

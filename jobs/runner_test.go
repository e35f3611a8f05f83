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
	"time"

	"quotad/quota"
	"quotad/regions"
)

// The passes of a run come one after the other, at their times or as soon as there is room. Regions that failed are
// served again when the ring is through, after retry_after each time, but not in the time of the next slot. A run in
// which a region failed in the end is a failed one, however far it came.
func TestTheWayOfARun(t *testing.T) {
	fails := func(times map[string]int) func(context.Context, *bed, played) Exit {
		return func(_ context.Context, b *bed, p played) Exit {
			bearer, _ := b.tokens.Bearer(p.token)
			time.Sleep(time.Minute)
			if bearer.Caller.Attempt < times[p.region] { // a pass that is tried again is another caller
				return Exit{Code: 1}
			}
			return Exit{}
		}
	}
	play(t, []history{
		{name: "even", regions: 8, play: takes(10 * time.Second), want: []string{
			"11:00:00 run running",
			"11:00:00 US running", "11:00:10 US ok", "11:07:30 GB running", "11:07:40 GB ok",
			"11:15:00 DE running", "11:15:10 DE ok", "11:22:30 FR running", "11:22:40 FR ok",
			"11:30:00 IN running", "11:30:10 IN ok", "11:37:30 BR running", "11:37:40 BR ok",
			"11:45:00 AU running", "11:45:10 AU ok", "11:52:30 CA running", "11:52:40 CA ok",
			"11:52:40 run done"}},
		{name: "one is late", regions: 2, job: func(j *Job) { j.Stagger = 2 * time.Second }, play: takes(5 * time.Second),
			want: []string{"11:00:00 run running", "11:00:00 US running", "11:00:05 US ok", "11:00:05 GB running", "11:00:10 GB ok", "11:00:10 run done"}},
		{name: "two fail", regions: 3, job: func(j *Job) { j.Stagger, j.Retry = 10*time.Minute, 2 }, play: fails(map[string]int{"US": 2, "DE": 1}),
			want: []string{"11:00:00 run running", "11:00:00 US running", "11:01:00 US failed", "11:10:00 GB running", "11:11:00 GB ok",
				"11:20:00 DE running", "11:21:00 DE failed", "11:21:00 US running", "11:22:00 US failed", "11:22:00 DE running", "11:23:00 DE ok",
				"11:23:00 US running", "11:24:00 US ok", "11:24:00 run done"}},
		{name: "one fails, and is tried again later", regions: 2, job: func(j *Job) { j.Stagger, j.Retry, j.RetryAfter = 10*time.Minute, 3, 19*time.Minute },
			play: fails(map[string]int{"US": 9}),
			want: []string{"11:00:00 run running", "11:00:00 US running", "11:01:00 US failed", "11:10:00 GB running", "11:11:00 GB ok",
				"11:30:00 US running", "11:31:00 US failed", "11:50:00 US running", "11:51:00 US failed", "11:51:00 run failed"}},
		{name: "one fails, and another one is exhausted", regions: 2, job: func(j *Job) { j.Stagger, j.Retry = 0, 1 },
			play: func(_ context.Context, _ *bed, p played) Exit {
				return Exit{Code: map[string]int{"US": 1, "GB": ExitExhausted}[p.region]}
			},
			want: []string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US failed", "11:00:00 GB running", "11:00:00 GB exhausted", "11:00:00 run failed (exhausted)"}},
		{name: "one fails, and is not launched again", regions: 2,
			job: func(j *Job) { j.Stagger, j.Retry, j.Expects = 0, 1, map[string]quota.Units{"list": 1} },
			play: func(_ context.Context, b *bed, p played) Exit {
				if p.region == "GB" {
					b.peek = func(map[string]quota.Units) (quota.Decision, error) { return refused(), nil }
				}
				return Exit{Code: map[string]int{"US": 1}[p.region]}
			},
			want: []string{"11:00:00 run running", "11:00:00 US running", "11:00:00 US failed", "11:00:00 GB running", "11:00:00 GB ok",
				"11:00:00 US not_launched (not_launched)", "11:00:00 run failed"}},
		{name: "not at the next slot", job: func(j *Job) { j.Retry, j.RetryAfter = 1, 59*time.Minute }, play: fails(map[string]int{"US": 9}),
			want: []string{"11:00:00 run running", "11:00:00 US running", "11:01:00 US failed", "11:01:00 run failed"}},
	})
}

// A pass has the allowed part of the daemon's environment, its job's, and the contract: each
// overrides the one before. Its deadline is its timeout after its own start.
func TestEnvironment(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t, 2)
		job.Stagger, job.Env = 5*time.Minute, map[string]string{"YOUTUBE_API_KEY": "k=1", "TZ": "Europe/Berlin"}
		job.Files, job.Secrets = filepath.Join(dir, "data", "trending"), []string{"k=1"}
		b := newBed(t, dir, job)
		b.config.Environ = []string{
			"PATH=/usr/bin", "HOME=/var/lib/quotad", "LANG=C.UTF-8", "LC_ALL=C", "TZ=UTC", "TMPDIR=/tmp",
			"NOTIFY_SOCKET=/run/systemd/notify", "WATCHDOG_USEC=30", "LISTEN_FDS=1", "LISTEN_PID=1", "CREDENTIALS_DIRECTORY=/run/c",
			"INVOCATION_ID=1", "JOURNAL_STREAM=8:1", "AWS_SECRET_ACCESS_KEY=hush", "QUOTAD_TOKEN=of-somebody-else", "PATHEXT=x", "malformed",
		}
		b.config.Proxy = func(credential, token string) string { return "http://proxy/" + credential }
		var last played
		b.play = func(_ context.Context, p played) Exit { last = p; return Exit{} }
		b.run()
		want := []string{
			"HOME=/var/lib/quotad", "LANG=C.UTF-8", "LC_ALL=C", "PATH=/usr/bin",
			"QUOTAD_CREDENTIAL=youtube", "QUOTAD_DEADLINE=2000-01-01T11:06:00Z", "QUOTAD_JOB=trending", "QUOTAD_JOB_DIR=" + job.Files, "QUOTAD_PROXY=http://proxy/youtube",
			"QUOTAD_REGION=GB", "QUOTAD_RUN_ID=" + b.status().Last.ID, "QUOTAD_SCHEDULED_AT=2000-01-01T11:00:00Z",
			"QUOTAD_SOCKET=/run/quotad.sock", "QUOTAD_TOKEN=" + last.token,
			"TMPDIR=/tmp", "TZ=Europe/Berlin", "YOUTUBE_API_KEY=k=1",
		}
		if !slices.Equal(last.Env, want) {
			t.Errorf("got\n%q\nwant\n%q", last.Env, want)
		}
		if want := []string{"k=1", last.token}; !slices.Equal(last.Secrets, want) { // errors show the proxy's address, which has the token
			t.Errorf("%q are removed from its output, want %q", last.Secrets, want)
		}
		if _, live := b.tokens.Bearer(last.token); live {
			t.Error("the token of a pass that is over is known")
		}
	})
}

// The directory of a job is made. One that an operator names is theirs: if it is mistyped, or gone, it is not.
func TestDirectoriesOfAJob(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t, 1)
		job.Files, job.Dir = filepath.Join(dir, "data", "trending"), filepath.Join(dir, "dtaa")
		b := newBed(t, dir, job)
		b.run()
		if info, err := os.Stat(job.Files); err != nil || !info.IsDir() {
			t.Errorf("the directory is not there: %v", err)
		}
		if _, err := os.Stat(job.Dir); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the operator's directory was made: %v", err)
		}
		must(t, os.RemoveAll(job.Files))
		must(t, os.WriteFile(job.Files, nil, 0o600))
		b.run()
		if got := b.status().Last.Passes[0]; got.Outcome != Failed || !strings.Contains(got.Detail, "the directory of the job") {
			t.Errorf("got %+v, want a failed pass", got)
		}
	})
}

// A run under way finishes as it began, and spends from the credential that its job had then; the next one knows the new
// definition and begins where the cursor is, or at the beginning if that region is gone.
func TestReloadDuringARun(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		old, changed := trending(t, 2), trending(t, 1)
		old.Stagger = 10 * time.Minute
		b := newBed(t, dir, old)
		b.cursorAt("GB")
		b.tick()
		changed.Regions, changed.Stagger, changed.Credential, changed.Schedule = regions.Ring{"BR", "DE"}, 0, "other", shifted{every(t, time.Hour), 30 * time.Minute}
		must(t, b.SetJobs([]*Job{changed}))
		if got, want := b.Spending("youtube"), []string{b.status().Last.ID}; !slices.Equal(got, want) || len(b.Spending("other")) > 0 {
			t.Errorf("%q spend, want %q; from the new one: %q", got, want, b.Spending("other"))
		}
		b.wait(30 * time.Minute)
		b.wants("11:00:00 run running", "11:00:00 GB running", "11:00:00 GB ok", "11:10:00 US running", "11:10:00 US ok", "11:10:00 run done")
		b.Tick("trending", time.Now().UTC()) // the new schedule has missed nothing
		b.wait(time.Minute)
		b.wants("11:30:00 run running", "11:30:00 BR running", "11:30:00 BR ok", "11:30:00 DE running", "11:30:00 DE ok", "11:30:00 run done")
	})
}

// A job that is gone is not run any more, but what runs of it is still ended in
// order, and seen until then; if it comes back meanwhile it is the same job.
func TestReloadRemovesAJob(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		b := newBed(t, dir, trending(t, 1))
		b.play = hang
		b.tick()
		b.forget()
		must(t, b.SetJobs(nil))
		if got := b.status(); got.Schedule != "removed" || !got.Next.IsZero() || got.Last.State != RunRunning {
			t.Errorf("got %+v, want the run that is under way still", got)
		}
		b.tick()
		b.wants()
		must(t, b.SetJobs([]*Job{trending(t, 1)}))
		b.tick()
		b.wants("13:00:00 run skipped (overlap) ×1")
		must(t, b.SetJobs(nil))
		b.stop()
		b.wants("13:00:00 US interrupted (shutdown)", "13:00:00 run interrupted (shutdown)")
		if _, err := b.Status("trending"); !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v, want %v", err, ErrUnknown)
		}
	})
}

// An hour ahead, a daemon ran slots that are still to come: once its clock is right it runs the job again, and a good
// run is due in time. The last run is the one that began last: if the daemon is killed in
// it, that one is ended.
func TestAClockThatWasAhead(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t, 1)
		job.Schedule = every(t, 10*time.Minute)
		b := newBed(t, dir, job)
		b.start()
		b.ahead.Store(int64(time.Hour))
		b.Tick("trending", b.now().Truncate(10*time.Minute))
		b.wait(time.Minute)
		b.ahead.Store(0)
		b.restart(job)
		b.forget()
		if _, good := b.job().lastGood(b.now()); !good.IsZero() {
			t.Errorf("jobs that run after it go by a good run at %v", good)
		}
		b.tick()
		b.wants(ran("11:00:00")...)
		if due := b.status().Due; due.Day() != 2 || due.Hour() != 13 || due.Minute() != 0 {
			t.Errorf("a good run is due at %v, want it 26 hours after the last one", due)
		}
		b.wait(10 * time.Minute)
		b.Tick("trending", b.now().Truncate(10*time.Minute))
		b.wait(time.Minute)
		b.wants(ran("11:10:00")...)
		b.play = hang
		run := b.begun()
		b.kill(job)
		b.start()
		if got := b.status().Last; got.ID != run.ID || got.Reason != Died {
			t.Errorf("got %+v, want the run that was under way", got)
		}
		if runs, err := b.Runs("", 2); err != nil || len(runs) != 2 || runs[0].ID != run.ID {
			t.Errorf("got %+v, %v, want the run that began last first", runs, err)
		}
	})
}

// The passes of a run come at their times, a pace ends, and nothing ends before it began, though the clock is set
// meanwhile.
func TestTheClockIsSetDuringARun(t *testing.T) {
	for _, step := range []time.Duration{-time.Hour, time.Hour} {
		t.Run(step.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				job := trending(t, 3)
				job.Stagger, job.MaxWait = 5*time.Minute, time.Minute
				b := newBed(t, dir, job)
				var began []time.Duration
				slot := time.Now().Add(10 * time.Minute)
				b.play = func(_ context.Context, p played) Exit {
					if began = append(began, time.Since(slot)); len(began) == 2 {
						b.deny(p, "list", 30*time.Second)
					}
					time.Sleep(time.Second)
					return Exit{}
				}
				b.tick()
				time.Sleep(time.Second / 2) // within the first pass
				b.ahead.Store(int64(step))
				time.Sleep(5*time.Minute + 9*time.Second + time.Second/2)
				b.ahead.Store(0)
				b.wait(6 * time.Minute)
				if want := []time.Duration{0, 5 * time.Minute, 5*time.Minute + 30*time.Second, 10 * time.Minute}; !slices.Equal(began, want) {
					t.Errorf("passes began after %v, want %v", began, want)
				}
				run := b.status().Last
				for _, p := range run.Passes {
					if took := p.EndedAt.Sub(p.StartedAt); took != time.Second {
						t.Errorf("the pass of %s took %v, want a second", p.Region, took)
					}
				}
				if took := run.EndedAt.Sub(run.StartedAt); took != 10*time.Minute+time.Second {
					t.Errorf("the run took %v", took)
				}
			})
		})
	}
}

// The lines that passes write are there for those who follow the run, and the run as soon as a pass is over.
func TestAwaitRun(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t, 2)
		job.Stagger = time.Minute
		b := newBed(t, dir, job)
		b.play = func(_ context.Context, p played) Exit {
			p.output(Line{Stream: "stdout", Text: "page of " + p.region})
			time.Sleep(10 * time.Second)
			return Exit{}
		}
		run := b.begun()
		got, err := b.AwaitRun(t.Context(), run.ID, 0, 0)
		if err != nil || got.Written != 1 || len(got.Output) != 1 || got.Output[0].Text != "page of US" || got.Passes[0].Outcome != Running {
			t.Errorf("got %+v, %v, want the line of the first pass", got, err)
		}
		got, err = b.AwaitRun(t.Context(), run.ID, 2, -1)
		if err != nil || got.State != RunDone || len(got.Output) != 0 || len(got.Passes[1].Tail) != 1 {
			t.Errorf("got %+v, %v, want the run that is over", got, err)
		}
		if _, err := b.AwaitRun(t.Context(), "other", 0, 0); !errors.Is(err, ErrUnknown) {
			t.Errorf("got %v, want %v", err, ErrUnknown)
		}
	})
}

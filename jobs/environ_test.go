package jobs

import (
	"context"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// A pass has the allowed part of the daemon's environment, its job's, and the contract: each
// overrides the one before.
func TestEnvironment(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trending(t)
		job.Regions, job.Env = job.Regions[:1], map[string]string{"YOUTUBE_API_KEY": "k=1", "TZ": "Europe/Berlin"}
		job.Files = filepath.Join(dir, "data", "trending")
		job.Secrets = []string{"k=1"}
		b := newBed(t, dir, job)
		b.config.Environ = []string{
			"PATH=/usr/bin", "HOME=/var/lib/quotad", "LANG=C.UTF-8", "LC_ALL=C", "TZ=UTC", "TMPDIR=/tmp",
			"NOTIFY_SOCKET=/run/systemd/notify", "WATCHDOG_USEC=30", "LISTEN_FDS=1", "LISTEN_PID=1", "CREDENTIALS_DIRECTORY=/run/c",
			"INVOCATION_ID=1", "JOURNAL_STREAM=8:1", "AWS_SECRET_ACCESS_KEY=hush", "QUOTAD_TOKEN=of-somebody-else", "PATHEXT=x", "malformed",
		}
		b.config.Proxy = func(credential, token string) string { return "http://proxy/" + credential }
		var pass played
		b.play = func(_ context.Context, p played) Exit { pass = p; return Exit{} }
		b.tick()
		want := []string{
			"HOME=/var/lib/quotad", "LANG=C.UTF-8", "LC_ALL=C", "PATH=/usr/bin",
			"QUOTAD_CREDENTIAL=youtube", "QUOTAD_DEADLINE=2000-01-01T11:01:00Z", "QUOTAD_JOB=trending", "QUOTAD_JOB_DIR=" + job.Files, "QUOTAD_PROXY=http://proxy/youtube",
			"QUOTAD_REGION=US", "QUOTAD_RUN_ID=" + b.status().Last.ID, "QUOTAD_SCHEDULED_AT=2000-01-01T11:00:00Z",
			"QUOTAD_SOCKET=/run/quotad.sock", "QUOTAD_TOKEN=" + pass.token,
			"TMPDIR=/tmp", "TZ=Europe/Berlin", "YOUTUBE_API_KEY=k=1",
		}
		if !slices.Equal(pass.Env, want) {
			t.Errorf("got\n%q\nwant\n%q", pass.Env, want)
		}
		if want := []string{"k=1", pass.token}; !slices.Equal(pass.Secrets, want) { // errors show the proxy's address, which has the token
			t.Errorf("%q are removed from its output, want %q", pass.Secrets, want)
		}
	})
}

// The deadline of a pass is its timeout after its own start, however late in the run that is.
func TestDeadlineOfALatePass(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		job := trendingIn(t, 2)
		job.Stagger = 5 * time.Minute
		b := newBed(t, dir, job)
		deadlines := make(chan string, 2)
		b.play = func(_ context.Context, p played) Exit {
			i := slices.IndexFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "QUOTAD_DEADLINE=") })
			deadlines <- p.Env[i]
			return Exit{}
		}
		b.tick()
		time.Sleep(10 * time.Minute)
		for _, want := range []string{"QUOTAD_DEADLINE=2000-01-01T11:01:00Z", "QUOTAD_DEADLINE=2000-01-01T11:06:00Z"} {
			if got := <-deadlines; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	})
}

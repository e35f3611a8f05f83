package jobs

import (
	"slices"
	"testing"
	"time"
)

func TestEnvironment(t *testing.T) {
	own := []string{
		"PATH=/usr/bin", "HOME=/var/lib/quotad", "LANG=C.UTF-8", "LC_ALL=C", "TZ=UTC", "TMPDIR=/tmp",
		"NOTIFY_SOCKET=/run/systemd/notify", "WATCHDOG_USEC=30", "LISTEN_FDS=1", "LISTEN_PID=1", "CREDENTIALS_DIRECTORY=/run/c",
		"INVOCATION_ID=1", "JOURNAL_STREAM=8:1", "AWS_SECRET_ACCESS_KEY=hush", "QUOTAD_TOKEN=of-somebody-else", "PATHEXT=x", "malformed",
	}
	job := &Job{Name: "trending", Credential: "youtube", Env: map[string]string{"YOUTUBE_API_KEY": "k=1", "TZ": "Europe/Berlin"}}
	slot := time.Date(2026, 3, 1, 11, 0, 0, 0, time.FixedZone("", 3600))
	got := environ(own, job, contract{
		socket: "/run/quotad.sock", token: "T", region: "BR", runID: "R", scheduledAt: slot, deadline: slot.Add(2 * time.Minute),
	})
	want := []string{
		"HOME=/var/lib/quotad", "LANG=C.UTF-8", "LC_ALL=C", "PATH=/usr/bin",
		"QUOTAD_CREDENTIAL=youtube", "QUOTAD_DEADLINE=2026-03-01T10:02:00Z", "QUOTAD_JOB=trending", "QUOTAD_REGION=BR",
		"QUOTAD_RUN_ID=R", "QUOTAD_SCHEDULED_AT=2026-03-01T10:00:00Z", "QUOTAD_SOCKET=/run/quotad.sock", "QUOTAD_TOKEN=T",
		"TMPDIR=/tmp", "TZ=Europe/Berlin", "YOUTUBE_API_KEY=k=1",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got\n%q\nwant\n%q", got, want)
	}
}

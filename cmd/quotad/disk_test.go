package main

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
)

const withStateElsewhere = `
state_dir = "disk"
socket = ".quotad/quotad.sock"
[credentials.api]
limits.daily.units = 1_000_000
operations.list = 1
[jobs.slow]
credential = "api"
regions = ["one", "two"]
cron = "$FAR * * *"
run_at_start = true
command = ["sh", "-c", "quotactl acquire list && exec sleep 600"]
`

// On a full disk the daemon denies nothing and grants nothing: it says that it cannot decide, and forgets nothing. So does
// one that starts there after kill -9, in the middle of a run; when there is room, it grants again.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	disk := filepath.Join(dir, "disk")
	ballast := filepath.Join(disk, "ballast")
	mountSmallDisk(t, disk, "8m")
	must(t, os.Mkdir(filepath.Join(dir, ".quotad"), 0o700))
	write(t, dir, "config.toml", withStateElsewhere)
	daemon, client := startIn(t, dir), clientIn(dir)
	daemon.logs(t, "granted", "region=one")
	granted := int64(1)
	var err error
	eventually(t, func() bool {
		fillDisk(t, ballast)
		for _, err = spend(client); err == nil; _, err = spend(client) {
			granted++
		}
		return client.Get(t.Context(), "/readyz", nil) != nil
	})
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Status != http.StatusServiceUnavailable || problem.Reason != api.LedgerUnavailable {
		t.Errorf("on a full disk: %v, want 503 ledger_unavailable", err)
	}
	daemon.kill()

	write(t, dir, "config.toml", strings.Replace(withStateElsewhere, "run_at_start = true\n", "", 1)) // the last block may have room for another run
	daemon = startIn(t, dir)
	eventually(t, func() bool { // it is found soon after the socket is served
		job, err := (&jobsapi.Client{Client: client}).Job(t.Context(), "slow")
		must(t, err)
		return job.Last != nil && job.Last.State == "interrupted"
	})
	used := usedNow(t, client)
	if more := used - granted; more < 0 || more > 64 { // what was asked for and not answered may count
		t.Errorf("%d units are used, %d were granted", used, granted)
	}
	must(t, os.Remove(ballast))
	eventually(t, func() bool {
		d, err := spend(client)
		return err == nil && d.Granted
	})
	daemon.kill()
	startIn(t, dir)
	if now := usedNow(t, client); now < used+1 {
		t.Errorf("after another start %d units are used, want %d", now, used+1)
	}
}

func mountSmallDisk(t testing.TB, dir, size string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	must(t, os.Mkdir(dir, 0o755))
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=700,size="+size); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, syscall.MNT_DETACH); err != nil {
			t.Errorf("cannot unmount: %v", err)
		}
	})
}

func fillDisk(t testing.TB, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(t, err)
	defer file.Close()
	for err == nil {
		_, err = file.WriteString(strings.Repeat("x", 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

const withStateElsewhere = `
state_dir = "disk"
socket = "api.sock"
[credentials.api]
limits.daily.units = 1_000_000
operations.list = 1
`

// On a full disk the daemon denies nothing and grants nothing: it says that it
// cannot decide, forgets nothing, and goes on when there is room.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	dir, disk := shortDir(t), ""
	disk = filepath.Join(dir, "disk")
	mountSmallDisk(t, disk, "8m")
	writeConfig(t, dir, withStateElsewhere+tellEvents)
	told := "#!/bin/sh\ntest $QUOTAD_EVENT-$QUOTAD_KIND = trouble-ledger && echo $QUOTAD_SAYS >>" + dir + "/told\n"
	must(t, os.WriteFile(filepath.Join(dir, "tell"), []byte(told), 0o700))
	daemon := startIn(t, dir)
	client := &api.Client{Socket: filepath.Join(dir, "api.sock")}
	var granted atomic.Int64
	var spending sync.WaitGroup
	fillDisk(t, filepath.Join(disk, "ballast"))
	for range 16 {
		spending.Go(func() {
			for {
				d, err := spend(client)
				if err != nil {
					return
				}
				if !d.Granted {
					t.Errorf("a denial: %+v", d)
				}
				if granted.Add(1)%1000 == 0 {
					fillDisk(t, filepath.Join(disk, "ballast"))
				}
			}
		})
	}
	spending.Wait()
	var err error
	eventually(t, func() bool {
		fillDisk(t, filepath.Join(disk, "ballast"))
		for _, err = spend(client); err == nil; _, err = spend(client) {
			granted.Add(1)
		}
		text, _ := os.ReadFile(filepath.Join(dir, "told"))
		return len(text) > 0 && client.Get(context.Background(), "/readyz", nil) != nil
	})
	var problem *api.Problem
	if !errors.As(err, &problem) || problem.Status != http.StatusServiceUnavailable || problem.Reason != api.LedgerUnavailable {
		t.Errorf("on a full disk: %v, want 503 ledger_unavailable", err)
	}
	used := usedNow(t, client)
	if more := used - granted.Load(); more < 0 || more > 64 { // what the disk did not take counts
		t.Errorf("%d units are used, %d were granted", used, granted.Load())
	}
	must(t, os.Remove(filepath.Join(disk, "ballast")))
	eventually(t, func() bool { // the journal is tried each second
		return client.Get(context.Background(), "/readyz", nil) == nil
	})
	if d, err := spend(client); err != nil || !d.Granted {
		t.Errorf("with room again: %+v, %v", d, err)
	}
	if text, err := os.ReadFile(filepath.Join(dir, "told")); err != nil || !strings.HasPrefix(string(text), "the ledger cannot be written, because the disk is full") {
		t.Errorf("told: %q, %v", text, err)
	}
	daemon.kill()
	startIn(t, dir)
	if now := usedNow(t, client); now != used+1 {
		t.Errorf("after kill -9 %d units are used, want %d", now, used+1)
	}
}

// usedNow is what the first limit counts. A ledger in Redis that takes longer to answer
// than its deadline, as on a busy machine, is asked again: of such a one the status names
// no limits.
func usedNow(t *testing.T, client *api.Client) (used int64) {
	t.Helper()
	eventually(t, func() bool {
		status, err := client.Status(context.Background())
		must(t, err)
		c := status.Credentials[0]
		if c.Error == "" {
			used = c.Limits[0].Used
		}
		return c.Error == ""
	})
	return used
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
	if err != nil {
		t.Error(err)
		return
	}
	defer file.Close()
	for err == nil {
		_, err = file.WriteString(strings.Repeat("x", 4096))
	}
	if !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
}

// A daemon does not begin a new ledger over a damaged one: it says what it found,
// and what can be done.
func TestDamagedLedgerIsRefused(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		name  string
		spoil func(content []byte) []byte
		says  string
	}{
		{"cut short", func(content []byte) []byte { return content[:len(content)/2] }, `ledger/api is older than it was: its end is missing; `},
		{"emptied", func([]byte) []byte { return nil }, `ledger/api/00000001 is damaged at byte 0: this line has no end; `},
		{"overwritten", func(content []byte) []byte { return []byte(fmt.Sprintf("%*s", len(content), "")) }, `ledger/api/00000001 is damaged at byte 0: `},
	} {
		t.Run(row.name, func(t *testing.T) {
			dir := shortDir(t)
			writeConfig(t, dir, strings.Replace(withStateElsewhere, `"disk"`, `"."`, 1))
			daemon := startIn(t, dir)
			if _, err := spend(&api.Client{Socket: filepath.Join(dir, "api.sock")}); err != nil {
				t.Fatal(err)
			}
			daemon.stop(t) // then the position is that of the end
			path := filepath.Join(dir, journalDir, "api", "00000001")
			content, err := os.ReadFile(path)
			must(t, err)
			spoilt := row.spoil(content)
			must(t, os.WriteFile(path, spoilt, 0o600))
			for _, args := range [][]string{{"--check"}, nil} {
				cmd := exec.Command("quotad", args...)
				cmd.Dir = dir
				daemon, err := startChild(cmd)
				must(t, err)
				t.Cleanup(daemon.kill)
				daemon.logs(t, row.says+".*--accept-new-ledger")
			}
			if now, err := os.ReadFile(path); err != nil || string(now) != string(spoilt) {
				t.Errorf("the file was changed: %v", err)
			}
		})
	}
}

const slowJob = `
[jobs.slow]
credential = "api"
regions = ["one", "two"]
cron = "$FAR * * *"
run_at_start = true
command = ["sh", "-c", "quotactl acquire list && exec sleep 600"]
[clients.public]
limits.minute = { units = 60, window = "1m" }
`

// A disk that is full when quotad starts, with a run under way as it was killed, does not
// keep it from starting: it refuses calls, and goes on when there is room.
func TestStartOnAFullDisk(t *testing.T) {
	t.Parallel()
	ledgers := map[string]string{"embedded": "", "redis": ""}
	ledgers["redis"] = fmt.Sprintf("[ledger]\nbackend = \"redis\"\ndeadline = \"5s\"\nredis.addrs = [%q]\n", redistest.Start(t).Addr)
	for name, ledger := range ledgers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			disk := filepath.Join(dir, "disk")
			mountSmallDisk(t, disk, "8m")
			text := strings.Replace(withStateElsewhere, "[credentials.api]", ledger+"[credentials.api]", 1) + slowJob
			writeConfig(t, dir, text)
			daemon := startIn(t, dir)
			daemon.logs(t, "granted", "region=one")
			daemon.kill()
			fillDisk(t, filepath.Join(disk, "ballast"))
			once := strings.Replace(text, "run_at_start = true\n", "", 1) // the last block may have room for another run
			writeConfig(t, dir, once)
			daemon = startIn(t, dir)
			client := jobsapi.Client{Client: &api.Client{Socket: filepath.Join(dir, "api.sock")}}
			job, err := client.Job(context.Background(), "slow")
			if err != nil || job.Last == nil || job.Last.State != "interrupted" {
				t.Errorf("the run that was under way: %+v, %v", job.Last, err)
			}
			if used := usedNow(t, client.Client); used < 1 {
				t.Errorf("%d units are used, want that of the pass", used)
			}
			must(t, os.Remove(filepath.Join(disk, "ballast")))
			eventually(t, func() bool {
				d, err := spend(client.Client)
				return err == nil && d.Granted
			})
			daemon.kill()
			startIn(t, dir)
			if used := usedNow(t, client.Client); used < 2 {
				t.Errorf("after another start %d units are used", used)
			}
		})
	}
}

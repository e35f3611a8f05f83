package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"quotad/quota/api"
	"quotad/quota/redisledger/redistest"
)

// Whatever a daemon granted before kill -9 is debited after the restart, and
// nothing else but what was asked for and not answered.
func TestKilledDaemonKeepsItsGrants(t *testing.T) {
	ledgers := map[string]func(t *testing.T) string{
		"embedded": func(*testing.T) string { return `backend = "embedded"` },
		"redis": func(t *testing.T) string {
			return onRedis(redistest.Start(t).Addr)
		},
	}
	for name, ledger := range ledgers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			file := filepath.Join(dir, "config.toml")
			text := "[ledger]\n" + ledger(t) + "\n[credentials.api]\nlimits.daily.units = 1_000_000\noperations.list = 1\n"
			must(t, os.WriteFile(file, []byte(text), 0o600))
			var granted, unanswered int64
			for range 4 {
				g, u := spendUntilKilled(t, dir)
				granted, unanswered = granted+g, unanswered+u
				t.Logf("%d granted, %d unanswered so far", granted, unanswered)
				if used := usedAfterRestart(t, dir); used < granted || used > granted+unanswered {
					t.Fatalf("%d units are debited after %d grants and %d calls that were not answered", used, granted, unanswered)
				}
			}
		})
	}
}

// spendUntilKilled lets clients spend from a daemon until it has granted a
// number of calls, and kills it while they go on.
func spendUntilKilled(t *testing.T, dir string) (granted, unanswered int64) {
	t.Helper()
	const clients, enough = 8, 300
	daemon := startIn(t, dir)
	var grants, failures atomic.Int64
	var spending sync.WaitGroup
	killed := sync.OnceFunc(daemon.kill)
	for range clients {
		spending.Go(func() {
			client := &api.Client{Socket: filepath.Join(dir, ".quotad/quotad.sock")}
			for {
				d, err := spend(client)
				if err != nil || !d.Granted {
					failures.Add(1)
					return
				}
				if grants.Add(1) >= enough {
					killed()
				}
			}
		})
	}
	spending.Wait()
	killed() // also if nothing was granted
	return grants.Load(), failures.Load()
}

func usedAfterRestart(t *testing.T, dir string) int64 {
	t.Helper()
	daemon := startIn(t, dir)
	defer daemon.kill()
	return usedNow(t, &api.Client{Socket: filepath.Join(dir, ".quotad/quotad.sock")})
}

// startIn starts quotad in a directory and waits until it serves.
func startIn(t *testing.T, dir string) *child {
	t.Helper()
	return startProgram(t, dir, "quotad")
}

// startProgram is startIn of a quotad with the programs beside it.
func startProgram(t *testing.T, dir, program string) *child {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Dir = dir
	if filepath.IsAbs(program) {
		cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(program)+":"+os.Getenv("PATH"))
	}
	daemon, err := startChild(cmd)
	must(t, err)
	t.Cleanup(daemon.kill)
	daemon.logs(t, "^serving$")
	return daemon
}

// shortDir is t.TempDir with a name that leaves room for a socket's.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "q")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

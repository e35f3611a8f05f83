package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota/api"
	"quotad/quota/seedtest"
)

// While the daemon is killed and frozen, each slot is run once, or named: it was skipped for a reason, or its run died
// with the daemon. None runs twice.
func TestEachSlotOnceOrNamed(t *testing.T) {
	const list, kills, freezes, longest = 5, 30, 20, 4 * time.Second
	slots := seedtest.Long(t, 0)
	if slots == 0 {
		t.Skip("it takes minutes: " + seedtest.LongVariable + " says how many slots five jobs have together, such as 1000")
	}
	dir, random := shortDir(t), rand.New(rand.NewPCG(seedtest.Seed(t, 57), 0))
	text := "[credentials.api]\nlimits.daily.units = 1\noperations.list = 1\n"
	for i := range list {
		text += fmt.Sprintf("[jobs.j%d]\ncredential = \"api\"\nevery = \"1s\"\ncommand = [\"sh\", \"-c\", 'echo $QUOTAD_JOB $QUOTAD_SCHEDULED_AT >>%s/passes']\n", i, dir)
	}
	must(t, os.WriteFile(filepath.Join(dir, "config.toml"), []byte(text), 0o600))
	began := time.Now().UTC()
	daemon := startIn(t, dir)
	faults := append(slices.Repeat([]string{"kill"}, kills), slices.Repeat([]string{"freeze"}, freezes)...)
	random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	for i, fault := range faults {
		next := began.Add(time.Duration(slots/list) * time.Second * time.Duration(i+1) / time.Duration(len(faults)+1))
		time.Sleep(time.Until(next.Add(time.Duration(random.Int64N(int64(time.Second))))))
		away := time.Duration(random.Int64N(int64(longest)))
		if fault == "kill" {
			daemon.kill()
			time.Sleep(away)
			daemon = startIn(t, dir)
			continue
		}
		_ = daemon.cmd.Process.Signal(syscall.SIGSTOP)
		time.Sleep(away)
		_ = daemon.cmd.Process.Signal(syscall.SIGCONT)
	}
	for range list {
		daemon.logs(t, "^run done$")
	}
	client := jobsapi.Client{Client: &api.Client{Socket: filepath.Join(dir, ".quotad/quotad.sock")}}
	content, err := os.ReadFile(filepath.Join(dir, "passes"))
	must(t, err)
	figures := map[string]int{}
	for i := range list {
		runs, err := client.Runs(t.Context(), jobsapi.Selection{Job: fmt.Sprintf("j%d", i), Most: 1000})
		must(t, err)
		eachSlot(t, began, runs, string(content), figures)
	}
	daemon.stop(t)
	for _, what := range slices.Sorted(maps.Keys(figures)) {
		t.Logf("%4d %s", figures[what], what)
	}
}

// eachSlot counts what became of the slots of a job, from the first to the last that its runs name, the latest first.
func eachSlot(t *testing.T, began time.Time, runs []jobs.Run, passes string, figures map[string]int) {
	t.Helper()
	first, last := runs[len(runs)-1].Slot, runs[0].Slot
	if late := first.Sub(began); late > 10*time.Second {
		t.Errorf("the first slot that is known came %v after the start", late)
	}
	for slot := first; !slot.After(last); slot = slot.Add(time.Second) {
		i := slices.IndexFunc(runs, func(r jobs.Run) bool {
			return r.Slot.Equal(slot) || r.State == jobs.RunSkipped && !slot.Before(r.Slot) && !slot.After(r.LastSlot)
		})
		n := strings.Count(passes, runs[0].Job+" "+slot.Format(time.RFC3339)+"\n")
		figures["slots"]++
		switch {
		case i < 0:
			t.Errorf("%s: slot %v ran %d times, and has no name", runs[0].Job, slot, n)
		case runs[i].State == jobs.RunSkipped && n > 0:
			t.Errorf("%s: slot %v ran %d times, and was skipped: %s", runs[0].Job, slot, n, runs[i].Reason)
		case n > 1:
			t.Errorf("%s: slot %v ran %d times", runs[0].Job, slot, n)
		case runs[i].State == jobs.RunSkipped:
			figures["skipped: "+string(runs[i].Reason)]++
		default:
			figures[fmt.Sprintf("run %s %s, %d times", runs[i].State, runs[i].Reason, n)]++
		}
	}
}

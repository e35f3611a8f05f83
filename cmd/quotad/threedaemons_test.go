package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/jobs"
	jobsapi "quotad/jobs/api"
	"quotad/quota/redisledger/redistest"
)

// Five jobs, each of which is due each second. A pass writes down its job, slot, region and bookmark, and
// leaves another bookmark.
const dueEachSecond = `
[ledger]
backend = "redis"
redis.addrs = [%q]
[credentials.api]
limits.daily.units = 1_000_000
operations.list = 1
`

const dueJob = `
[jobs.j%d]
credential = "api"
regions = ["A", "B", "C"]
every = "1s"
stagger = "0s"
command = ["sh", "-c", 'echo $QUOTAD_JOB $QUOTAD_SCHEDULED_AT $QUOTAD_REGION $QUOTAD_RUN_ID "$QUOTAD_BOOKMARK" >>%s']
`

// QUOTAD_TEST_SLOTS sets how many slots three daemons share, such as 1000. Without it, there are a few.
const slotsVariable = "QUOTAD_TEST_SLOTS"

const sharedJobs = 5

// ThreeDaemons are daemons on one Redis that have the same jobs.
type threeDaemons struct {
	*testing.T
	rand    *rand.Rand
	server  *redistest.Server
	file    string // of the passes
	dirs    []string
	daemons []*child
	clients []jobsapi.Client
	flushes []time.Time
}

// A sharedPass is what a pass wrote down.
type sharedPass struct{ job, slot, region, run, mark string }

// While daemons are killed and frozen, and Redis is away and flushed, each slot has one run, on one of them, or a name
// for why it has none. What is set on one holds on all.
func TestThreeDaemonsShareJobs(t *testing.T) {
	t.Parallel()
	slots, err := strconv.Atoi(cmp.Or(os.Getenv(slotsVariable), "60"))
	if err != nil {
		t.Fatal(err)
	}
	h := &threeDaemons{T: t, rand: rand.New(rand.NewPCG(1, 0)), server: redistest.Start(t), file: filepath.Join(shortDir(t), "passes")}
	config := fmt.Sprintf(dueEachSecond, h.server.Addr)
	for i := range sharedJobs {
		config += fmt.Sprintf(dueJob, i, h.file)
	}
	for range 3 {
		daemon, client := startWith(t, config)
		h.daemons, h.clients = append(h.daemons, daemon), append(h.clients, jobsapi.Client{Client: client})
		h.dirs = append(h.dirs, filepath.Dir(filepath.Dir(client.Socket)))
	}
	h.awaitPasses(3 * sharedJobs)
	length := time.Duration(slots/sharedJobs) * time.Second
	for began, i := time.Now(), 0; time.Since(began) < length; i++ {
		h.strike(i)
		h.holds()
	}
	time.Sleep(2 * time.Second) // the slots of the last seconds
	h.check()
}

// strike does to the daemons and to Redis what may happen.
func (h *threeDaemons) strike(i int) {
	victim := h.rand.IntN(len(h.daemons))
	switch i % 4 {
	case 0:
		h.daemons[victim].kill()
		h.daemons[victim] = startIn(h.T, h.dirs[victim])
	case 1:
		process := h.daemons[victim].cmd.Process
		_ = process.Signal(syscall.SIGSTOP)
		time.Sleep(8 * time.Second) // longer than a lease, and looking twice
		_ = process.Signal(syscall.SIGCONT)
	case 2:
		if err := h.server.Freeze(); err != nil {
			h.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		if err := h.server.Thaw(); err != nil {
			h.Fatal(err)
		}
	case 3:
		h.flushes = append(h.flushes, time.Now())
		h.server.Order(h, "FLUSHALL")
		time.Sleep(16 * time.Second)
	}
}

// holds checks that what an operator sets on one daemon holds on all.
func (h *threeDaemons) holds() {
	ctx := context.Background()
	job := fmt.Sprintf("j%d", h.rand.IntN(sharedJobs))
	a, b := h.clients[h.rand.IntN(3)], h.clients[h.rand.IntN(3)]
	eventually(h.T, func() bool { _, err := a.Pause(ctx, job, jobsapi.PauseRequest{}); return err == nil })
	paused := time.Now()
	eventually(h.T, func() bool { _, err := b.SetCursor(ctx, job, jobsapi.CursorRequest{Region: "C"}); return err == nil }) // once its run is over
	before := len(h.passesOf(job))
	time.Sleep(1500 * time.Millisecond)
	if after := h.passesOf(job); len(after) > before {
		h.Errorf("%s was paused at %v, and has passes %v", job, paused, after[before:])
	}
	eventually(h.T, func() bool { _, err := b.Resume(ctx, job); return err == nil })
	eventually(h.T, func() bool { return len(h.passesOf(job)) > before })
	if next := h.passesOf(job)[before]; next.region != "C" {
		h.Errorf("the cursor of %s was set to C, its next run begins at %s", job, next.region)
	}
}

func (h *threeDaemons) passes() (list []sharedPass) {
	text, err := os.ReadFile(h.file)
	if err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) >= 4 {
			list = append(list, sharedPass{job: fields[0], slot: fields[1], region: fields[2], run: fields[3]})
		}
	}
	return list
}

func (h *threeDaemons) passesOf(job string) (list []sharedPass) {
	for _, p := range h.passes() {
		if p.job == job {
			list = append(list, p)
		}
	}
	return list
}

func (h *threeDaemons) awaitPasses(n int) {
	eventually(h.T, func() bool { return len(h.passes()) >= n })
}

// check holds that each slot had one run, or has a name.
func (h *threeDaemons) check() {
	runs := map[string]map[string]bool{} // by job and slot
	for _, p := range h.passes() {
		key := p.job + " " + p.slot
		if runs[key] == nil {
			runs[key] = map[string]bool{}
		}
		runs[key][p.run] = true
	}
	named := map[string]bool{}
	for _, client := range h.clients {
		list, err := client.Runs(context.Background(), jobsapi.Selection{Most: 1000})
		if err != nil {
			h.Fatal(err)
		}
		for _, run := range list {
			for slot := run.Slot; !slot.After(latestOf(run)); slot = slot.Add(time.Second) {
				named[run.Job+" "+slot.UTC().Format(time.RFC3339)] = true
			}
		}
	}
	twice, without := 0, 0
	for i := range sharedJobs {
		job := fmt.Sprintf("j%d", i)
		all := h.passesOf(job)
		first, _ := time.Parse(time.RFC3339, all[0].slot)
		last, _ := time.Parse(time.RFC3339, all[len(all)-1].slot)
		for slot := first; slot.Before(last); slot = slot.Add(time.Second) {
			key := job + " " + slot.Format(time.RFC3339)
			switch n := len(runs[key]); {
			case n == 0 && !named[key]:
				h.Errorf("%s had no run, and no daemon says why", key)
			case n == 0:
				without++
			case n > 1:
				twice++
				if n > 2 || !h.flushedAt(slot) {
					h.Errorf("%s had %d runs: %v", key, n, runs[key])
				}
			}
		}
	}
	h.Logf("%d slots with a run, %d of them twice; %d without", len(runs), twice, without)
}

func latestOf(run jobs.Run) time.Time {
	if run.State == jobs.RunSkipped {
		return run.LastSlot
	}
	return run.Slot
}

func (h *threeDaemons) flushedAt(slot time.Time) bool {
	for _, at := range h.flushes {
		if at.Sub(slot).Abs() < 5*time.Second {
			return true
		}
	}
	return false
}

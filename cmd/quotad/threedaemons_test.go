package main

import (
	"context"
	"fmt"
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
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
)

// Some jobs are due each second. A pass writes down its job, slot, region, run, and the bookmark that it has found. It
// leaves another one, of which it writes down that it did, and fails: so it is kept.
const dueEachSecond = `
[ledger]
backend = "redis"
redis.addrs = [%q]
[credentials.api]
limits.daily.units = 1_000_000
operations.list = 1
`

const dueJob = `
[jobs.j%[1]d]
credential = "api"
regions = ["A", "B", "C"]
every = "1s"
stagger = "0s"
command = ["sh", "-c", '''
echo pass $QUOTAD_JOB $QUOTAD_SCHEDULED_AT $QUOTAD_REGION $QUOTAD_RUN_ID "$QUOTAD_BOOKMARK" >>%[2]s
curl -sSf --unix-socket $QUOTAD_SOCKET -H "Authorization: Bearer $QUOTAD_TOKEN" -X PUT -d bookmark=$QUOTAD_RUN_ID http://quotad/v1/bookmark && echo mark $QUOTAD_JOB $QUOTAD_SCHEDULED_AT $QUOTAD_REGION $QUOTAD_RUN_ID >>%[2]s
exit 1
''']
`

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
	away    []time.Time // since when Redis was away, for awayTime
}

const awayTime = 10 * time.Second

// A sharedPass is what a pass wrote down.
type sharedPass struct{ job, slot, region, run, found string }

// While daemons are killed and frozen, and Redis is away and flushed, each slot has one run, on one of them, or a name
// for why it has none. What is set on one holds on all.
func TestThreeDaemonsShareJobs(t *testing.T) {
	slots := seedtest.OnlyLong(t, "slots three daemons share, such as 1000")
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
	h.check()
	h.checkMarks()
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
		h.away = append(h.away, time.Now())
		must(h, h.server.Freeze())
		time.Sleep(awayTime)
		must(h, h.server.Thaw())
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

// written returns what was written down of a kind, passes or their marks.
func (h *threeDaemons) written(kind string) (list []sharedPass) {
	text, err := os.ReadFile(h.file)
	if err != nil && !os.IsNotExist(err) {
		h.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := append(strings.Fields(line), "")
		if fields[0] == kind {
			list = append(list, sharedPass{fields[1], fields[2], fields[3], fields[4], fields[5]})
		}
	}
	return list
}

func (h *threeDaemons) passesOf(job string) (list []sharedPass) {
	for _, p := range h.written("pass") {
		if p.job == job {
			list = append(list, p)
		}
	}
	return list
}

func (h *threeDaemons) awaitPasses(n int) {
	eventually(h.T, func() bool { return len(h.written("pass")) >= n })
}

// check holds that each slot had one run, or has a name.
func (h *threeDaemons) check() {
	runs := map[string]map[string]bool{} // by job and slot
	for _, p := range h.written("pass") {
		key := p.job + " " + p.slot
		if runs[key] == nil {
			runs[key] = map[string]bool{}
		}
		runs[key][p.run] = true
	}
	named := map[string]bool{}
	for _, client := range h.clients {
		list, err := client.Runs(context.Background(), jobsapi.Selection{Most: 1000})
		must(h, err)
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

// checkMarks holds that a pass finds the bookmark that the one before it of its region has left, on whichever daemon. But
// a flush may take what only a daemon knew that was killed since, and while Redis is away a pass finds what its daemon knew.
func (h *threeDaemons) checkMarks() {
	left, found, lost := map[string]string{}, 0, 0
	for _, mark := range h.written("mark") {
		left[mark.run+mark.region] = mark.job + mark.region
	}
	last := map[string]sharedPass{}
	for _, p := range h.written("pass") {
		before, key := last[p.job+p.region], p.job+p.region
		last[key] = p
		switch {
		case before.run == "" || left[before.run+p.region] == "": // it was ended before it had left one
		case p.found == before.run:
			found++
		case h.flushedBetween(before, p) || h.awayAt(p):
			lost++
		default:
			h.Errorf("run %s of %s finds the bookmark %q of %s, run %s had left one", p.run, p.job, p.found, p.region, before.run)
		}
	}
	h.Logf("%d bookmarks were found, %d were not", found, lost)
}

func (h *threeDaemons) awayAt(p sharedPass) bool {
	slot, _ := time.Parse(time.RFC3339, p.slot)
	return slices.ContainsFunc(h.away, func(since time.Time) bool {
		return slot.After(since.Add(-2*time.Second)) && slot.Before(since.Add(awayTime+time.Second))
	})
}

func (h *threeDaemons) flushedBetween(a, b sharedPass) bool {
	from, _ := time.Parse(time.RFC3339, a.slot)
	until, _ := time.Parse(time.RFC3339, b.slot)
	return slices.ContainsFunc(h.flushes, func(at time.Time) bool {
		return at.After(from.Add(-5*time.Second)) && at.Before(until.Add(5*time.Second))
	})
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

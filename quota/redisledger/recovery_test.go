package redisledger_test

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
)

func (h *host) settle(d quota.Decision, units quota.Units) {
	h.Helper()
	if s, err := h.keeper.Settle(h.Context(), d.GrantID, units, quota.Caller{UID: 0}); err != nil || !s.Granted() {
		h.Fatalf("got %+v, %v; want it settled", s, err)
	}
}

// Granted on one host, settled upwards on another: the log comes back with what was
// really spent, also if the first host does not.
func TestSettlementUpwardsSurvivesALoss(t *testing.T) {
	server := realRedis(t)
	a, b := start(t, server, "a", t.TempDir()), start(t, server, "b", t.TempDir())
	b.used(0)
	d := a.granted("videos.list")
	b.settle(d, 90)
	a.stop()
	b.used(90)
	server.Order(t, "FLUSHALL")
	b.awaitUp()
	b.used(90)
}

// A host that stays away for longer than it is waited for puts back what it knows when it
// returns.
func TestHostThatReturnsLate(t *testing.T) {
	server, dir := realRedis(t), t.TempDir()
	a, b := start(t, server, "a", dir), start(t, server, "b", t.TempDir())
	a.granted("search.list")
	b.granted("videos.list")
	a.stop()
	b.used(11)
	server.Order(t, "FLUSHALL")
	b.awaitUp()
	b.used(1)
	a = start(t, server, "a", dir)
	a.awaitUp()
	a.used(11)
}

// offline tells whether an operation is granted without Redis.
func (h *host) offline(operation string) bool {
	h.Helper()
	d, err := h.keeper.Acquire(h.Context(), quota.Request{Credential: "youtube", Operation: operation, Count: 1})
	return err == nil && d.Outage
}

func (h *host) awaitUp() {
	h.Helper()
	h.await(redisledger.Up)
}

// Settled again behind the copy that Redis falls back to: the later settlement holds.
func TestLaterSettlementHoldsAfterAnOlderCopy(t *testing.T) {
	server := realRedis(t)
	h := start(t, server, "a", t.TempDir())
	d := h.granted("search.list")
	h.settle(d, 5)
	server.Order(t, "SAVE")
	h.settle(d, 80)
	server.Kill()
	server.Run(t)
	h.awaitUp()
	h.used(80)
}

// What was given back, and what was reset, does not return with a loss.
func TestCorrectionsSurviveALoss(t *testing.T) {
	t.Run("given back", func(t *testing.T) {
		server := realRedis(t)
		h := start(t, server, "a", t.TempDir())
		h.granted("search.list")
		if _, err := h.keeper.Adjust(t.Context(), "youtube", quota.Adjustment{Limit: "daily", Units: -7}); err != nil {
			t.Fatal(err)
		}
		server.Order(t, "FLUSHALL")
		h.awaitUp()
		h.used(3)
	})
	t.Run("reset by another host", func(t *testing.T) {
		server := realRedis(t)
		a, b := start(t, server, "a", t.TempDir()), start(t, server, "b", t.TempDir())
		a.granted("search.list")
		b.used(10)
		if _, err := b.keeper.Reset(t.Context(), "youtube", quota.Caller{UID: 0}, ""); err != nil {
			t.Fatal(err)
		}
		b.granted("videos.list")
		hear(1, a, b)
		server.Order(t, "FLUSHALL")
		a.awaitUp()
		b.awaitUp()
		a.used(1)
	})
}

// The units of two hosts return in the order in which they were granted, each at its own
// time.
func TestUnitsReturnAtTheirOwnTime(t *testing.T) {
	server := realRedis(t)
	a, b := start(t, server, "a", t.TempDir()), start(t, server, "b", t.TempDir())
	var ids []string
	for range 3 {
		ids = append(ids, a.granted("search.list").GrantID, b.granted("search.list").GrantID)
	}
	hear(60, a, b)
	server.Order(t, "FLUSHALL")
	a.awaitUp()
	b.awaitUp()
	page, _, err := a.keeper.Log(t.Context(), "youtube", quota.LogQuery{})
	if err != nil || len(page.Entries) != len(ids) {
		t.Fatalf("%+v, %v; want the six grants", page, err)
	}
	for i, e := range page.Entries {
		if got := quota.GrantID("youtube", e.ID); got != ids[i] {
			t.Errorf("entry %d is %s, want %s in its own place", i, got, ids[i])
		}
	}
}

// The allowance is for a window, not for an outage: what an outage took is not there in
// the next one. Nor is what was spent before.
func TestAllowanceOfTwoOutages(t *testing.T) {
	server := realRedis(t)
	h := start(t, server, "a", t.TempDir())
	outage := func(want int) {
		t.Helper()
		if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		h.offline("search.list")
		granted := 0
		for range 7 {
			if h.offline("videos.list") {
				granted++
			}
		}
		if granted != want {
			t.Errorf("%d units were granted in an outage, want %d", granted, want)
		}
		server.Process.Signal(syscall.SIGCONT)
		h.awaitUp()
	}
	h.granted("search.list")
	outage(5)
	outage(0)
}

func TestNothingIsGrantedOfflineBeyondWhatWasLeft(t *testing.T) {
	server := realRedis(t)
	h := start(t, server, "a", t.TempDir())
	for range 9 {
		h.granted("search.list")
	}
	for range 8 {
		h.granted("videos.list")
	}
	server.Kill()
	granted := 0
	for range 12 {
		if h.offline("videos.list") {
			granted++
		}
	}
	if granted != 2 {
		t.Errorf("%d units were granted without Redis, want the 2 that were left", granted)
	}
}

// The disk is full, and Redis is frozen while offline grants are replayed: the health and
// other credentials are answered, each within its deadline.
func TestNobodyWaitsForAReplay(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can mount a small file system")
	}
	server, dir := realRedis(t), t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("cannot mount a small file system: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	h := start(t, server, "a", dir)
	t.Cleanup(h.stop) // before the file system goes
	h.granted("search.list")
	if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for !h.offline("videos.list") {
	}
	full, err := os.Create(filepath.Join(dir, "full"))
	if err != nil {
		t.Fatal(err)
	}
	for block := make([]byte, 4096); err == nil; {
		_, err = full.Write(block)
	}
	server.Process.Signal(syscall.SIGCONT) // the replay begins, and cannot be noted
	done := make(chan struct{})
	var all sync.WaitGroup
	for _, f := range []func(){
		func() { h.keeper.Health(t.Context()) },
		func() { _, _, _ = h.keeper.Usage(t.Context(), "youtube") },
		func() { h.offline("videos.list") },
		func() { _, _ = h.keeper.Peek(t.Context(), "youtube", map[string]quota.Units{"videos.list": 1}, false) },
	} {
		all.Go(func() {
			for range 50 {
				f()
			}
		})
	}
	all.Go(func() {
		server.Process.Signal(syscall.SIGSTOP)
		server.Process.Signal(syscall.SIGCONT)
	})
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(hanging):
		t.Fatal("somebody waits for the replay")
	}
	full.Close()
	if err := os.Remove(full.Name()); err != nil {
		t.Fatal(err)
	}
	h.awaitUp()
}

package redisledger_test

import (
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

func TestFlushedLogIsNotAFreshBudget(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	for range 9 {
		h.granted("search.list")
	}
	released := h.granted("videos.list")
	if _, err := h.service.Settle(t.Context(), released.GrantID, quota.Settlement{}); err != nil {
		t.Fatal(err)
	}
	server.Order(t, "FLUSHALL")
	// Not even an open operation is granted before the log is whole again: it is not known
	// what is left.
	used := quota.Units(90)
	request := quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1}
	if d, err := h.service.Acquire(t.Context(), request); d.Outage {
		t.Errorf("got %+v of a lost log, want no grant", d)
	} else if err == nil { // it is whole again
		used++
	}
	if e := h.await(slidinglog.Restored); e.Records != 11 { // the grants, and a settlement
		t.Errorf("%d entries are put back, want 11", e.Records)
	}
	h.awaitUp()
	h.used(used)
	for ; used < 100; used++ {
		h.granted("videos.list")
	}
	if d := h.acquire("videos.list", ""); d.Reason != quota.LimitExceeded {
		t.Errorf("got %+v, want a denial: the day was spent before the flush", d)
	}
}

func TestEveryDaemonPutsItsOwnBack(t *testing.T) {
	server := emptyRedis(t)
	a, b := start(t, server, "a", t.TempDir()), start(t, server, "b", t.TempDir())
	for range 4 {
		a.granted("search.list")
		b.granted("search.list")
	}
	hear(80, a, b)
	server.Order(t, "FLUSHALL")
	// b is idle: it notices by itself, before a is granted anything.
	a.awaitUp()
	a.used(80)
	a.granted("search.list")
	a.granted("search.list")
	b.awaitUp()
	for _, h := range []*daemon{a, b} {
		if d := h.acquire("search.list", ""); d.Granted() {
			t.Errorf("got %+v, want no more than the day has", d)
		}
	}
}

func TestFlushedWhileTheDaemonWasDown(t *testing.T) {
	server, dir := emptyRedis(t), t.TempDir()
	h := start(t, server, "a", dir)
	for range 10 {
		h.granted("search.list")
	}
	h.stop()
	server.Order(t, "FLUSHALL")
	h = begin(t, server.Addr, "a", dir)
	h.awaitUp()
	h.used(100)
}

func TestOlderCopyIsNoticed(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("search.list")
	server.Order(t, "SAVE")
	h.granted("search.list")
	h.granted("search.list")
	server.Kill() // what came after the snapshot is lost
	server.Run(t)
	h.await(slidinglog.Restored)
	h.awaitUp()
	h.used(30)
}

// Granted on one host, settled upwards on another: the log comes back with what was
// really spent, also if the first host does not.
func TestSettlementUpwardsSurvivesALoss(t *testing.T) {
	server := emptyRedis(t)
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

// Redis is replaced by an older copy of itself while the daemon is down.
func TestOlderCopyWhileTheDaemonWasDown(t *testing.T) {
	server, dir := emptyRedis(t), t.TempDir()
	h := start(t, server, "a", dir)
	h.granted("search.list")
	server.Order(t, "SAVE")
	h.settle(h.granted("search.list"), 30)
	h.stop()
	server.Kill() // what came after the snapshot is lost
	server.Run(t)
	h = begin(t, server.Addr, "a", dir)
	h.awaitUp()
	h.used(40)
}

// A host that is cut off is waited for by all, also by a new one, which misses nobody.
func TestNewHostWaitsForWhomOthersMiss(t *testing.T) {
	server := emptyRedis(t)
	proxy := redistest.NewProxy(t, server)
	a, b := begin(t, proxy.Addr, "a", t.TempDir()), start(t, server, "b", t.TempDir())
	a.serves()
	for range 9 {
		a.granted("search.list")
	}
	hear(90, a, b)
	proxy.Disturb(func([]string) redistest.Fault { return redistest.CutBefore })
	server.Order(t, "FLUSHALL")
	b.await(slidinglog.Restored)
	c := begin(t, server.Addr, "c", t.TempDir())
	for end := time.Now().Add(3 * quiet); time.Now().Before(end); {
		if d, err := c.service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "search.list", Count: 1}); err == nil && d.Granted() {
			t.Fatalf("got %+v while a is waited for", d)
		}
	}
	proxy.Disturb(func([]string) redistest.Fault { return redistest.Pass })
	for _, h := range []*daemon{a, b, c} {
		h.serves()
		h.used(90)
	}
}

// In the quiet period Redis falls back to a copy of before the loss: all comes back.
func TestFallsBackInTheQuietPeriod(t *testing.T) {
	server := emptyRedis(t)
	a, b := start(t, server, "a", t.TempDir()), start(t, server, "b", t.TempDir())
	a.granted("search.list")
	b.granted("search.list")
	hear(20, a, b)
	server.Order(t, "SAVE")
	a.granted("videos.list")
	hear(21, a, b)
	server.Order(t, "FLUSHALL")
	a.await(slidinglog.Restored)
	server.Kill()
	server.Run(t)
	for _, h := range []*daemon{a, b} {
		h.awaitUp()
		h.serves()
		h.used(21)
	}
}

// The log of a credential is evicted: it is restored, and holds what it held.
func TestEvictedLogIsRestored(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	for range 10 {
		h.granted("search.list")
	}
	server.Do(t, "DEL", "quotad:{youtube}:log")
	h.await(slidinglog.Restored)
	h.awaitUp()
	h.used(100)
	if d := h.acquire("search.list", ""); d.Reason != quota.LimitExceeded {
		t.Errorf("got %+v, want a denial", d)
	}
}

// Settled again behind the copy that Redis falls back to: the later settlement holds.
func TestLaterSettlementHoldsAfterAnOlderCopy(t *testing.T) {
	server := emptyRedis(t)
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
		server := emptyRedis(t)
		h := start(t, server, "a", t.TempDir())
		h.granted("search.list")
		if _, err := h.service.Adjust(t.Context(), "youtube", quota.Adjustment{Limit: "daily", Units: -7}); err != nil {
			t.Fatal(err)
		}
		server.Order(t, "FLUSHALL")
		h.awaitUp()
		h.used(3)
	})
	t.Run("reset by another host", func(t *testing.T) {
		server := emptyRedis(t)
		a, b := start(t, server, "a", t.TempDir()), start(t, server, "b", t.TempDir())
		a.granted("search.list")
		b.used(10)
		if _, err := b.service.Reset(t.Context(), "youtube", quota.Caller{UID: 0}, ""); err != nil {
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
	server := emptyRedis(t)
	a, b := start(t, server, "a", t.TempDir()), start(t, server, "b", t.TempDir())
	var ids []string
	for range 3 {
		ids = append(ids, a.granted("search.list").GrantID, b.granted("search.list").GrantID)
	}
	hear(60, a, b)
	server.Order(t, "FLUSHALL")
	a.awaitUp()
	b.awaitUp()
	page, err := a.service.Log(t.Context(), "youtube", quota.LogQuery{})
	if err != nil || len(page.Entries) != len(ids) {
		t.Fatalf("%+v, %v; want the six grants", page, err)
	}
	for i, e := range page.Entries {
		if got := quota.GrantID("youtube", e.ID); got != ids[i] {
			t.Errorf("entry %d is %s, want %s in its own place", i, got, ids[i])
		}
	}
}

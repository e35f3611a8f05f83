package redisledger_test

import (
	"testing"

	"quotad/quota"
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

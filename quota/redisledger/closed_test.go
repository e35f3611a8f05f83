package redisledger_test

import (
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// closeDaily closes a host's limit for a day, or opens it, and expects that to change it.
func (h *daemon) closeDaily(until time.Time) {
	h.Helper()
	k := quota.Change{Kind: quota.KindClosing, Limit: "daily", Until: until, Note: "limit 'Queries per day'", Caller: quota.Caller{UID: 0}}
	if until.IsZero() {
		k.Kind = quota.KindOpening
	}
	if d, changed, err := h.service.ChangeLimit(h.Context(), "youtube", k); err != nil || d.Reason != "" || !changed {
		h.Fatalf("got %+v, %v, %v; want it changed", d, changed, err)
	}
}

// closedAt expects that hosts are denied by a limit that is closed until a time.
func closedAt(until time.Time, hosts ...*daemon) {
	for _, h := range hosts {
		h.Helper()
		d := h.acquire("videos.list", "")
		if d.Reason != quota.LimitClosed || !d.RetryAt.Equal(until) || d.Closed().Says != "limit 'Queries per day'" || d.Closed().By != "@0" {
			h.Fatalf("got %+v, want that daily is closed until %v", d, until)
		}
	}
}

// One of three hosts hears that the day is spent: no other is granted anything, through a
// restart of each, a loss of the log and an outage; and all are, once one opens it.
func TestClosedLimitHoldsOnEveryHost(t *testing.T) {
	server := emptyRedis(t)
	names, dirs := []string{"a", "b", "c"}, []string{t.TempDir(), t.TempDir(), t.TempDir()}
	hosts := make([]*daemon, 3)
	for i := range hosts {
		hosts[i] = start(t, server, names[i], dirs[i])
		hosts[i].granted("videos.list")
	}
	until := time.Now().Add(20 * time.Hour).Truncate(time.Millisecond).UTC()
	hosts[0].closeDaily(until)
	closedAt(until, hosts...)
	for i := range hosts {
		hosts[i].stop()
		hosts[i] = start(t, server, names[i], dirs[i])
		closedAt(until, hosts...)
	}
	hear(3, hosts...)

	server.Order(t, "FLUSHALL")
	for _, h := range hosts {
		h.awaitUp()
	}
	closedAt(until, hosts...)
	hear(3, hosts...)

	// While Redis is away a host would grant a few reads: not from a closed limit.
	server.Kill()
	hosts[1].await(slidinglog.Down)
	if d, err := hosts[1].service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1}); err != nil || d.Reason != quota.LimitClosed {
		t.Errorf("got %+v, %v; want limit_closed without Redis too", d, err)
	}
	server.Run(t)
	for _, h := range hosts {
		h.awaitUp()
	}
	closedAt(until, hosts...)

	hosts[2].closeDaily(time.Time{})
	for _, h := range hosts { // reads were just denied here, which is remembered for a second
		h.granted("search.list")
	}
	hear(33, hosts...)
	// What is open stays so when the log is lost again.
	server.Order(t, "FLUSHALL")
	for _, h := range hosts {
		h.awaitUp()
	}
	for _, h := range hosts {
		h.granted("search.list")
	}
}

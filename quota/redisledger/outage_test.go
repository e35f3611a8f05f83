package redisledger_test

import (
	"syscall"
	"testing"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

func TestFrozenLedger(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("search.list")
	if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// The first to ask waits for the deadline, no longer; then all are answered at once.
	h.refused("search.list")
	for calls, open := range map[string]bool{"videos.list": true, "search.list": false} {
		if d, err := h.service.Peek(t.Context(), "youtube", quota.Calls{Count: map[string]quota.Units{calls: 1}}, nil, false); (err == nil) != open || open && !d.Granted() {
			t.Errorf("got %+v, %v for a peek at %s, want it to be open: %v", d, err, calls, open)
		}
	}
	var ids []string
	for range 5 {
		d := h.granted("videos.list")
		if !d.Outage {
			t.Errorf("got %+v, want a grant of the outage", d)
		}
		ids = append(ids, d.GrantID)
	}
	h.refused("videos.list") // beyond open_units
	_, last, _ := quota.ParseGrantID(ids[4])
	granted := last.Time()
	if _, err := h.service.Settle(t.Context(), ids[0], quota.Settlement{}); err != nil {
		t.Errorf("a grant of the outage cannot be released during it: %v", err)
	}
	server.Process.Signal(syscall.SIGCONT)
	if e := h.await(slidinglog.Up); e.Units != 5 {
		t.Errorf("%d units were booked back, want 5", e.Units)
	}
	// One search was granted. Another one was sent, and if Redis carried it out as it went on, it
	// was given back: nobody was told of it. Of the outage's five one was released.
	h.granted("search.list")
	h.used(10 + 4 + 10)
	page, err := h.service.Log(t.Context(), "youtube", quota.LogQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if g, _ := e.Grant(); g.Operation == "videos.list" && e.ID.Time().Equal(granted) {
			return
		}
	}
	t.Errorf("%s was not booked with its own time: %+v", ids[4], page.Entries)
}

func TestHealthTells(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("search.list")
	health := h.service.Health(t.Context())
	if !health.Reachable || len(health.Warnings) == 0 {
		t.Errorf("got %+v, want a reachable ledger that persists nothing", health)
	}
	server.Kill()
	h.await(slidinglog.Down)
	if health = h.service.Health(t.Context()); health.Reachable || health.State == "ok" {
		t.Errorf("got %+v of a dead ledger", health)
	}
}

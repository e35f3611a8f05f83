package redisledger_test

import (
	"context"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// Redis is frozen: closed operations are refused within the deadline, open ones are granted alone and put back.
func TestFrozenRedis(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, at(server), "a", t.TempDir())
	h.granted("search.list")
	h.eventually(func() bool { // it has heard what is left
		u, err := h.service.Usage(t.Context(), "youtube")
		return err == nil && u.Limits[0].Used == 10
	})
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	h.refused("search.list")
	if took := time.Since(begun); took > 10*deadline {
		t.Errorf("the refusal took %v", took)
	}
	for operation, open := range map[string]bool{"videos.list": true, "search.list": false} {
		calls := quota.Calls{Count: map[string]quota.Units{operation: 1}}
		d, err := h.service.Peek(t.Context(), "youtube", calls, nil, false)
		if (err == nil) != open || open && !d.Granted() {
			t.Errorf("got %+v, %v for a peek at %s, want it to be open: %v", d, err, operation, open)
		}
	}
	five := quota.Request{Credential: "youtube", Operation: "videos.list", Count: 5}
	if d, err := h.service.Acquire(t.Context(), five); err != nil || !d.Outage {
		t.Errorf("got %+v, %v, want a grant of the outage", d, err)
	}
	h.refused("videos.list") // beyond the allowance
	server.Thaw()
	if e := h.await(slidinglog.Up); e.Units != 5 {
		t.Errorf("%d units were granted alone, want 5", e.Units)
	}
	h.used(15)
}

func TestHealthSays(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, at(server), "a", t.TempDir())
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

// A script that runs for too long is ended by SCRIPT KILL: a call meanwhile is refused, and it goes on after it.
func TestScriptKill(t *testing.T) {
	server := emptyRedis(t, "--lua-time-limit", "1")
	h := start(t, at(server), "a", t.TempDir())
	h.granted("videos.list")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		server.Try("EVAL", "while true do end", "0")
	}()
	h.eventually(func() bool {
		_, err := h.tryOnce("search.list", "")
		return err != nil && strings.Contains(err.Error(), "SCRIPT KILL")
	})
	server.Order(t, "SCRIPT KILL")
	<-ended
	h.eventually(func() bool {
		d, err := h.tryOnce("search.list", "the one")
		return err == nil && d.Granted()
	})
}

// On a full disk of a host its calls are granted, and the trouble is said; when there is room, the journal has them.
func TestFullDiskOfAHost(t *testing.T) {
	server, disk := emptyRedis(t), t.TempDir()
	if os.Getuid() != 0 || syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m") != nil {
		t.Skip("cannot mount a small file system")
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	h := start(t, at(server), "a", disk)
	ballast, err := os.Create(disk + "/ballast")
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	ballast.Close()
	plenty := youtube()
	plenty.Limits[0].Units = 10_000
	h.configure(plenty, slidinglog.Policy{})
	granted := quota.Units(0)
	for h.ledger.Health(context.Background()).Unwritten == nil {
		h.granted("videos.list")
		granted++
	}
	if err := os.Remove(ballast.Name()); err != nil {
		t.Fatal(err)
	}
	h.eventually(func() bool { return h.ledger.Health(context.Background()).Unwritten == nil })
	server.Order(t, "FLUSHALL")
	h.used(granted)
}

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
	if _, err := h.service.Settle(t.Context(), ids[0], 0, quota.Caller{}); err != nil {
		t.Errorf("a grant of the outage cannot be released during it: %v", err)
	}
	server.Process.Signal(syscall.SIGCONT)
	if e := h.await(redisledger.Up); e.Units != 5 {
		t.Errorf("%d units were booked back, want 5", e.Units)
	}
	// One search was granted, another's outcome was unknown and is released with
	// the next acquire; of the outage's five one was released.
	h.granted("search.list")
	h.used(10 + 4 + 10)
	page, _, err := h.service.Log(t.Context(), "youtube", quota.LogQuery{})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Entries {
		if e.Operation == "videos.list" && e.At.Equal(granted) {
			return
		}
	}
	t.Errorf("%s was not booked with its own time: %+v", ids[4], page.Entries)
}

func TestOutageSurvivesTheDaemon(t *testing.T) {
	server, dir := emptyRedis(t), t.TempDir()
	h := start(t, server, "a", dir)
	h.granted("search.list")
	server.Kill()
	for {
		if d := h.acquire("videos.list", "page-1"); d.Outage {
			break
		}
	}
	h.granted("videos.list")
	h.stop()

	h = start(t, server, "a", dir)
	again := h.acquire("videos.list", "page-1")
	if !again.Replayed || !again.Outage {
		t.Errorf("got %+v after a restart, want the same grant again", again)
	}
	for range 3 {
		h.granted("videos.list")
	}
	h.refused("videos.list") // the cap is the outage's, not the daemon's
	server.Run(t)            // empty: it never wrote anything down
	h.awaitUp()
	h.used(15)
	if d := h.acquire("videos.list", "page-1"); !d.Replayed || d.GrantID != again.GrantID {
		t.Errorf("got %+v after booking back, want the grant %s", d, again.GrantID)
	}
}

// The allowance is for a window, not for an outage: what an outage took is not there in
// the next one. Nor is what was spent before.
func TestAllowanceOfTwoOutages(t *testing.T) {
	server := emptyRedis(t)
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
	server := emptyRedis(t)
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
	server, dir := emptyRedis(t), t.TempDir()
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
		func() { h.service.Health(t.Context()) },
		func() { _, _, _ = h.service.Usage(t.Context(), "youtube") },
		func() { h.offline("videos.list") },
		func() {
			_, _ = h.service.Peek(t.Context(), "youtube", quota.Calls{Count: map[string]quota.Units{"videos.list": 1}}, nil, false)
		},
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

// The file is read again during an outage: the new allowance decides from then on, what the
// old one granted counts against it, and all of it is booked in the end.
func TestReloadDuringAnOutage(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("search.list")
	if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.refused("search.list")
	h.granted("videos.list")
	h.granted("videos.list")
	set := func(operation string, units quota.Units) {
		c := youtube()
		c.Limits = append(c.Limits, quota.Limit{Name: "hour", Units: 1000, Window: quota.Sliding(time.Hour)})
		policy := redisledger.Policy{Open: map[string]bool{operation: true}, Units: units}
		h.ledger.SetCredentials([]*quota.Credential{c}, map[string]redisledger.Policy{"youtube": policy})
		if err := h.service.SetCredentials([]*quota.Credential{c}); err != nil {
			t.Fatal(err)
		}
	}
	set("videos.list", 3)
	h.granted("videos.list")
	h.refused("videos.list")
	set("search.list", 20)
	h.refused("videos.list")
	h.granted("search.list")
	server.Process.Signal(syscall.SIGCONT)
	h.awaitUp()
	u, _, err := h.service.Usage(t.Context(), "youtube")
	if err != nil || u.Limits[0].Used != 10+3+10 || u.Limits[1].Used != 10+3+10 {
		t.Errorf("got %+v, %v; want 23 units in either limit", u, err)
	}
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
	h.await(redisledger.Down)
	if health = h.service.Health(t.Context()); health.Reachable || health.State == "ok" {
		t.Errorf("got %+v of a dead ledger", health)
	}
}

// In an outage, too, as many calls are granted as the allowance has room for, and booked.
func TestOutageGrantsAsManyAsFit(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("search.list")
	if err := server.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.refused("search.list")
	r := quota.Request{Credential: "youtube", Operation: "videos.list", Count: 9, AtMost: true, RequestID: "nine"}
	first, err := h.service.Acquire(t.Context(), r)
	if err != nil || !first.Outage || first.Count != 5 || first.Units != 5 {
		t.Fatalf("got %+v, %v, want the five calls of the allowance", first, err)
	}
	if again, err := h.service.Acquire(t.Context(), r); err != nil || !again.Replayed || again.GrantID != first.GrantID || again.Count != 5 {
		t.Errorf("got %+v, %v, want the same five again", again, err)
	}
	h.refused("videos.list")
	server.Process.Signal(syscall.SIGCONT)
	if e := h.await(redisledger.Up); e.Units != 5 {
		t.Errorf("%d units were booked back, want 5", e.Units)
	}
}

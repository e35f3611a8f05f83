package redisledger_test

import (
	"strings"
	"syscall"
	"testing"
	"time"

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

	h = begin(t, server.Addr, "a", dir)
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

// A call that is larger than what is left for the outage does not say that all of it is spent.
func TestOutageSaysWhatIsLeft(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	server.Kill()
	for range 2 {
		for !h.offline("videos.list") {
		}
	}
	_, err := h.service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 4})
	if want := "of the 5 units for an outage of the ledger 3 are left, and 4 are asked"; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	_, err = h.service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 99})
	if want := `limit "daily" had no room for 99 units when the ledger last answered`; err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
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
		policy := slidinglog.Policy{Open: map[string]bool{operation: true}, Units: units}
		h.configure(c, policy)
	}
	set("videos.list", 3)
	h.granted("videos.list")
	h.refused("videos.list")
	set("search.list", 20)
	h.refused("videos.list")
	h.granted("search.list")
	server.Process.Signal(syscall.SIGCONT)
	h.awaitUp()
	u, err := h.service.Usage(t.Context(), "youtube")
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
	h.await(slidinglog.Down)
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
	if e := h.await(slidinglog.Up); e.Units != 5 {
		t.Errorf("%d units were booked back, want 5", e.Units)
	}
}

// What was granted in an outage and settled to more in it is booked, and comes back so after a
// loss.
func TestSettledInAnOutageThenLost(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("search.list")
	server.Kill()
	h.refused("search.list")
	h.settle(h.granted("videos.list"), 70)
	server.Run(t) // empty
	h.awaitUp()
	h.used(10 + 70)
	server.Order(t, "FLUSHALL")
	h.await(slidinglog.LostLog)
	h.awaitUp()
	h.used(10 + 70)
}

// A restart in an outage knows all that was used, also what was granted just before.
func TestRestartInAnOutageKnowsWhatIsUsed(t *testing.T) {
	server, dir := emptyRedis(t), t.TempDir()
	h := start(t, server, "a", dir)
	for range 10 {
		h.granted("search.list")
	}
	server.Kill()
	h.stop()
	h = begin(t, server.Addr, "a", dir)
	h.refused("videos.list")
}

// A limit that a reload adds in an outage counts what was granted before.
func TestLimitAddedInAnOutageCounts(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("search.list")
	h.granted("search.list")
	server.Kill()
	h.refused("search.list")
	c := youtube()
	c.Limits = append(c.Limits, quota.Limit{Name: "hour", Units: 21, Window: quota.Sliding(time.Hour)})
	h.configure(c, slidinglog.Policy{Open: map[string]bool{"videos.list": true}, Units: 5})
	h.granted("videos.list")
	h.refused("videos.list")
}

// While Redis is away a peek says of a closed limit what an acquire does.
func TestPeekOfAClosedLimitInAnOutage(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("videos.list")
	h.closeDaily(time.Now().Add(20 * time.Hour))
	server.Kill()
	h.await(slidinglog.Down)
	d, err := h.service.Peek(t.Context(), "youtube", quota.Calls{Count: map[string]quota.Units{"videos.list": 1}}, nil, false)
	if err != nil || d.Reason != quota.LimitClosed {
		t.Errorf("got %+v, %v; want limit_closed", d, err)
	}
}

// A reply is lost, and the outage that this is decides the request again, for fewer calls: it is
// one request, and charged once, as the greater.
func TestLostReplyThenAnOutage(t *testing.T) {
	server := emptyRedis(t)
	h := start(t, server, "a", t.TempDir())
	h.granted("videos.list")
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	// Redis reads the call when it goes on: it is carried out, and its reply reaches nobody.
	r := quota.Request{Credential: "youtube", Operation: "videos.list", Count: 9, AtMost: true, RequestID: "nine"}
	if d, err := h.service.Acquire(t.Context(), r); err == nil && d.Count > 5 {
		t.Fatalf("got %+v, want that nobody knows, or the allowance", d)
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
	h.awaitUp()
	d, err := h.service.Acquire(t.Context(), r)
	if err != nil || !d.Granted() {
		t.Fatalf("got %+v, %v; want the grant", d, err)
	}
	h.used(1 + d.Units)
}

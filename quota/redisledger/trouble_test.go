package redisledger_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

const logKey = "quotad:{youtube}:log"

// What another version wrote is refused with the way out, by an old host and by a new one. It
// is no outage: nothing is granted beside it.
func TestLogOfAnotherVersion(t *testing.T) {
	newer := strings.Repeat("t", 12) + "\xff" + strings.Repeat("r", 30)
	for name, entry := range map[string][]string{
		"a record that is newer":       {"r", newer},
		"what a version before wrote":  {"k", "grant", "u", "1"},
		"a record that has no version": {"r", "short"},
	} {
		t.Run(name, func(t *testing.T) {
			server := emptyRedis(t)
			h := start(t, server, "a", t.TempDir())
			h.granted("videos.list")
			server.Do(t, append([]string{"XADD", logKey, "*"}, entry...)...)
			for _, h := range []*daemon{h, begin(t, server.Addr, "b", t.TempDir())} {
				h.await(slidinglog.Down)
				_, err := h.service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
				if err == nil || !strings.Contains(err.Error(), "another version of quotad") || !strings.Contains(err.Error(), "key_prefix") {
					t.Errorf("got %v, want that another version wrote to the log, and the way out", err)
				}
				if health := h.ledger.Health(t.Context()); health.Reachable || !strings.Contains(health.State, "another version") {
					t.Errorf("the ledger is said to be %+v", health)
				}
			}
		})
	}
}

// Hosts that count otherwise are named to each other, with what they differ in.
func TestHostsThatCountOtherwiseAreTold(t *testing.T) {
	server := emptyRedis(t)
	a, b := start(t, server, "a", t.TempDir()), start(t, server, "b", t.TempDir())
	warned := func(h *daemon) string {
		h.used(0) // it looks at the log
		return strings.Join(h.ledger.Health(t.Context()).Hosts, "\n")
	}
	if text := warned(a) + warned(b); strings.Contains(text, "differently") {
		t.Errorf("of hosts that agree it is said %q", text)
	}
	c := youtube()
	c.Limits[0].Units, c.Operations["search.list"] = 200, quota.Cost{Every: 100}
	b.configure(c, slidinglog.Policy{})
	for _, h := range []*daemon{a, b} { // each as soon as it has heard of the other
		h.eventually(func() bool { return strings.Contains(warned(h), "differently") })
	}
	for h, want := range map[*daemon]string{
		a: "host b shares the ledger and counts differently: limit daily: 200 units in any 24h, here 100 units in any 24h; operation search.list: 100 units, here 10 units",
		b: "host a shares the ledger and counts differently: limit daily: 100 units in any 24h, here 200 units in any 24h; operation search.list: 10 units, here 100 units",
	} {
		if text := warned(h); !strings.Contains(text, want) {
			t.Errorf("warned %q, want %q", text, want)
		}
	}
	b.configure(youtube(), slidinglog.Policy{})
	a.eventually(func() bool { return !strings.Contains(warned(a), "differently") })
}

// A copy that is missing, or older than it was, is made whole from Redis: nothing is granted
// twice, and nothing is taken for lost.
func TestCopyOfAnotherTime(t *testing.T) {
	server, dir := emptyRedis(t), t.TempDir()
	older := t.TempDir()
	h := start(t, server, "a", dir)
	for range 3 {
		h.granted("search.list")
	}
	h.stop()
	if err := os.CopyFS(older, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	h = start(t, server, "a", dir)
	d := h.acquire("search.list", "the call")
	h.granted("search.list")
	h.stop()
	for name, dir := range map[string]string{"older": older, "missing": t.TempDir()} {
		h := begin(t, server.Addr, "a", dir)
		h.serves()
		h.used(50)
		if again := h.acquire("search.list", "the call"); !again.Replayed || again.GrantID != d.GrantID {
			t.Errorf("%s: asked again, %+v, want grant %s", name, again, d.GrantID)
		}
		for len(h.events) > 0 {
			if e := <-h.events; e.Kind == slidinglog.LostLog || e.Kind == slidinglog.Restored {
				t.Errorf("%s: %+v", name, e)
			}
		}
		h.stop()
	}
}

// The copy of a log in one Redis is not put into another one unasked.
func TestCopyOfAnotherRedis(t *testing.T) {
	server, other, dir := emptyRedis(t), redistest.Start(t), t.TempDir()
	h := beginOn(t, redisledger.Config{Addrs: []string{server.Addr}}, "a", dir, "")
	h.serves()
	h.granted("search.list")
	h.stop()
	for name, config := range map[string]redisledger.Config{
		"server":     {Addrs: []string{other.Addr}},
		"key prefix": {Addrs: []string{server.Addr}, KeyPrefix: "elsewhere:"},
	} {
		h := beginOn(t, config, "a", dir, "")
		h.await(slidinglog.Down)
		_, err := h.service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
		if err == nil || !strings.Contains(err.Error(), "is not the log that this host has a copy of") || !strings.Contains(err.Error(), "set it back") {
			t.Errorf("another %s: %v, want a refusal with its cure", name, err)
		}
		h.stop()
	}
	if n := other.Do(t, "EXISTS", logKey); n != int64(0) {
		t.Errorf("something was written to the other server: %v", n)
	}
}

// A disk that is full on one of three hosts is that host's trouble alone: it answers 503
// before anything is debited, and goes on when there is room.
func TestFullDiskOfOneHost(t *testing.T) {
	server, disk := emptyRedis(t), t.TempDir()
	if os.Getuid() != 0 || syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=8m") != nil {
		t.Skip("cannot mount a small file system")
	}
	t.Cleanup(func() { syscall.Unmount(disk, syscall.MNT_DETACH) })
	a, b, c := start(t, server, "a", disk), start(t, server, "b", t.TempDir()), start(t, server, "c", t.TempDir())
	a.granted("videos.list")
	ballast, err := os.Create(filepath.Join(disk, "ballast"))
	if err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = ballast.Write(make([]byte, 4096))
	}
	ballast.Close()
	a.granted("videos.list")
	for room := 1 << 20; a.file.Room("youtube", 1<<20) != nil && a.file.Room("another", room) != nil; {
		room -= 8 << 10 // until another credential has what the tail has left
	}
	_, err = a.service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
	if !errors.Is(err, quota.ErrUnavailable) || !strings.Contains(err.Error(), "free space on the disk") {
		t.Errorf("on a full disk: %v", err)
	}
	hear(2, b, c)
	b.granted("videos.list")
	c.granted("videos.list")
	if err := os.Remove(ballast.Name()); err != nil {
		t.Fatal(err)
	}
	a.granted("videos.list")
	hear(5, a, b, c)
}

// A host looks at its files once a second. Whatever happens to one of them in between, nothing that it answers
// until then is missing from Redis, and the next answer names the file.
func TestFilesOfAHostBetweenTwoLooks(t *testing.T) {
	write := func(path string) error { return os.WriteFile(path, []byte("another"), 0o600) }
	for name, row := range map[string]struct {
		suffix string
		do     func(path string) error
	}{
		"tables removed":  {"", os.Remove},
		"tables replaced": {"", func(path string) error { return errors.Join(os.Remove(path), write(path)) }},
		"tables cut":      {"", func(path string) error { return os.Truncate(path, 8192) }},
		"tail moved":      {".tail0", func(path string) error { return os.Rename(path, path+".old") }},
		"tail replaced":   {".tail1", func(path string) error { return errors.Join(os.Remove(path), write(path)) }},
	} {
		t.Run(name, func(t *testing.T) {
			server, dir := emptyRedis(t), t.TempDir()
			a, b := start(t, server, "a", dir), start(t, server, "b", t.TempDir())
			plenty := youtube()
			plenty.Limits[0].Units = 100_000_000
			for _, h := range []*daemon{a, b} {
				h.configure(plenty, slidinglog.Policy{})
			}
			a.granted("videos.list")
			if err := row.do(filepath.Join(dir, "ledger.db"+row.suffix)); err != nil {
				t.Fatal(err)
			}
			answered := quota.Units(1)
			for {
				d, err := a.service.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
				if err == nil && d.Granted() {
					answered++
				} else if errors.Is(err, quota.ErrUnavailable) && strings.Contains(err.Error(), filepath.Join(dir, "ledger.db"+row.suffix)) {
					break
				} else if !errors.Is(err, quota.ErrContended) {
					t.Fatal(d, err)
				}
			}
			t.Logf("%d were answered", answered)
			// What could not be answered may be in the log, too, and is released when the host is well.
			b.eventually(func() bool { return b.usage() >= answered })
			if more := b.usage() - answered; more > 1 {
				t.Errorf("%d units more than answered", more)
			}
		})
	}
}

// A clock of Redis that is set back by a minute, and forward by a day and back, grants nothing
// twice; a reset begins at the clock again.
func TestClockOfRedisIsSet(t *testing.T) {
	t.Parallel()
	clock := redistest.NewClock(t)
	if clock == nil {
		t.Skip("needs a C compiler")
	}
	server := redistest.StartOn(t, clock)
	a, b := start(t, server, "a", t.TempDir()), start(t, server, "b", t.TempDir())
	for range 9 {
		a.granted("search.list")
	}
	clock.Step(t, -time.Minute)
	b.granted("search.list")
	if d := a.acquire("search.list", ""); d.Granted() {
		t.Errorf("with the clock set back: %+v", d)
	}
	hear(100, a, b)
	clock.Step(t, 25*time.Hour) // all is older than a day now
	a.eventually(func() bool { return b.usage() == 0 })
	a.eventually(func() bool { return a.acquire("search.list", "").Granted() }) // its denial is remembered for a second
	clock.Step(t, -25*time.Hour)
	for range 9 {
		b.granted("search.list")
	}
	if d := a.acquire("search.list", ""); d.Granted() {
		t.Errorf("with the clock set right: %+v", d)
	}
	a.eventually(func() bool {
		return strings.Contains(strings.Join(a.ledger.Health(t.Context()).Clock, "\n"), "ahead of the clock")
	})
	if _, err := a.service.Reset(t.Context(), "youtube", quota.Caller{UID: 0}, "the clock was wrong"); err != nil {
		t.Fatal(err)
	}
	for _, h := range []*daemon{a, b} {
		h.eventually(func() bool { return h.usage() == 0 })
	}
	b.granted("search.list")
	hear(10, a, b)
	if warned := strings.Join(a.ledger.Health(t.Context()).Clock, "\n"); strings.Contains(warned, "ahead of the clock") {
		t.Errorf("after a reset: %s", warned)
	}
}

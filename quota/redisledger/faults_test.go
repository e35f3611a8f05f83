package redisledger_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
)

// Keys are deleted, in whatever way, while callers ask: nothing is granted twice.
func TestLostKeys(t *testing.T) {
	for name, lose := range map[string][]string{
		"FLUSHALL":      {"FLUSHALL"},
		"entries alone": {"DEL", "quotad:{youtube}:entries"},
		"state alone":   {"DEL", "quotad:{youtube}:state"},
	} {
		t.Run(name, func(t *testing.T) {
			server := emptyRedis(t)
			s := newSpree(t, at(server), at(server))
			for _, n := range []int64{100, 200} {
				s.spent(n)
				server.Do(t, lose...)
			}
			s.full(name, 0)
		})
	}
}

// FLUSHALL beside a host that is dead for longer than a poll, and with a host that is new.
func TestFlushBesideADeadHost(t *testing.T) {
	server := emptyRedis(t)
	s := newSpree(t, at(server), at(server))
	s.spent(150)
	dead := s.hosts[1]
	dead.stop() // its callers are refused from now on
	time.Sleep(2500 * time.Millisecond)
	server.Do(t, "FLUSHALL")
	fresh := s.host(at(server), "new", t.TempDir())
	s.hosts = append(s.hosts, fresh)
	s.asks(fresh)
	s.full("beside a dead host, with a new one", 0)
}

// Redis begins again with an older snapshot, and the first to ask is a host that is new.
func TestOlderSnapshot(t *testing.T) {
	server := emptyRedis(t)
	s := newSpree(t, at(server), at(server))
	s.spent(100)
	server.Order(t, "SAVE")
	s.spent(250)
	server.Kill()
	server.Run(t)
	fresh := s.host(at(server), "new", t.TempDir())
	s.hosts = append(s.hosts, fresh)
	s.asks(fresh)
	s.full("an older snapshot", 0)
}

// Redis evicts what it likes.
func TestEviction(t *testing.T) {
	server := emptyRedis(t)
	s := newSpree(t, at(server), at(server))
	s.spent(150)
	server.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-random")
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	for range 50 { // each command that writes evicts
		server.Try("SET", "x", "y")
	}
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	s.full("eviction", 0)
}

// Redis has no memory in the middle of a spree, and then it has.
func TestNoMemory(t *testing.T) {
	server := emptyRedis(t)
	s := newSpree(t, at(server), at(server))
	s.spent(100)
	server.Do(t, "CONFIG", "SET", "maxmemory", "1")
	s.hosts[0].eventually(func() bool {
		_, err := s.hosts[0].tryOnce("videos.list", "")
		return err != nil && strings.Contains(err.Error(), "OOM")
	})
	server.Do(t, "CONFIG", "SET", "maxmemory", "0")
	s.full("no memory", 0)
}

// Redis is frozen for longer than a deadline: what arrives late is not carried out, what is, counts once.
func TestFrozenForLong(t *testing.T) {
	server := emptyRedis(t)
	s := newSpree(t, at(server), at(server))
	s.spent(100)
	for range 2 {
		if err := server.Freeze(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2500 * time.Millisecond)
		if err := server.Thaw(); err != nil {
			t.Fatal(err)
		}
		s.spent(s.told.Load() + 50)
	}
	s.full("a frozen Redis", 0)
	for _, h := range s.hosts {
		h.used(spreeUnits)
	}
}

// A master whose replica lacks the newest writes dies, and the replica takes its place behind one address.
func TestReplicaThatLacksWrites(t *testing.T) {
	server := emptyRedis(t)
	other := redistest.Start(t)
	a, b := redistest.NewProxy(t, server), redistest.NewProxy(t, server)
	s := newSpree(t, redisledger.Config{Addrs: []string{a.Addr}}, redisledger.Config{Addrs: []string{b.Addr}})
	s.spent(100)
	for _, key := range []string{"quotad:{youtube}:entries", "quotad:{youtube}:state"} { // at one time, or it is damaged
		other.Do(t, "RESTORE", key, "0", server.Do(t, "DUMP", key).(string))
	}
	s.spent(250)
	a.Lead(other)
	b.Lead(other)
	server.Kill()
	s.full("a replica that lacks writes", 0)
}

// The first try of a settlement is carried out after a second one: the one that was answered counts.
func TestFirstTryAfterTheSecond(t *testing.T) {
	server := emptyRedis(t)
	proxy := redistest.NewProxy(t, server)
	h := start(t, redisledger.Config{Addrs: []string{proxy.Addr}}, "a", t.TempDir())
	near := start(t, at(server), "b", t.TempDir())
	d := h.granted("search.list")
	proxy.Disturb(func(command []string) redistest.Fault {
		if redistest.IsScript(command) && strings.Contains(strings.Join(command, " "), "\nsettle ") {
			return redistest.Stray
		}
		return redistest.Pass
	})
	settle := func(h *daemon, units quota.Units) error {
		_, err := h.service.Settle(t.Context(), d.GrantID, quota.Settlement{Units: units})
		return err
	}
	if err := settle(h, 1); err == nil {
		t.Fatal("a settlement that did not arrive is answered")
	}
	if err := settle(near, 7); err != nil {
		t.Fatal(err)
	}
	proxy.Disturb(func([]string) redistest.Fault { return redistest.Pass })
	proxy.Release()
	h.used(7)
}

// A slot of a Cluster moves to another node while callers ask.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	config := redisledger.Config{Addrs: []string{nodes[0].Addr, nodes[1].Addr}}
	s := newSpree(t, config, config)
	s.spent(100)
	slot := fmt.Sprint(nodes[0].Do(t, "CLUSTER", "KEYSLOT", "{youtube}"))
	from := 0
	for i, node := range nodes {
		if n := node.Do(t, "CLUSTER", "COUNTKEYSINSLOT", slot); n != int64(0) {
			from = i
		}
	}
	redistest.MoveSlot(t, nodes[from], nodes[(from+1)%3], slot)
	s.spent(200)
	s.full("a slot that moves", 0)
}

// A journal that was put away, with a Redis that kept its data, is no loss; an older one is refused.
func TestJournalOfAnotherTime(t *testing.T) {
	server, dir := emptyRedis(t), t.TempDir()
	h := start(t, at(server), "a", dir)
	d, err := h.tryOnce("search.list", "the call")
	if err != nil {
		t.Fatal(err)
	}
	h.stop()
	if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "old")); err != nil {
		t.Fatal(err)
	}
	h = start(t, at(server), "a", dir)
	if again, err := h.tryOnce("search.list", "the call"); err != nil || !again.Replayed || again.GrantID != d.GrantID {
		t.Errorf("asked again: %+v, %v, want grant %s", again, err, d.GrantID)
	}
	h.used(10)
}

// The clock of Redis is set back by an hour, and forward and back: nothing is granted twice.
func TestClockOfRedisIsSet(t *testing.T) {
	t.Parallel()
	for name, steps := range map[string][]time.Duration{
		"back": {-time.Hour}, "forward and back": {time.Hour, -time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			clock := redistest.NewClock(t)
			if clock == nil {
				t.Skip("needs a C compiler")
			}
			t.Parallel()
			server := redistest.StartOn(t, clock)
			s := newSpree(t, at(server), at(server))
			for i, step := range steps {
				s.spent(int64(100 * (i + 1)))
				clock.Step(t, step)
			}
			s.full("the clock steps "+name, 0)
		})
	}
}

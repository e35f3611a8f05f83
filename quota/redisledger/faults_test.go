package redisledger

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
)

// A host is a daemon as far as its ledger goes, which is as it is put together in production.
type host struct {
	ledger  *slidinglog.Ledger
	service *quota.Service
}

// open opens a host that grants units a day, with its journal in dir.
func open(t testing.TB, config Config, name, dir string, units quota.Units) *host {
	t.Helper()
	config.Deadline = 2 * time.Second // so that a busy machine does not pass for an outage
	store, err := OpenStore(config)
	if err != nil {
		t.Fatal(err)
	}
	h := &host{ledger: slidinglog.Open(slidinglog.Config{Engine: store, Dir: filepath.Join(dir, name), Name: name,
		Deadline: config.Deadline})}
	t.Cleanup(func() { h.ledger.Close() })
	h.service, err = quota.NewService(h.ledger, []*quota.Credential{{
		Name: "youtube", Operations: map[string]quota.Cost{"videos.list": {Every: 1}},
		Limits: []quota.Limit{{Name: "daily", Units: units, Window: quota.Sliding(24 * time.Hour)}},
	}}, config.Deadline)
	if err == nil {
		err = h.ledger.SetCredentials(h.service.Credentials(), nil)
	}
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func (h *host) acquire() (quota.Decision, error) {
	return h.service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
}

// .ci/nightly counts the functions that a thousand grants call a thousand times: a stranger can hold them in mind.
func TestThousandGrants(t *testing.T) {
	h := open(t, Config{Addrs: []string{redistest.Start(t).Addr}}, "here", t.TempDir(), 1000)
	h.ledger.Await(t.Context())
	for n := range 1001 {
		if d, err := h.acquire(); err != nil || d.Granted() != (n < 1000) {
			t.Fatal(n, d, err)
		}
	}
}

// A scene is hosts whose callers ask for units all the time, while something happens to Redis.
type scene struct {
	*testing.T
	units   quota.Units // that there are
	dir     string
	hosts   []*host
	told    atomic.Int64
	asking  sync.WaitGroup
	ctx     context.Context
	stop    context.CancelFunc
	server  *redistest.Server  // of TestFaults
	proxies []*redistest.Proxy // each host's way to it
}

// begin starts hosts, each with a caller.
func (s *scene) begin(t *testing.T, units quota.Units, configs ...Config) {
	s.T, s.units, s.dir = t, units, t.TempDir()
	s.ctx, s.stop = context.WithCancel(t.Context())
	t.Cleanup(func() {
		s.stop()
		s.asking.Wait()
	})
	for _, config := range configs {
		s.join(config).ledger.Await(t.Context())
	}
}

// join adds a host with a caller who asks it from now on.
func (s *scene) join(config Config) *host {
	h := open(s, config, fmt.Sprint("host", len(s.hosts)), s.dir, s.units)
	s.hosts = append(s.hosts, h)
	s.asking.Go(func() {
		for quota.Sleep(s.ctx, 5*time.Millisecond) {
			s.ask(h)
		}
	})
	return h
}

// ask has a host decide about a unit.
func (s *scene) ask(h *host) (quota.Decision, error) {
	d, err := h.acquire()
	if err == nil && d.Granted() {
		s.told.Add(1)
	}
	return d, err
}

// spent waits until so many units were told.
func (s *scene) spent(n int64) {
	s.Helper()
	redistest.Until(s, fmt.Sprint(n, " units are spent"), func() bool { return s.told.Load() >= n })
}

// full waits until all is spent on each host, and returns by how much it is over.
func (s *scene) full() (over int64) {
	s.Helper()
	for _, h := range s.hosts {
		redistest.Until(s, "all is spent", func() bool {
			d, err := s.ask(h)
			return err == nil && d.Denied()
		})
	}
	s.stop()
	s.asking.Wait()
	return max(0, s.told.Load()-int64(s.units))
}

// refuses waits until a host refuses with these words.
func (s *scene) refuses(words string) {
	s.Helper()
	redistest.Until(s, "a host says "+words, func() bool {
		_, err := s.ask(s.hosts[0])
		return err != nil && strings.Contains(err.Error(), words)
	})
}

const entries, state = "quotad:{youtube}:entries", "quotad:{youtube}:state"

// copied has a server have the log as it is on another one: what an asynchronous replica has.
func copied(t testing.TB, from, to *redistest.Server) {
	t.Helper()
	for _, key := range []string{entries, state} {
		to.Do(t, "RESTORE", key, "0", from.Do(t, "DUMP", key).(string))
	}
}

// replaced has a replica without the newest writes take the place of its master behind the addresses.
func replaced(end func(*scene)) func(*scene) {
	return func(s *scene) {
		replica := redistest.Start(s)
		copied(s, s.server, replica)
		s.spent(250)
		for _, p := range s.proxies {
			p.Lead(replica)
		}
		end(s)
	}
}

var faults = map[string]func(*scene){
	"FLUSHALL": func(s *scene) {
		s.server.Order(s, "FLUSHALL")
		s.spent(200)
		s.server.Order(s, "FLUSHALL")
	},
	"an older snapshot": func(s *scene) {
		s.server.Order(s, "SAVE")
		s.spent(250)
		s.server.Kill()
		s.server.Run(s)
	},
	"eviction": func(s *scene) {
		s.server.Order(s, "CONFIG SET maxmemory-policy allkeys-random")
		s.server.Order(s, "CONFIG SET maxmemory 1")
		for range 50 { // each command that writes evicts
			s.server.Try("SET", "x", "y")
		}
		s.server.Order(s, "CONFIG SET maxmemory 0")
	},
	"no memory": func(s *scene) {
		s.server.Order(s, "CONFIG SET maxmemory 1")
		s.refuses("OOM")
		s.server.Order(s, "CONFIG SET maxmemory 0")
	},
	"a script that does not end": func(s *scene) {
		s.server.Order(s, "CONFIG SET lua-time-limit 1")
		s.asking.Go(func() { s.server.Try("EVAL", "while true do end", "0") })
		s.refuses("SCRIPT KILL")
		s.server.Order(s, "SCRIPT KILL")
	},
	"frozen for longer than a deadline": func(s *scene) {
		for range 2 {
			s.server.Freeze()
			time.Sleep(2500 * time.Millisecond)
			s.server.Thaw()
			s.spent(s.told.Load() + 50)
		}
	},
	"a master dies":       replaced(func(s *scene) { s.server.Kill() }),
	"a master is demoted": replaced(func(s *scene) { s.server.Order(s, "REPLICAOF 127.0.0.1 1") }),
}

// Whatever happens to Redis while callers of two hosts ask, and a third one joins: nothing is granted twice, and all is
// granted in the end.
func TestFaults(t *testing.T) {
	t.Parallel()
	for name, happens := range faults {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &scene{server: redistest.Start(t)}
			var configs []Config
			for range 2 {
				p := redistest.NewProxy(t, s.server)
				s.proxies, configs = append(s.proxies, p), append(configs, Config{Addrs: []string{p.Addr}})
			}
			s.begin(t, 400, configs...)
			s.spent(100)
			happens(s)
			s.join(configs[0])
			if over := s.full(); over > 0 {
				t.Errorf("over by %d", over)
			}
		})
	}
}

// A slot of a Cluster moves to another node, and back, while callers ask. Connections that there are declare it there.
func TestSlotMoves(t *testing.T) {
	t.Parallel()
	nodes := redistest.StartCluster(t)
	config := Config{Addrs: []string{nodes[0].Addr, nodes[1].Addr}}
	s := &scene{}
	s.begin(t, 400, config, config)
	s.spent(100)
	calm := openAt(t, Config{Addrs: config.Addrs, KeyPrefix: "calm:", Deadline: hanging})
	connect := func(ctx context.Context, node *redis.Client) error { return node.Ping(ctx).Err() }
	err := errors.Join(put(t.Context(), calm, "a"), calm.current().(*redis.ClusterClient).ForEachMaster(t.Context(), connect))
	if err != nil {
		t.Fatal(err)
	}
	slot := fmt.Sprint(nodes[0].Do(t, "CLUSTER", "KEYSLOT", "{youtube}"))
	from := slices.IndexFunc(nodes, func(node *redistest.Server) bool {
		return node.Do(t, "CLUSTER", "COUNTKEYSINSLOT", slot) != int64(0)
	})
	to, epoch := (from+1)%3, any("epoch")
	for n := range int64(2) {
		look := func() {
			if !has(t, calm, "a") {
				t.Error("the log is not there")
			}
		}
		redistest.MoveSlot(t, nodes[from], nodes[to], slot, look)
		look()
		now := nodes[to].Do(t, "HGET", calm.keys("youtube")[1], "epoch")
		if now == epoch {
			t.Errorf("move %d: the other node was not declared", n)
		}
		s.spent(200 + 100*n)
		from, to, epoch = to, from, now
	}
	if over := s.full(); over > 0 {
		t.Errorf("over by %d", over)
	}
}

// Sentinels replace the master while hosts spend: with min-replicas-to-write nothing is granted twice. By night, as often
// as QUOTAD_TEST_LONG says.
func TestOrderedFailovers(t *testing.T) {
	t.Parallel()
	w := redistest.StartSentinels(t, 3, 2, "--min-replicas-to-write", "1", "--min-replicas-max-lag", "2")
	for round := range seedtest.Long(t, 1) {
		w.Settled(t)
		var configs []Config
		for i := range 2 { // each host asks another Sentinel first: they learn of the new master at different times
			config := Config{MasterName: w.Name, KeyPrefix: fmt.Sprintf("round%d:", round)}
			for n := range w.Sentinels {
				config.Addrs = append(config.Addrs, w.Sentinels[(n+i)%3].Addr)
			}
			configs = append(configs, config)
		}
		s := &scene{}
		s.begin(t, 1200, configs...)
		s.spent(300)
		w.Failover(t)
		if over := s.full(); over > 0 {
			t.Errorf("round %d: over by %d", round, over)
		}
		for _, h := range s.hosts {
			h.ledger.Close()
		}
	}
}

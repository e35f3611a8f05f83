package redisledger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/boltledger"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// farAway returns an address from which a server is half of a round trip away.
func farAway(t *testing.T, server *redistest.Server, roundTrip time.Duration) (addr string) {
	t.Helper()
	if roundTrip == 0 {
		return server.Addr
	}
	dir, err := os.MkdirTemp("", "far")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	addr = filepath.Join(dir, "s")
	listener, err := net.Listen("unix", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			far, err := net.Dial("unix", strings.TrimPrefix(server.Addr, "unix://"))
			if err != nil {
				near.Close()
				continue
			}
			go carry(far, near, roundTrip/2)
			go carry(near, far, roundTrip/2)
		}
	}()
	return "unix://" + addr
}

// carry carries what comes from one connection to another, late.
func carry(to, from net.Conn, late time.Duration) {
	type part struct {
		text []byte
		at   time.Time
	}
	under := make(chan part, 10_000)
	go func() {
		defer close(under)
		for {
			text := make([]byte, 64<<10)
			n, err := from.Read(text)
			if err != nil {
				return
			}
			under <- part{text[:n], time.Now().Add(late)}
		}
	}()
	for p := range under {
		time.Sleep(time.Until(p.at))
		if _, err := to.Write(p.text); err != nil {
			break
		}
	}
	to.Close()
	from.Close()
	io.Copy(io.Discard, from)
}

// A farHost is a daemon as far as ledgers go, with the times of a daemon.
type farHost struct {
	service *quota.Service
	ledger  *slidinglog.Ledger
	clients *clientlimit.Service
}

func startFarHost(t *testing.T, addr, name string, deadline time.Duration) *farHost {
	t.Helper()
	file, err := boltledger.Open(boltledger.Config{Path: filepath.Join(t.TempDir(), "ledger.db"), AcceptNew: true})
	if err != nil {
		t.Fatal(err)
	}
	store, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{addr}, Deadline: deadline})
	if err != nil {
		t.Fatal(err)
	}
	c := youtube()
	c.Limits[0].Units = 1_000_000_000
	h := &farHost{}
	h.ledger, err = slidinglog.Open(slidinglog.Config{
		File: file, Store: store, Label: name, Deadline: deadline, Credentials: []*quota.Credential{c.Prepared()},
		Policies: map[string]slidinglog.Policy{c.Name: {Open: map[string]bool{"videos.list": true}, Units: 1_000_000}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.ledger.Close() })
	if h.service, err = quota.NewService(h.ledger, []*quota.Credential{c}, deadline); err != nil {
		t.Fatal(err)
	}
	h.clients = clientlimit.NewService(clientlimit.Config{Deadline: deadline, Host: clientlimit.Host{Label: name, ID: func() string { return name }}})
	err = h.clients.SetClients(store, []*clientlimit.Clients{{
		Name: "public", Algorithm: clientlimit.Counter, OpenOnOutage: true,
		Limits: []quota.Limit{{Name: "minute", Units: 1_000_000, Window: quota.Sliding(time.Minute)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	h.ledger.Await(t.Context())
	return h
}

// acquire and client make one call each, and say how it was answered.
func (h *farHost) acquire() string {
	d, err := h.service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
	return answer(d, err)
}

func (h *farHost) client() string {
	d := h.clients.Acquire(context.Background(), "public", clientlimit.Request{Subject: "alice", Count: 1})[0]
	return answer(d, d.Err)
}

func answer(d quota.Decision, err error) string {
	switch {
	case errors.Is(err, quota.ErrContended):
		return "contended"
	case errors.Is(err, quota.ErrRecovering):
		return "recovering"
	case err != nil:
		return "unavailable"
	case d.Outage:
		return "outage"
	case d.Granted():
		return "granted"
	}
	return "denied"
}

// answers are those of some callers, each of whom asks again after a millisecond: who is answered at once
// would else keep the processor from what carries the others' calls.
type answers struct {
	by    map[string]int
	times []time.Duration
}

func ask(during time.Duration, callers []func() string) (a answers) {
	var mu sync.Mutex // guards a
	a.by = make(map[string]int)
	var asking sync.WaitGroup
	end := time.Now().Add(during)
	for _, call := range callers {
		asking.Go(func() {
			for time.Now().Before(end) {
				begun := time.Now()
				how := call()
				took := time.Since(begun)
				mu.Lock()
				a.by[how]++
				a.times = append(a.times, took)
				mu.Unlock()
				time.Sleep(time.Millisecond)
			}
		})
	}
	asking.Wait()
	slices.Sort(a.times)
	return a
}

func (a answers) String() string {
	at := func(part float64) time.Duration {
		return a.times[int(part*float64(len(a.times)-1))].Round(100 * time.Microsecond)
	}
	text := fmt.Sprintf("p50 %v p99 %v max %v", at(0.5), at(0.99), at(1))
	for _, how := range []string{"granted", "outage", "contended", "recovering", "unavailable"} {
		text += fmt.Sprintf(" · %s %d", how, a.by[how])
	}
	return text
}

// TestFarAway measures acquires and client limits of hosts that are far away from Redis, for a duration each. With
// the deadline that the round trip needs, no host takes the distance, or a lost race, for an outage.
func TestFarAway(t *testing.T) {
	during, err := time.ParseDuration(os.Getenv("QUOTAD_TEST_FARAWAY"))
	if err != nil {
		t.Skip("measures for the duration in QUOTAD_TEST_FARAWAY, such as 2s")
	}
	for _, ms := range []time.Duration{0, 2, 7, 10, 50, 110} {
		roundTrip := ms * time.Millisecond
		deadlines := []time.Duration{250 * time.Millisecond}
		if needed := 6 * roundTrip; needed > deadlines[0] {
			deadlines = append(deadlines, needed)
		}
		for _, deadline := range deadlines {
			for _, hosts := range []int{1, 4} {
				for _, callers := range []int{1, 8} {
					t.Run(fmt.Sprintf("%v away, deadline %v, %d hosts of %d callers", roundTrip, deadline, hosts, callers), func(t *testing.T) {
						server := redistest.Start(t)
						var acquires, clients []func() string
						for i := range hosts {
							h := startFarHost(t, farAway(t, server, roundTrip), fmt.Sprint("host ", i), deadline)
							for range callers {
								acquires, clients = append(acquires, h.acquire), append(clients, h.client)
							}
						}
						ask(during/4, clients) // which agree about secrets first
						a, c := ask(during, acquires), ask(during, clients)
						t.Logf("acquires: %v", a)
						t.Logf("clients:  %v", c)
						if deadline >= 6*roundTrip && (a.by["outage"] > 0 || c.by["outage"] > 0) {
							t.Error("the distance was taken for an outage")
						}
					})
				}
			}
		}
	}
}

// Clients are limited, however far away Redis is, if the deadline has room for that.
func TestClientsFarAway(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	store, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{farAway(t, server, 110*time.Millisecond)}, Deadline: hanging})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	service := clientlimit.NewService(clientlimit.Config{Deadline: hanging})
	err = service.SetClients(store, []*clientlimit.Clients{{
		Name: "public", Algorithm: clientlimit.Log, OpenOnOutage: true,
		Limits: []quota.Limit{{Name: "hourly", Units: 3, Window: quota.Sliding(time.Hour)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		d := service.Acquire(t.Context(), "public", clientlimit.Request{Subject: "alice", Count: 1})[0]
		if d.Err != nil || d.Outage || d.Granted() != (n < 3) {
			t.Fatalf("call %d of 3 that fit: %+v", n+1, d)
		}
	}
	if lacks, err := store.Check(t.Context(), true); err != nil || slices.ContainsFunc(lacks, func(s string) bool { return strings.Contains(s, "deadline") }) {
		t.Errorf("%q, %v", lacks, err)
	}
	hasty, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{farAway(t, server, 110*time.Millisecond)}, Deadline: 250 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer hasty.Close()
	if lacks, err := hasty.Check(t.Context(), false); err != nil || !slices.ContainsFunc(lacks, func(s string) bool { return strings.Contains(s, "set deadline in [ledger] to ") }) {
		t.Errorf("%q, %v; want the deadline that is needed", lacks, err)
	}
}

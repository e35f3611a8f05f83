package redisledger_test

import (
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
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/slidinglog"
)

// farAway returns an address from which a server is half of a round trip away.
func farAway(t testing.TB, server *redistest.Server, roundTrip time.Duration) (addr string) {
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
	c       *quota.Credential
	ledger  *slidinglog.Ledger
}

func startFarHost(t testing.TB, addr, name string, deadline time.Duration, units quota.Units) *farHost {
	t.Helper()
	store, err := redisledger.OpenStore(redisledger.Config{Addrs: []string{addr}, Deadline: deadline})
	if err != nil {
		t.Fatal(err)
	}
	c := youtube()
	c.Limits[0].Units = units
	h := &farHost{c: c}
	h.ledger = slidinglog.Open(slidinglog.Config{Engine: store, Dir: t.TempDir(), Name: name, Deadline: deadline})
	t.Cleanup(func() { h.ledger.Close() })
	h.service, err = quota.NewService(h.ledger, []*quota.Credential{c}, deadline)
	if err == nil {
		policy := slidinglog.Policy{Open: map[string]bool{"videos.list": true}, Units: 1_000_000}
		err = h.ledger.SetCredentials(h.service.Credentials(), map[string]slidinglog.Policy{c.Name: policy})
	}
	if err != nil {
		t.Fatal(err)
	}
	h.ledger.Await(t.Context())
	return h
}

func answer(d quota.Decision, err error) string {
	switch {
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

// answers are those of some calls.
type answers struct {
	by     map[string]int
	times  []time.Duration
	during time.Duration
}

func (a *answers) add(how string, took time.Duration) {
	a.by[how]++
	a.times = append(a.times, took)
}

// at returns the time, in ms, within which a part of the calls was answered.
func (a answers) at(part float64) float64 {
	return a.times[int(part*float64(len(a.times)-1))].Seconds() * 1e3
}

// ask has callers ask again as soon as they are answered.
func ask(during time.Duration, callers []func() string) answers {
	a := answers{by: make(map[string]int)}
	var mu sync.Mutex // guards a
	var asking sync.WaitGroup
	end := time.Now().Add(during)
	for _, call := range callers {
		asking.Go(func() {
			for time.Now().Before(end) {
				begun := time.Now()
				how := call()
				took := time.Since(begun)
				mu.Lock()
				a.add(how, took)
				mu.Unlock()
			}
		})
	}
	asking.Wait()
	slices.Sort(a.times)
	return a
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
	service := clientlimit.NewService(nil)
	err = service.SetClients(store, "", []*clientlimit.Clients{{
		Name: "public", Algorithm: clientlimit.Log, OpenOnOutage: true,
		Limits: []quota.Limit{{Name: "hourly", Units: 3, Window: quota.Sliding(time.Hour)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 5 {
		d, err := service.Acquire(t.Context(), "public", clientlimit.Request{Subject: "alice", Count: 1})
		if err != nil || d.Outage || d.Granted() != (n < 3) {
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

// Servers ask for one subject all the time, and wait for answers about others that are late by 200 ms: never more than
// the units are granted in any window, by Redis' clock.
func TestNeverMoreInAnyWindow(t *testing.T) {
	t.Parallel()
	const units, window = 10, time.Second
	server := redistest.Start(t)
	late := farAway(t, server, 200*time.Millisecond)
	var mu sync.Mutex // guards grants
	var grants []time.Time
	var servers sync.WaitGroup
	for n := range 2 {
		open := func(addr string) *redisledger.Clients {
			c, err := redisledger.OpenClients(redisledger.Config{Addrs: []string{addr}, Deadline: hanging}, "", &clientlimit.Clients{
				Name: "public", Algorithm: clientlimit.Log,
				Limits: []quota.Limit{{Name: "second", Units: units, Window: quota.Sliding(window)}},
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			return c
		}
		near, far := open(server.Addr), open(late)
		servers.Go(func() {
			for i := range 8 {
				other := api.ClientRequest{Subject: fmt.Sprint("other", n, i)}
				if _, err := far.AcquireClient(t.Context(), "public", other); err != nil {
					t.Error(err)
				}
				for _, c := range []*redisledger.Clients{near, far, near} {
					for range 20 {
						d, err := c.AcquireClient(t.Context(), "public", api.ClientRequest{Subject: "greedy"})
						if err != nil {
							t.Error(err)
						} else if !d.Granted {
							break
						} else {
							mu.Lock()
							grants = append(grants, *d.Now)
							mu.Unlock()
						}
					}
				}
			}
		})
	}
	servers.Wait()
	for _, from := range grants {
		n := 0
		for _, at := range grants {
			if !at.Before(from) && at.Before(from.Add(window)) {
				n++
			}
		}
		if n > units {
			t.Fatalf("%d units were granted in the window from %v", n, from)
		}
	}
	if len(grants) <= units {
		t.Errorf("%d units were granted in several windows", len(grants))
	}
}

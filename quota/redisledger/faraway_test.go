package redisledger_test

import (
	"errors"
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

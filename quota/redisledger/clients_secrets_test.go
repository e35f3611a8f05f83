package redisledger

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger/redistest"
)

// A clientHost is a host with a service of clients.
type clientHost struct {
	*clientlimit.Service
	store *Store
}

// clientHosts are hosts on a server whose clock the key "clock" is. Its records outlive the test.
func clientHosts(t *testing.T, addr string, names ...string) []*clientHost {
	t.Helper()
	hosts := make([]*clientHost, len(names))
	for i, name := range names {
		scripts := rewritten(clientScripts(t, clockOfServer), func(s string) string { return strings.ReplaceAll(s, "86400000 + ", "8640000000 + ") })
		h := &clientHost{store: openClients(t, addr, scripts)}
		h.Service = clientlimit.NewService(clientlimit.Config{
			Deadline: hanging, Host: clientlimit.Host{ID: func() string { return name }, Label: name},
		})
		hosts[i] = h
	}
	return hosts
}

func (h *clientHost) set(t *testing.T, all ...*clientlimit.Clients) {
	t.Helper()
	if err := h.SetClients(h.store, all); err != nil {
		t.Fatal(err)
	}
}

// ask has one subject ask for a unit.
func (h *clientHost) ask(t *testing.T, subject string) bool {
	t.Helper()
	d := h.Acquire(t.Context(), "public", clientlimit.Request{Subject: subject, Count: 1})[0]
	if d.Err != nil {
		t.Error(d.Err)
	}
	return d.Err == nil && d.Granted()
}

// look has a host read what the others share, and expects what it finds.
func (h *clientHost) look(t *testing.T, want ...string) {
	t.Helper()
	if err := h.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	got := h.Differences()
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

func advance(t *testing.T, server *redistest.Server, by time.Duration) {
	t.Helper()
	server.Do(t, "INCRBY", "clock", fmt.Sprint(by.Milliseconds()))
}

// Hosts that begin at the same time, or find their secret gone, agree on one: each subject has one
// budget.
func TestHostsAgreeOnASecret(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "SET", "clock", "1800000000000")
	c := hourly(clientlimit.Log)
	hosts := clientHosts(t, server.Addr, "a", "b", "c", "d")
	for _, h := range hosts {
		h.set(t, c)
	}
	spend := func() {
		t.Helper()
		var granted atomic.Int64
		var all sync.WaitGroup
		for _, h := range hosts {
			all.Go(func() {
				for range 5 {
					if h.ask(t, "alice") {
						granted.Add(1)
					}
				}
			})
		}
		all.Wait()
		if n := granted.Load(); n != 5 {
			t.Errorf("%d units of 5 were granted", n)
		}
	}
	spend()
	left := server.Do(t, "PTTL", hosts[0].store.clientKey(clientlimit.Place{})).(int64) - 8640000000 // which the scripts of the test add
	if left < (24 * time.Hour).Milliseconds() {
		t.Errorf("what the hosts share goes in %d ms", left)
	}
	clock := server.Do(t, "GET", "clock")
	server.Do(t, "FLUSHALL")
	server.Do(t, "SET", "clock", fmt.Sprint(clock))
	for _, h := range hosts {
		if err := h.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	spend()
}

// Hosts that count the same clients otherwise say so, until that is mended or the other is gone. If
// their windows differ, they count apart.
func TestHostsCountClientsOtherwise(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "SET", "clock", "1800000000000")
	of := func(units quota.Units, window time.Duration) *clientlimit.Clients {
		return &clientlimit.Clients{Name: "public", Algorithm: clientlimit.Counter, Limits: []quota.Limit{{Name: "default", Units: units, Window: quota.Sliding(window)}}}
	}
	hosts := clientHosts(t, server.Addr, "a", "b")
	a, b := hosts[0], hosts[1]
	a.set(t, of(60, time.Minute))
	b.set(t, of(90, time.Hour), &clientlimit.Clients{Name: "other", Algorithm: clientlimit.Log, Limits: of(1, time.Minute).Limits})
	a.look(t)
	ofA := "clients public: host a shares the ledger and counts differently: limit default: 60 units in any 1m, here 90 units in any 1h"
	b.look(t, ofA)
	ofB := "clients public: host b shares the ledger and counts differently: limit default: 90 units in any 1h, here 60 units in any 1m"
	a.look(t, ofB)
	for _, h := range hosts { // each counts for itself
		if !h.ask(t, "alice") {
			t.Error("the first unit was denied")
		}
		if u, _, _, err := h.Usage(t.Context(), "public", "alice"); err != nil || u.Limits[0].Used != 1 {
			t.Errorf("got %+v, %v, want one unit used", u, err)
		}
	}
	a.set(t, of(90, time.Hour))
	a.look(t)
	b.look(t)
	a.set(t, of(60, time.Minute))
	a.look(t, ofB)
	b.look(t, ofA)
	advance(t, server, time.Minute) // a is gone
	b.look(t)
}

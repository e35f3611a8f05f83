package redisledger

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
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

	mu    sync.Mutex // guards found
	found []clientlimit.Difference
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
			Emit: func(event any) {
				h.mu.Lock()
				defer h.mu.Unlock()
				if d, ok := event.(clientlimit.Difference); ok {
					h.found = append(h.found, d)
				}
			},
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
	got := h.Differences(t.Context())
	if len(got) != len(want) {
		t.Fatalf("got %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("got %q, want %q", got[i], want[i])
		}
	}
}

// readHead returns what the hosts share.
func readHead(ctx context.Context, s *Store) ([]byte, error) {
	head := &clientlimit.Swap{}
	s.Swap(ctx, []*clientlimit.Swap{head})
	return head.Found, head.Err
}

// secretsOf returns the secrets in Redis, the newest first.
func secretsOf(t *testing.T, s *Store) (secrets [][]byte) {
	t.Helper()
	text, err := readHead(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	var head struct{ Secrets []struct{ Bytes []byte } }
	if err := json.Unmarshal(text, &head); err != nil {
		t.Fatal(err)
	}
	for _, one := range head.Secrets {
		secrets = append(secrets, one.Bytes)
	}
	return secrets
}

func advance(t *testing.T, server *redistest.Server, by time.Duration) {
	t.Helper()
	server.Do(t, "INCRBY", "clock", fmt.Sprint(by.Milliseconds()))
}

// Three hosts change the secret at the same time, while they ask: they agree on one, each subject
// has one budget through it, and after two changes the old secret is gone.
func TestSecretsChangeWhileHostsAsk(t *testing.T) {
	t.Parallel()
	for _, algorithm := range algorithms {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t)
			server.Do(t, "SET", "clock", "1800000000000") // a day of the counter ends 16 hours later
			c := &clientlimit.Clients{Name: "public", Algorithm: algorithm, Limits: []quota.Limit{{Name: "day", Units: 60, Window: quota.Sliding(24 * time.Hour)}}}
			hosts := clientHosts(t, server.Addr, "a", "b", "c")
			each := func(f func(h *clientHost)) {
				for _, h := range hosts {
					f(h)
				}
			}
			each(func(h *clientHost) { h.set(t, c); h.look(t) })
			advance(t, server, 24*time.Hour-time.Minute)
			each(func(h *clientHost) { h.look(t) })
			first := secretsOf(t, hosts[0].store)
			if len(first) != 1 {
				t.Fatalf("got %d secrets, want the first one through its day", len(first))
			}
			const subjects = 8
			for i := range subjects {
				for n := range 40 {
					if !hosts[n%3].ask(t, fmt.Sprint("user", i)) {
						t.Fatalf("the unit %d of 60 was denied", n+1)
					}
				}
			}
			advance(t, server, time.Minute)
			var granted [subjects]atomic.Int64
			var all sync.WaitGroup
			for n, h := range hosts {
				all.Go(func() {
					for round := range 15 {
						if round == 3*n {
							h.look(t)
						}
						for i := range subjects {
							if h.ask(t, fmt.Sprint("user", i)) {
								granted[i].Add(1)
							}
						}
					}
				})
			}
			all.Wait()
			for i := range granted {
				if got := granted[i].Load(); got != 20 {
					t.Errorf("subject %d was granted %d units after the first 40 of 60", i, got)
				}
			}
			second := secretsOf(t, hosts[0].store)
			if len(second) != 2 || bytes.Equal(second[0], first[0]) || !bytes.Equal(second[1], first[0]) {
				t.Fatalf("got %d secrets, want another one and the first", len(second))
			}
			advance(t, server, 24*time.Hour)
			each(func(h *clientHost) { h.look(t) })
			third := secretsOf(t, hosts[0].store)
			if len(third) != 2 || !bytes.Equal(third[1], second[0]) || slices.ContainsFunc(third, func(s []byte) bool { return bytes.Equal(s, first[0]) }) {
				t.Error("after two changes the old secret is still there")
			}
		})
	}
}

// The secret outlives the longest window of any host.
func TestSecretLastsAsLongAsAWindow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	server.Do(t, "SET", "clock", "1800000000000")
	of := func(window time.Duration) *clientlimit.Clients {
		return &clientlimit.Clients{Name: "public", Algorithm: clientlimit.Log, Limits: []quota.Limit{{Name: "long", Units: 2, Window: quota.Sliding(window)}}}
	}
	hosts := clientHosts(t, server.Addr, "a", "b")
	hosts[0].set(t, of(time.Hour))
	hosts[1].set(t, of(7*24*time.Hour))
	for day := range 7 {
		for _, h := range hosts {
			if err := h.Refresh(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if day == 6 && !hosts[1].ask(t, "alice") {
			t.Fatal("the first unit was denied")
		}
		if got := len(secretsOf(t, hosts[0].store)); got != 1 {
			t.Fatalf("on day %d there are %d secrets", day, got)
		}
		advance(t, server, 24*time.Hour)
	}
	for range 2 {
		if err := hosts[1].Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(secretsOf(t, hosts[0].store)); got != 2 {
		t.Fatalf("after a week there are %d secrets, want two", got)
	}
	if u, _, _, err := hosts[1].Usage(t.Context(), "public", "alice"); err != nil || u.Limits[0].Used != 1 {
		t.Errorf("got %+v, %v, want what was used under the former secret", u, err)
	}
}

// Hosts that count the same clients otherwise say so, until that is mended or the other is gone;
// they keep for each other what their windows count.
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
	a.look(t, "clients public: host b shares the ledger and counts differently: limit default: 90 units in any 1h, here 60 units in any 1m")
	for range 2 { // of whom b has heard nothing yet
		for range 60 {
			a.ask(t, "alice")
		}
		advance(t, server, 2*time.Minute)
		a.look(t, a.Differences(t.Context())...)
		b.look(t, ofA)
	}
	if u, _, _, err := b.Usage(t.Context(), "public", "alice"); err != nil || u.Limits[0].Used != 120 {
		t.Errorf("got %+v, %v, want the 120 units of the other host", u, err)
	}
	a.set(t, of(90, time.Hour))
	a.look(t)
	b.look(t)
	if want := []clientlimit.Difference{{Says: ofA}, {Says: ofA, Mended: true}}; !slices.Equal(b.found, want) {
		t.Errorf("b found %+v, want %+v", b.found, want)
	}
	a.set(t, of(60, time.Minute))
	a.look(t, a.Differences(t.Context())...)
	b.look(t, ofA)
	ctx, leave := context.WithCancel(t.Context())
	leave()
	a.Watch(ctx)
	b.look(t)
	a.look(t, a.Differences(t.Context())...)
	b.look(t, ofA)
	advance(t, server, 5*time.Minute) // a was killed
	b.look(t)
}

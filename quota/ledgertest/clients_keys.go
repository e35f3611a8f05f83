package ledgertest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// The first swap of the head sets it; it outlives the daemon, and all daemons share it.
func clientHead(h *clientHistory) {
	swap := func(write bool, read, next string) *clientlimit.Swap {
		h.Helper()
		now := h.clock.Now()
		s := &clientlimit.Swap{Writes: write, Read: []byte(read), ReadMs: now.UnixMilli(), Next: []byte(next), EndsMs: now.Add(time.Hour).UnixMilli()}
		ledger, ok := h.ledger.(clientlimit.Ledger)
		if !ok {
			h.Skip("the model has no head")
		}
		if ledger.Swap(context.Background(), []*clientlimit.Swap{s}); s.Err != nil {
			h.Fatal(s.Err)
		}
		return s
	}
	wantHead := func(want string) {
		h.Helper()
		if s := swap(false, "", ""); s.Swapped || string(s.Found) != want || s.NowMs != h.clock.Now().UnixMilli() {
			h.Fatalf("got the head %q at %d, want %q", s.Found, s.NowMs, want)
		}
	}
	replace := func(read, next, found string) {
		h.Helper()
		if s := swap(true, read, next); s.Swapped != (read == found) || !s.Swapped && string(s.Found) != found {
			h.Fatalf("replaced: %v, found %q, want %q", s.Swapped, s.Found, found)
		}
	}
	wantHead("")
	replace("none", "other", "")
	replace("", "first", "")
	replace("", "second", "first")
	wantHead("first")
	h.ledger = h.reopen()
	wantHead("first")
	if h.harness.Join != nil {
		h.ledger = h.harness.Join(h)
	}
	replace("first", "second", "first")
	wantHead("second")
}

// A subject that has another key from now on has no second budget: not by its record under the
// former key, nor by a host that does not know of the other key yet.
func clientRotation(h *clientHistory) {
	now := h.clock.Now()
	rotation := clientlimit.Rotation{Former: alice, SealMs: now.Add(2 * time.Minute).UnixMilli()}
	under := func(key clientlimit.Key, r clientlimit.Rotation, units quota.Units) quota.Decision {
		return h.decide(clientlimit.Ask{Subject: key, Units: units, Rotation: r})[0]
	}
	wantUsed := func(key clientlimit.Key, r clientlimit.Rotation, want quota.Units) {
		h.Helper()
		u, err := h.ledger.Usage(context.Background(), h.c, clientlimit.Ask{Subject: key, Rotation: r})
		if err != nil || u.Limits[0].Used != want {
			h.Fatalf("got %+v, %v, want %d units used", u, err, want)
		}
	}
	h.granted(alice, 4, 2)
	wantUsed("=new", rotation, 4)
	if d := under("=new", rotation, 3); !d.Denied() {
		h.Fatalf("got %+v, want a denial: 4 of 6 are used under the former key", d)
	}
	h.granted(alice, 1, 1) // nothing has moved by a denial
	h.isGrant(under("=new", rotation, 1), 1, 0)
	wantUsed("=new", rotation, 6)
	h.moved(alice, clientlimit.Rotation{})
	// Of whom the former key has nothing.
	rotation.Former = bob
	h.isGrant(under("=newcomer", rotation, 6), 6, 0)
	h.moved(bob, clientlimit.Rotation{})
	// When everybody knows, and nothing is sealed any more.
	h.granted("=late", 5, 1)
	h.clock.Set(now.Add(2 * time.Minute).Add(-time.Millisecond))
	h.granted("=later", 5, 1)
	h.clock.Add(time.Millisecond)
	rotation.Former = "=later"
	wantUsed("=later2", rotation, 5)
	h.isGrant(under("=later2", rotation, 1), 1, 0)
	if err := h.ledger.Reset(context.Background(), h.c, clientlimit.Ask{Subject: "=later2", Rotation: rotation}); err != nil {
		h.Fatal(err)
	}
	wantUsed("=later2", rotation, 0)
	old := clientlimit.Rotation{UntilMs: h.clock.Now().UnixMilli() - 1}
	h.moved("=old", old)
	old.UntilMs++
	h.isGrant(under("=old", old, 1), 1, 5)
}

// moved expects that a key is not the one to use any more.
func (h *clientHistory) moved(key clientlimit.Key, r clientlimit.Rotation) {
	h.Helper()
	decisions := h.ledger.Decide(context.Background(), h.c, []clientlimit.Ask{{Subject: key, Units: 1, Rotation: r}})
	if !errors.Is(decisions[0].Err, clientlimit.ErrMoved) {
		h.Fatalf("under the key %q: got %+v, want %v", key, decisions, clientlimit.ErrMoved)
	}
}

// Some daemons know of another key, and others do not: together they grant each subject its units.
func clientRotationAtOnce(h *clientHistory) {
	ledgers := []ClientLedger{h.ledger, h.ledger}
	for h.harness.Join != nil && len(ledgers) < 4 {
		ledgers = append(ledgers, h.harness.Join(h))
	}
	const subjects = 20
	h.limit("minute", 40, time.Minute)
	rotation := clientlimit.Rotation{SealMs: h.clock.Now().Add(time.Minute).UnixMilli()}
	var granted [subjects]atomic.Int64
	var wg sync.WaitGroup
	for n, ledger := range ledgers {
		wg.Go(func() {
			for round := range 30 {
				asks := make([]clientlimit.Ask, subjects)
				for i := range asks {
					asks[i] = clientlimit.Ask{Subject: clientlimit.Key(fmt.Sprint("=old", i)), Units: 1}
					if n%2 == 1 || round > 15 { // knows, from the beginning or by now
						asks[i].Rotation = rotation
						asks[i].Subject, asks[i].Former = clientlimit.Key(fmt.Sprint("=new", i)), asks[i].Subject
					}
				}
				for i, d := range ledger.Decide(context.Background(), h.c, asks) {
					if d.Err != nil && !errors.Is(d.Err, clientlimit.ErrMoved) {
						h.Error(d.Err)
					}
					if d.Err == nil && d.Granted() {
						granted[i].Add(1)
					}
				}
			}
		})
	}
	wg.Wait()
	for i := range granted {
		if got := granted[i].Load(); got != 40 {
			h.Errorf("subject %d was granted %d units of 40", i, got)
		}
	}
}

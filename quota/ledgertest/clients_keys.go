package ledgertest

import (
	"bytes"
	"context"
	"errors"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// The first swap of the value that hosts share sets it; it outlives the daemon, and all daemons share it.
func clientShared(h *clientHistory) {
	swap := func(write bool, read, next string) *clientlimit.Swap {
		h.Helper()
		now := h.clock.Now()
		s := &clientlimit.Swap{Writes: write, Read: []byte(read), ReadMs: now.UnixMilli(), Next: []byte(next), EndsMs: now.Add(time.Hour).UnixMilli()}
		ledger, ok := h.ledger.(clientlimit.Decider)
		if !ok {
			h.Skip("the model has no such value")
		}
		if ledger.Swap(context.Background(), []*clientlimit.Swap{s}); s.Err != nil {
			h.Fatal(s.Err)
		}
		return s
	}
	wantShared := func(want string) {
		h.Helper()
		if s := swap(false, "", ""); s.Swapped || string(s.Found) != want || s.NowMs != h.clock.Now().UnixMilli() {
			h.Fatalf("got %q at %d, want %q", s.Found, s.NowMs, want)
		}
	}
	replace := func(read, next, found string) {
		h.Helper()
		if s := swap(true, read, next); s.Swapped != (read == found) || !s.Swapped && string(s.Found) != found {
			h.Fatalf("replaced: %v, found %q, want %q", s.Swapped, s.Found, found)
		}
	}
	wantShared("")
	replace("none", "other", "")
	replace("", "first", "")
	replace("", "second", "first")
	wantShared("first")
	h.ledger = h.reopen()
	wantShared("first")
	if h.harness.Join != nil {
		h.ledger = h.harness.Join(h)
	}
	replace("first", "second", "first")
	wantShared("second")
}

// A subject that has another key in the next period has no second budget: what it has used in the
// period before counts, and is not written any more.
func clientPeriods(h *clientHistory) {
	ledger, ok := h.ledger.(clientlimit.Decider)
	if !ok {
		h.Skip("the model has no periods")
	}
	ctx := context.Background()
	midnight := h.clock.Now().Truncate(24 * time.Hour).Add(24 * time.Hour)
	h.clock.Set(midnight.Add(-10 * time.Second))
	first := clientlimit.Salt{}.At(h.c, h.clock.Now().UnixMilli())
	second := first.At(h.c, midnight.UnixMilli())
	record := func(key clientlimit.Key) []byte {
		s := &clientlimit.Swap{Place: h.c.Place(key)}
		if ledger.Swap(ctx, []*clientlimit.Swap{s}); s.Err != nil {
			h.Fatal(s.Err)
		}
		return s.Found
	}
	wantUsed := func(subject string, want quota.Units) {
		h.Helper()
		u, err := h.ledger.Usage(ctx, h.c, h.c.Ask(second, subject, 0))
		if err != nil || u.Limits[0].Used != want {
			h.Fatalf("got %+v, %v, want that %s has used %d units", u, err, subject, want)
		}
	}
	for _, subject := range []string{"alice", "bob"} {
		h.isGrant(h.decide(h.c.Ask(first, subject, 4))[0], 4, 2)
	}
	late := &clientlimit.Swap{Place: h.c.Place("=late"), Writes: true, ReadMs: h.clock.Now().UnixMilli(), NotAfterMs: midnight.UnixMilli() - 1, Next: []byte("late"), EndsMs: midnight.UnixMilli()}
	h.clock.Set(midnight.Add(-tick))
	h.isGrant(h.decide(h.c.Ask(first, "carol", 6))[0], 6, 0)
	h.clock.Set(midnight)
	if ledger.Swap(ctx, []*clientlimit.Swap{late}); late.Err != nil || late.Swapped || len(record("=late")) > 0 {
		h.Fatalf("got %+v, want a swap that is refused after its time", late)
	}
	before := record(h.c.Ask(first, "alice", 0).Subject)
	for _, err := range []error{
		ledger.Decide(ctx, h.c, []clientlimit.Ask{h.c.Ask(first, "alice", 1)})[0].Err, ledger.Reset(ctx, h.c, h.c.Ask(first, "alice", 0)),
	} {
		if !errors.Is(err, quota.ErrContended) {
			h.Fatalf("got %v, want %v: the period is over", err, quota.ErrContended)
		}
	}
	wantUsed("alice", 4)
	if d := h.decide(h.c.Ask(second, "alice", 3))[0]; !d.Denied() {
		h.Fatalf("got %+v, want a denial: 4 of 6 units were used in the period before", d)
	}
	decisions := h.decide(h.c.Ask(second, "alice", 1), h.c.Ask(second, "dave", 6), h.c.Ask(second, "alice", 2), h.c.Ask(second, "alice", 1))
	h.isGrant(decisions[0], 1, 1)
	h.isGrant(decisions[1], 6, 0)
	if !decisions[2].Denied() {
		h.Fatalf("got %+v, want a denial", decisions[2])
	}
	h.isGrant(decisions[3], 1, 0)
	wantUsed("alice", 6)
	if after := record(h.c.Ask(first, "alice", 0).Subject); !bytes.Equal(before, after) {
		h.Fatalf("the record of the period before is %x, and was %x", after, before)
	}
	for range 2 {
		if err := ledger.Reset(ctx, h.c, h.c.Ask(second, "bob", 0)); err != nil {
			h.Fatal(err)
		}
		wantUsed("bob", 0)
	}
	h.clock.Set(midnight.Add(-5 * time.Second)) // a reset subject has no time of its own
	d := h.decide(h.c.Ask(second, "bob", 6))[0]
	h.isGrant(d, 6, 0)
	if at := d.Limits[0].NextAt; at.After(h.clock.Now().Add(time.Minute)) {
		h.Fatalf("after a reset, a unit returns at %v", at)
	}
	h.clock.Set(midnight.Add(2 * time.Minute))
	wantUsed("carol", 0)
	h.isGrant(h.decide(h.c.Ask(second, "carol", 6))[0], 6, 0)
}

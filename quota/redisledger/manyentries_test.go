package redisledger_test

import (
	"context"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
	"quotad/quota/seedtest"
	"quotad/quota/slidinglog"
)

// A new host reads a long log, and answers for another credential meanwhile; a host that has
// it in its copy does not read it again.
func TestManyEntries(t *testing.T) {
	seedtest.SkipUnderRace(t)
	entries := seedtest.Long(t, 20_000)
	server, dir := redistest.Start(t), t.TempDir()
	long, other := youtube(), youtube()
	long.Limits[0].Units, other.Name = 1<<40, "other"
	a := start(t, server, "a", dir)
	both(a, long, other)
	request := quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1}
	charges, err := long.Charges(request.Operation, request.Count, "")
	if err != nil {
		t.Fatal(err)
	}
	asks := make([]quota.Ask, 64)
	for i := range asks {
		asks[i] = quota.Ask{Request: request, Charges: charges}
	}
	began := time.Now()
	for n := 0; n < entries; n += len(asks) {
		if _, err := a.ledger.Acquire(t.Context(), long, asks); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d entries are written in %v", entries, time.Since(began))
	want := a.usage()
	a.stop()

	began = time.Now()
	b := begin(t, server.Addr, "b", t.TempDir())
	both(b, long, other)
	askOther := quota.Request{Credential: "other", Operation: "videos.list", Count: 1}
	d, err := b.service.Acquire(t.Context(), askOther)
	for ; err != nil; d, err = b.service.Acquire(t.Context(), askOther) { // its own log is new, and quiet
	}
	t.Logf("of another credential a new host decides after %v: %+v", time.Since(began), d.Reason)
	b.serves()
	t.Logf("it has read the log after %v", time.Since(began))
	b.used(want)

	began = time.Now()
	a = begin(t, server.Addr, "a", dir)
	both(a, long, other)
	a.serves()
	t.Logf("a host with a copy decides after %v", time.Since(began))
	a.used(want)
	if d, err := a.service.Acquire(context.Background(), request); err != nil || !d.Granted() {
		t.Errorf("%+v, %v", d, err)
	}
}

// both has a host count two credentials.
func both(h *daemon, x, y *quota.Credential) {
	h.Helper()
	list := []*quota.Credential{x, y}
	if err := h.ledger.SetCredentials(list, map[string]slidinglog.Policy{}); err != nil {
		h.Fatal(err)
	}
	if err := h.service.SetCredentials(list); err != nil {
		h.Fatal(err)
	}
}

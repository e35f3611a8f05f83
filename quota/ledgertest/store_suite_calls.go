package ledgertest

import (
	"bytes"
	"cmp"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"quotad/quota/slidinglog"
)

// A store may keep some that are older, for a moment or for a handful, but not many.
func storeTrims(h *storeHistory) {
	all := []slidinglog.Position{beginning}
	for i := range 600 {
		all = append(all, h.append(all[i], "record"))
	}
	h.pass(60_000)
	b := h.append(all[600], "b")
	h.holds(append(slices.Clone(all[1:]), b)...)
	h.pass(time.Hour.Milliseconds() - 60_000)
	c := h.append(b, "c")
	h.holds(append(slices.Clone(all[1:]), b, c)...) // an hour ago to the millisecond
	h.pass(1000)
	d := h.append(c, "d")
	h.do(look(all[1]), slidinglog.Lost)
	o := h.do(look(beginning), slidinglog.Behind)
	if len(o.Tail) < 3 {
		h.Fatalf("%d records are left, want at least those of the last hour", len(o.Tail))
	}
	if o.More {
		h.Errorf("more than %d records are left of 603, of which 3 are needed", len(o.Tail))
	}
	for i, want := range []slidinglog.Position{b, c, d} {
		if got := positionOf(o.Tail[len(o.Tail)-3+i]); got != want {
			h.Errorf("got %v, want %v", got, want)
		}
	}
}

func storeMany(h *storeHistory) {
	calls := make([]slidinglog.Call, len(StoreCredentials))
	for i, name := range StoreCredentials {
		calls[i] = appending(beginning, h.body(name))
		calls[i].Credential = name
	}
	for i, o := range h.store.Append(h.Context(), calls) {
		if o.Result != slidinglog.Done {
			h.Fatalf("%s: got status %d (%v), want done", calls[i].Credential, o.Result, o.Err)
		}
		calls[i].At = positionOf(slidinglog.Placed{At: o.At, Body: calls[i].Body})
	}
	calls[1].At = beginning
	calls[2].At.Tag = slidinglog.NewTag()
	calls[3].Body = nil
	calls[4].NotBefore = h.now + 1
	calls[5].NotAfter = h.now - 1
	want := []slidinglog.Result{slidinglog.Done, slidinglog.Behind, slidinglog.Lost, slidinglog.End, slidinglog.Early, slidinglog.Late, slidinglog.Done}
	for i, o := range h.store.Append(h.Context(), calls) {
		if o.Result != want[min(i, 6)] {
			h.Errorf("%s: got status %d (%v), want %d", calls[i].Credential, o.Result, o.Err, want[min(i, 6)])
		}
		if i == 1 && !bytes.HasSuffix(o.Tail[0].Body, []byte(calls[1].Credential)) {
			h.Errorf("%s: got the record %q", calls[1].Credential, o.Tail[0].Body)
		}
	}
	if outcomes := h.store.Append(h.Context(), nil); len(outcomes) != 0 {
		h.Errorf("got %d outcomes of no calls", len(outcomes))
	}
}

func storeOpaque(h *storeHistory) {
	bytesOfAll := make([]byte, 256)
	for i := range bytesOfAll {
		bytesOfAll[i] = byte(255 - i)
	}
	zero := make([]byte, 12)
	large := bytes.Repeat(bytesOfAll, 256)
	at, bodies := beginning, [][]byte{bytesOfAll, zero, append(slices.Clone(zero), "\r\n$-1\r\n"...), []byte("123456789012"), large}
	for _, body := range bodies {
		at = h.done(appending(at, body))
		if o := h.do(look(at), slidinglog.End); o.Clock != h.now {
			h.Errorf("the clock is %d, want %d", o.Clock, h.now)
		}
	}
	for i, r := range h.do(look(beginning), slidinglog.Behind).Tail {
		if !bytes.Equal(r.Body, bodies[i]) {
			h.Errorf("got the record %.40q, want %.40q", r.Body, bodies[i])
		}
	}
}

// storeRandom compares the outcomes of random calls with those of a SimStore.
func storeRandom(h *storeHistory) {
	random := rand.New(rand.NewPCG(24, 6))
	model := &SimStore{Clock: func() int64 { return h.now }}
	known := []slidinglog.Position{beginning}
	for step := range 1500 {
		if random.IntN(3) == 0 {
			h.pass(cmp.Or(random.Int64N(40)-8, 1))
		}
		c := appending(known[len(known)-1-random.IntN(min(len(known), 1+random.IntN(4)))], h.body("record"))
		c.NotBefore, c.NotAfter = h.now-random.Int64N(50)+5, h.now+random.Int64N(300)-5
		switch random.IntN(20) {
		case 0:
			c.Wipe = true
		case 1:
			c.Blind = true
		case 2, 3:
			c.Floor = h.now + random.Int64N(60) - 40
		case 4:
			c.At.Tag = slidinglog.NewTag()
		case 5, 6, 7:
			c.Body = nil
		}
		want := model.Do(&c)
		got := h.do(c, want.Result)
		if !reflect.DeepEqual(got, want) {
			h.Fatalf("step %d: got %+v, want %+v", step, got, want)
		}
		if got.Result == slidinglog.Done {
			known = append(known, positionOf(slidinglog.Placed{At: got.At, Body: c.Body}))
		}
	}
}

package ledgertest

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// StoreCredentials are those whose logs RunStore uses.
var StoreCredentials = []string{"youtube", "maps", "c0", "c1", "c2", "c3", "c4", "c5", "c6", "c7", "c8", "c9"}

// An OpenStore opens an empty store for a test, whose own clock is set by setClock, in ms.
type OpenStore func(t testing.TB) (store slidinglog.Store, setClock func(ms int64))

// RunStore holds a store to the contract of slidinglog.Store.
func RunStore(t *testing.T, open OpenStore) {
	for _, test := range []struct {
		name string
		run  func(*storeHistory)
	}{
		{"the end", storeEnd},
		{"behind", storeBehind},
		{"behind by pages", storePages},
		{"lost", storeLost},
		{"another record in the same place", storeSamePlace},
		{"early and late", storeBounds},
		{"a lost reply", storeRepeated},
		{"wipe", storeWipe},
		{"wipe, the log is ahead of the clock", storeWipeAhead},
		{"a lost reply to a wipe", storeWipeRepeated},
		{"blind", storeBlind},
		{"floor", storeFloor},
		{"slack", storeSlack},
		{"the clock steps back", storeClockBack},
		{"old records are dropped", storeTrims},
		{"many credentials in one call", storeMany},
		{"records are opaque", storeOpaque},
		{"random calls", storeRandom},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := &storeHistory{T: t, now: 1_795_260_896_123}
			h.store, h.setClock = open(t)
			h.setClock(h.now)
			test.run(h)
		})
	}
}

// A storeHistory is played to a store.
type storeHistory struct {
	*testing.T
	store    slidinglog.Store
	setClock func(ms int64)
	now      int64
	drawn    int // tags
}

// beginning is where every log begins.
var beginning slidinglog.Position

func (h *storeHistory) pass(ms int64) {
	h.now += ms
	h.setClock(h.now)
}

// body returns a record under a new tag.
func (h *storeHistory) body(text string) []byte {
	h.drawn++
	return fmt.Appendf(nil, "tag%09d%s", h.drawn, text)
}

// look is a call that appends nothing.
func look(at slidinglog.Position) slidinglog.Call {
	return slidinglog.Call{Credential: "youtube", At: at, Keep: time.Hour}
}

// appending is a call that appends a record at any time.
func appending(at slidinglog.Position, body []byte) slidinglog.Call {
	c := look(at)
	c.Body, c.NotAfter = body, math.MaxInt32*1000
	return c
}

// do makes one call and expects a status.
func (h *storeHistory) do(c slidinglog.Call, want slidinglog.Result) slidinglog.Outcome {
	h.Helper()
	o := h.store.Append(h.Context(), []slidinglog.Call{c})[0]
	if o.Result != want {
		h.Fatalf("at %v: got status %d (%v), want %d", c.At.ID, o.Result, o.Err, want)
	}
	return o
}

// append appends a record and returns where it stands.
func (h *storeHistory) append(at slidinglog.Position, text string) slidinglog.Position {
	h.Helper()
	return h.done(appending(at, h.body(text)))
}

func (h *storeHistory) done(c slidinglog.Call) slidinglog.Position {
	h.Helper()
	o := h.do(c, slidinglog.Done)
	if o.Clock != o.At.Ms {
		h.Errorf("the clock is %d, the new record stands at %v", o.Clock, o.At)
	}
	return positionOf(slidinglog.Placed{At: o.At, Body: c.Body})
}

// placed expects where a record stands, in ms behind the store's clock.
func (h *storeHistory) placed(at slidinglog.Position, ms, seq int64) {
	h.Helper()
	if want := (quota.ID{Ms: h.now + ms, Seq: seq}); at.ID != want {
		h.Errorf("the record stands at %v, want %v", at.ID, want)
	}
}

// holds expects a log to consist of records.
func (h *storeHistory) holds(want ...slidinglog.Position) {
	h.Helper()
	var got []slidinglog.Position
	for at, more := beginning, true; more; {
		o := h.store.Append(h.Context(), []slidinglog.Call{look(at)})[0]
		for _, r := range o.Tail {
			at = positionOf(r)
			got = append(got, at)
		}
		more = o.More
	}
	if !slices.Equal(got, want) {
		h.Errorf("the log holds %v, want %v", got, want)
	}
}

func storeEnd(h *storeHistory) {
	if o := h.do(look(beginning), slidinglog.End); o.Clock != h.now {
		h.Errorf("the clock is %d, want %d", o.Clock, h.now)
	}
	a := h.append(beginning, "a")
	h.placed(a, 0, 0)
	b := h.append(a, "b")
	h.placed(b, 0, 1)
	h.pass(1)
	c := h.append(b, "c")
	h.placed(c, 0, 0)
	h.pass(1000)
	if o := h.do(look(c), slidinglog.End); o.Clock != h.now {
		h.Errorf("the clock is %d, want %d", o.Clock, h.now)
	}
	h.holds(a, b, c)
}

func storeBehind(h *storeHistory) {
	a := h.append(beginning, "a")
	b := h.append(a, "b")
	c := h.append(b, "c")
	h.pass(7)
	for at, want := range map[slidinglog.Position][]slidinglog.Position{beginning: {a, b, c}, a: {b, c}, b: {c}} {
		for _, call := range []slidinglog.Call{look(at), appending(at, h.body("not appended"))} {
			call.NotBefore = h.now + 1 // it does not matter
			o := h.do(call, slidinglog.Behind)
			var got []slidinglog.Position
			for _, r := range o.Tail {
				got = append(got, positionOf(r))
			}
			if !slices.Equal(got, want) || o.More || o.Clock != h.now {
				h.Errorf("at %v: got %v, more: %v, clock %d; want %v and %d", at.ID, got, o.More, o.Clock, want, h.now)
			}
		}
	}
	h.holds(a, b, c)
}

func storePages(h *storeHistory) {
	all := []slidinglog.Position{beginning}
	const page = slidinglog.PageSize
	for i := range 2*page + 1 {
		all = append(all, h.append(all[i], "record"))
		h.pass(1)
	}
	h.pass(-1)
	for _, want := range []struct {
		from, records int
		more          bool
	}{
		{0, page, true}, {1, page, true}, {page, page, true}, {page + 1, page, false}, {page + 2, page - 1, false}, {2 * page, 1, false},
	} {
		o := h.do(look(all[want.from]), slidinglog.Behind)
		if len(o.Tail) != want.records || o.More != want.more || o.Clock != h.now {
			h.Errorf("behind record %d: got %d records, more: %v, clock %d, want %+v", want.from, len(o.Tail), o.More, o.Clock, want)
		}
		if got, next := positionOf(o.Tail[0]), all[want.from+1]; got != next {
			h.Errorf("behind record %d stands %v, want %v", want.from, got, next)
		}
	}
	h.holds(all[1:]...)
}

func storeLost(h *storeHistory) {
	never := slidinglog.Position{ID: quota.ID{Ms: h.now - 5}, Tag: slidinglog.NewTag()}
	h.do(look(never), slidinglog.Lost)
	h.do(appending(never, h.body("not appended")), slidinglog.Lost)
	h.holds()
	a := h.append(beginning, "a")
	h.pass(10)
	b := h.append(a, "b")
	for _, ms := range []int64{a.ID.Ms - 1, a.ID.Ms + 1, b.ID.Ms + 1} {
		never.ID.Ms = ms
		if o := h.do(look(never), slidinglog.Lost); len(o.Tail) != 0 || o.Clock != h.now {
			h.Errorf("got %+v, want no records and the clock %d", o, h.now)
		}
	}
	h.do(look(slidinglog.Position{ID: a.ID, Tag: b.Tag}), slidinglog.Lost)
	h.do(appending(slidinglog.Position{ID: b.ID, Tag: a.Tag}, h.body("not appended")), slidinglog.Lost)
	h.holds(a, b)
}

func storeSamePlace(h *storeHistory) {
	a := h.append(beginning, "a")
	wipe := appending(a, h.body("b"))
	wipe.Wipe = true
	b := h.done(wipe)
	if a.ID != b.ID {
		h.Fatalf("the records stand at %v and %v, want one place", a.ID, b.ID)
	}
	c := h.append(b, "c")
	h.do(look(a), slidinglog.Lost)
	h.holds(b, c)
}

func storeBounds(h *storeHistory) {
	a := h.append(beginning, "a")
	h.pass(1000)
	c := appending(a, h.body("b"))
	for _, bounds := range []struct {
		notBefore, notAfter int64
		want                slidinglog.Result
	}{
		{1, 5, slidinglog.Early}, {-5, -1, slidinglog.Late}, {1, -1, slidinglog.Early}, {0, 0, slidinglog.Done},
	} {
		c.NotBefore, c.NotAfter = h.now+bounds.notBefore, h.now+bounds.notAfter
		if o := h.do(c, bounds.want); o.Clock != h.now {
			h.Errorf("the clock is %d, want %d", o.Clock, h.now)
		}
	}
	b := positionOf(slidinglog.Placed{At: quota.ID{Ms: h.now}, Body: c.Body})
	look := look(b)
	look.NotBefore = h.now + 1
	h.do(look, slidinglog.End)
	h.holds(a, b)
}

func storeRepeated(h *storeHistory) {
	a := h.append(beginning, "a")
	call := appending(a, h.body("b"))
	b := h.done(call)
	c := h.append(b, "c")
	h.pass(10)
	if o := h.do(call, slidinglog.Behind); positionOf(o.Tail[0]) != b {
		h.Errorf("got %v first, want the record itself, %v", positionOf(o.Tail[0]), b)
	}
	h.holds(a, b, c)
}

func storeWipe(h *storeHistory) {
	a := h.append(beginning, "a")
	b := h.append(a, "b")
	call := appending(a, h.body("c"))
	call.Wipe = true
	h.do(call, slidinglog.Behind)
	call.At.Tag = b.Tag
	h.do(call, slidinglog.Lost)
	call.At, call.NotBefore = b, h.now+1
	h.do(call, slidinglog.Early)
	h.holds(a, b)
	h.pass(1)
	c := h.done(call)
	h.placed(c, 0, 0)
	h.holds(c)
	h.do(look(b), slidinglog.Lost)
	h.holds(c, h.append(c, "d"))
}

func storeWipeAhead(h *storeHistory) {
	h.pass(86_400_000)
	a := h.append(beginning, "a")
	h.pass(-86_400_000)
	call := appending(a, h.body("b"))
	call.Wipe = true
	call.NotAfter = h.now // by the log's clock it is a day later
	h.do(call, slidinglog.Late)
	call.NotAfter = a.ID.Ms
	b := h.done(call)
	h.placed(b, 0, 0)
	if o := h.do(look(b), slidinglog.End); o.Clock != h.now {
		h.Errorf("the clock is %d, want %d", o.Clock, h.now)
	}
}

// The caller's record is gone with all others, so its own is found from the beginning.
func storeWipeRepeated(h *storeHistory) {
	a := h.append(beginning, "a")
	call := appending(a, h.body("b"))
	call.Wipe = true
	b := h.done(call)
	h.pass(1)
	h.do(call, slidinglog.Lost)
	h.holds(b)
}

func storeBlind(h *storeHistory) {
	blind := func(at slidinglog.Position) slidinglog.Call {
		c := appending(at, h.body("blind"))
		c.Blind = true
		return c
	}
	a := h.done(blind(slidinglog.Position{ID: quota.ID{Ms: 5}, Tag: slidinglog.NewTag()}))
	b := h.done(blind(beginning))
	h.pass(10)
	c := h.done(blind(a))
	late := blind(c)
	late.NotAfter = h.now - 1
	h.do(late, slidinglog.Late)
	h.holds(a, b, c)
}

func storeFloor(h *storeHistory) {
	call := appending(beginning, h.body("a"))
	call.Floor = h.now - 1000
	a := h.done(call)
	h.placed(a, 0, 0)
	call = appending(a, h.body("b"))
	call.Floor = h.now + 5000
	b := h.done(call)
	h.placed(b, 5000, 0)
	c := h.append(b, "c")
	h.placed(c, 5000, 1)
	if o := h.do(look(c), slidinglog.End); o.Clock != h.now {
		h.Errorf("the clock is %d, want the store's own, %d", o.Clock, h.now)
	}
	h.pass(5001)
	d := h.append(c, "d")
	h.placed(d, 0, 0)
	h.holds(a, b, c, d)
}

func storeClockBack(h *storeHistory) {
	a := h.append(beginning, "a")
	h.pass(-60_000)
	if o := h.do(look(a), slidinglog.End); o.Clock != h.now {
		h.Errorf("the clock is %d, want the store's own, %d", o.Clock, h.now)
	}
	call := appending(a, h.body("b"))
	call.NotBefore, call.NotAfter = a.ID.Ms, a.ID.Ms
	b := h.done(call)
	h.placed(b, 60_000, 1)
	h.pass(60_000)
	c := h.append(b, "c")
	h.placed(c, 0, 2)
	h.pass(1)
	d := h.append(c, "d")
	h.placed(d, 0, 0)
	h.holds(a, b, c, d)
}

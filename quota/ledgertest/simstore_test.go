package ledgertest

import (
	"testing"
	"time"

	"quotad/quota/slidinglog"
)

func TestSimStore(t *testing.T) {
	RunStore(t, func(testing.TB) (slidinglog.Store, func(int64)) {
		now := int64(0)
		return &SimStore{Clock: func() int64 { return now }}, func(ms int64) { now = ms }
	})
}

// Whatever is restored and written since, copies stay what they were.
func TestSimStoreFallsBack(t *testing.T) {
	h := &storeHistory{T: t, now: 1_795_260_896_123, setClock: func(int64) {}}
	s := &SimStore{Clock: func() int64 { return h.now }}
	h.store = s
	a := h.append(beginning, "a")
	b := h.append(a, "b")
	early := s.Snapshot()
	c := h.append(b, "c")
	late := s.Snapshot()

	s.DropLast(1)
	h.holds(a, b)
	c2 := h.append(b, "another c")
	h.do(look(c), slidinglog.Lost)
	h.holds(a, b, c2)
	s.Flush("youtube")
	h.holds()
	s.DropLast(2) // the flush too
	h.holds(a, b)

	s.Restore(late)
	h.holds(a, b, c)
	d := h.append(c, "d")
	s.Restore(early)
	e := h.append(b, "e")
	h.holds(a, b, e)
	s.Restore(late)
	h.holds(a, b, c)
	h.do(look(d), slidinglog.Lost)
	s.DropLast(5) // nothing is known of before
	h.holds(a, b, c)

	h.pass(2*time.Hour.Milliseconds() - 1)
	h.holds(a, b, c)
	h.pass(1)
	h.holds()
	if got := s.Records("youtube"); len(got) != 0 {
		t.Errorf("an expired log has %d records", len(got))
	}
}

func BenchmarkSimStore(b *testing.B) {
	now := int64(1_795_260_896_123)
	s := &SimStore{Clock: func() int64 { return now }}
	c := slidinglog.Call{Credential: "youtube", Body: make([]byte, 72), NotAfter: 1 << 52, Keep: time.Hour}
	for i := range b.N {
		c.Body[i%12]++
		o := s.Do(&c)
		if o.Result != slidinglog.Done {
			b.Fatal(o.Result)
		}
		c.At = positionOf(slidinglog.Placed{At: o.At, Body: c.Body})
		now += 1000 // 3,600 records stay
	}
}

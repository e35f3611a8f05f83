package ledgertest

import (
	"testing"
	"time"

	"quotad/quota"
)

func requestIDs(t *testing.T, harness Harness) {
	h := begin(t, harness, one(20, quota.Sliding(time.Hour)))
	request := quota.Request{Operation: "ten", RequestID: "call-1", Caller: quota.Caller{UID: 7}}
	first := h.acquire(request)
	h.isGrant(first)
	again := h.acquire(request)
	if again.GrantID != first.GrantID || !again.Replayed || first.Replayed {
		t.Errorf("got %+v after %+v, want the same grant, replayed", again, first)
	}
	h.used(10)
	for _, other := range []quota.Request{
		{Operation: "list", RequestID: "call-1", Caller: quota.Caller{UID: 7}},
		{Operation: "ten", Count: 2, RequestID: "call-1", Caller: quota.Caller{UID: 7}},
		{Operation: "ten", RequestID: "call-1", Caller: quota.Caller{UID: 8}},
	} {
		if d := h.acquire(other); d.Reason != quota.RequestIDConflict {
			t.Errorf("got %+v for other arguments, want request_id_conflict", d)
		}
	}
	h.used(10)
	list := one(20, quota.Sliding(time.Hour)) // what it costs now is another matter
	list.Operations["ten"] = quota.Cost{Every: 5}
	h.use(list)
	if d := h.acquire(request); !d.Replayed || d.Units != 10 {
		t.Errorf("got %+v, want the grant as it was charged", d)
	}
	h.use(one(20, quota.Sliding(time.Hour)))
	h.granted("ten")
	// A denial is not remembered: the same id may be granted later.
	d := h.acquire(quota.Request{Operation: "list", RequestID: "call-2"})
	h.isDenial(d, "daily", time.Hour)
	h.again()
	if again := h.acquire(request); again.GrantID != first.GrantID {
		t.Errorf("got %+v after reopening, want the grant %s", again, first.GrantID)
	}
	h.clock.Add(time.Hour - time.Minute)
	if again := h.acquire(request); again.GrantID != first.GrantID {
		t.Errorf("got %+v before the window's end, want the grant %s", again, first.GrantID)
	}
	h.clock.Add(time.Minute + tick)
	h.isGrant(h.acquire(quota.Request{Operation: "list", RequestID: "call-2"}))
}

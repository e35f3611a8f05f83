package slidinglog_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A slowStore has the next append wait for a gate, and counts those that were carried out.
type slowStore struct {
	*ledgertest.SimStore
	gate    chan struct{} // nil: none waits
	entered chan struct{}
	appends int
	hangs   bool // no call is answered
}

func (s *slowStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	if gate := s.gate; gate != nil && len(calls[0].Body) > 0 {
		s.gate = nil
		close(s.entered)
		<-gate
	}
	if s.hangs {
		<-ctx.Done()
		return []slidinglog.Outcome{{Err: fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, ctx.Err())}}
	}
	outcomes := s.SimStore.Append(ctx, calls)
	for _, o := range outcomes {
		if o.Result == slidinglog.Done {
			s.appends++
		}
	}
	return outcomes
}

// batch has calls wait behind a grant that is being appended, and returns how many appends decided them.
func (s *scene) batch(l *slidinglog.Ledger, store *slowStore, calls ...func() error) int {
	s.t.Helper()
	gate := make(chan struct{})
	store.gate, store.entered = gate, make(chan struct{})
	var asking sync.WaitGroup
	ask := func(call func() error) {
		asking.Go(func() {
			if err := call(); err != nil {
				s.t.Error(err)
			}
		})
	}
	ask(func() error {
		_, err := l.Acquire(context.Background(), s.c, s.asks(1))
		return err
	})
	<-store.entered
	before := store.appends + 1
	for i, call := range calls {
		ask(call)
		for l.Waiting(s.c) <= i { // in their order
			runtime.Gosched()
		}
	}
	close(gate)
	asking.Wait()
	return store.appends - before
}

// Whatever waits for the log shares one append: acquires, settlements, releases and bookings. What depends on a
// correction of the same record has one of its own.
func TestCallsShareARecord(t *testing.T) {
	s := newScene(t)
	s.c.Limits[0].Units = 1000
	store := &slowStore{SimStore: s.store}
	l := s.open(slidinglog.Config{Store: store})
	s.follow(20, l)
	used := func(want quota.Units) {
		t.Helper()
		if u, err := l.Usage(t.Context(), s.c); err != nil || u.Limits[0].Used != want {
			t.Errorf("%+v, %v, want %d used", u, err, want)
		}
	}
	grants := make([]quota.ID, 32)
	for i := range grants {
		d, err := l.Acquire(t.Context(), s.c, s.asks(10))
		if err != nil {
			t.Fatal(err)
		}
		_, grants[i], _ = quota.ParseGrantID(d[0].GrantID)
	}
	settle := func(i int, units quota.Units) func() error {
		return func() error {
			d, err := l.Settle(t.Context(), s.c, quota.Settlement{Grant: grants[i], Units: units})
			if err == nil && (!d.Granted() || d.Units != units) {
				err = fmt.Errorf("%+v", d)
			}
			return err
		}
	}
	adjust := func(units int64) func() error {
		return func() error {
			d, err := l.Adjust(t.Context(), s.c, quota.Adjustment{Limit: "daily", Units: units})
			if err == nil && d.Units != quota.Units(max(units, -units)) {
				err = fmt.Errorf("%+v", d)
			}
			return err
		}
	}
	acquire := func(units quota.Units, granted bool) func() error {
		return func() error {
			d, err := l.Acquire(t.Context(), s.c, s.asks(units))
			if err == nil && d[0].Granted() != granted {
				err = fmt.Errorf("%+v", d)
			}
			return err
		}
	}
	used(320)
	var calls []func() error
	for i := range 16 {
		calls = append(calls, settle(i, quota.Units(i)))
	}
	if n := s.batch(l, store, append(calls, adjust(50), acquire(7, true))...); n != 1 {
		t.Errorf("%d appends for settlements, a booking and an acquire", n)
	}
	used(321 - 160 + 120 + 50 + 7)

	if n := s.batch(l, store, settle(18, 0), settle(18, 4), settle(19, 0)); n != 2 {
		t.Errorf("%d appends for two settlements of one grant, and one of another", n)
	}
	used(338 + 1 - 20 + 4)
	if n := s.batch(l, store, settle(20, 0), adjust(-20), adjust(-10), settle(21, 0)); n < 3 {
		t.Errorf("%d appends for what returns units one after the other", n)
	}
	used(323 + 1 - 10 - 30 - 10)

	// Corrections come first, and each decision knows those before it: 275 are used. A denial waits for a log that
	// has the corrections.
	if n := s.batch(l, store, acquire(20, true), settle(16, 725), acquire(1, false), settle(17, 0)); n != 1 {
		t.Errorf("%d appends for what fits exactly", n)
	}
	used(1000)
}

// However long a call waits for others before it decides, it ends by its own deadline.
func TestACallEndsByItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deadline = time.Second
		s := newScene(t)
		store := &slowStore{SimStore: s.store}
		l := s.open(slidinglog.Config{Store: store, Deadline: deadline})
		s.follow(20, l)
		d, err := l.Acquire(t.Context(), s.c, s.asks(10))
		if err != nil {
			t.Fatal(err)
		}
		_, grant, _ := quota.ParseGrantID(d[0].GrantID)
		store.hangs = true
		var asking sync.WaitGroup
		for n := range 6 {
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				begun := time.Now()
				var err error
				if n%2 == 0 {
					_, err = l.Settle(ctx, s.c, quota.Settlement{Grant: grant, Units: quota.Units(n)})
				} else {
					_, err = l.Acquire(ctx, s.c, s.asks(1))
				}
				if took := time.Since(begun); err == nil || took > deadline {
					t.Errorf("call %d waited for %v: %v", n, took, err)
				}
			})
			time.Sleep(deadline / 4)
		}
		asking.Wait()
	})
}

package slidinglog_test

import (
	"context"
	"errors"
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
	looks   int
	hangs   bool          // no call is answered
	takes   time.Duration // what an append takes until it is answered
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
	if len(calls[0].Body) == 0 {
		s.looks++
	} else if s.takes > 0 {
		select {
		case <-time.After(s.takes):
		case <-ctx.Done():
			return []slidinglog.Outcome{{Err: fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, ctx.Err())}}
		}
	}
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

// A settlement of an outage has a greater id than one that the log gets in the same ms, as after a step of its clock.
// That one does not count, and makes no room for a grant in its record.
func TestASettlementThatDoesNotCountMakesNoRoom(t *testing.T) {
	s := newScene(t)
	store, away := &slowStore{SimStore: s.store}, &fadingStore{SimStore: s.store, answers: 1000}
	l, other := s.open(slidinglog.Config{Store: store}), s.openInOutage(away, new([]slidinglog.EventKind))
	s.follow(20, l, other)
	d, err := l.Acquire(t.Context(), s.c, s.asks(50))
	if err != nil {
		t.Fatal(err)
	}
	_, grant, _ := quota.ParseGrantID(d[0].GrantID)
	s.grant(l, 39)
	s.follow(4, other)
	settle := func(l *slidinglog.Ledger, units quota.Units) error {
		_, err := l.Settle(context.Background(), s.c, quota.Settlement{Grant: grant, Units: units})
		return err
	}
	s.now, away.answers = s.now.Add(time.Minute), 0
	if err := settle(other, 40); err != nil {
		t.Fatal(err)
	}
	s.now, away.answers = s.now.Add(-10*time.Second), 1000
	s.follow(4, other, l)
	var beside []quota.Decision
	s.batch(l, store, func() error { return settle(l, 10) }, func() (err error) {
		beside, err = l.Acquire(context.Background(), s.c, s.asks(30))
		return err
	})
	if beside[0].Granted() {
		t.Errorf("30 units are granted beside %v", l.Entries(s.c))
	}
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

	// Denials share a look at the log, whether or not a grant waits among them.
	if _, err := l.Settle(t.Context(), s.c, quota.Settlement{Grant: grants[16]}); err != nil {
		t.Fatal(err)
	}
	for _, calls := range [][]func() error{
		{acquire(900, false), acquire(1, true), acquire(901, false), acquire(902, false)},
		{acquire(1, true), acquire(900, false), acquire(901, false), acquire(1, true)},
	} {
		store.looks = 0
		if n := s.batch(l, store, calls...); n != 1 || store.looks != 1 {
			t.Errorf("%d appends and %d looks for grants and denials", n, store.looks)
		}
	}
}

// A call whose deadline ends while others are decided with it ends alone, also if it has the lock, or if its caller
// goes away. What it was granted meanwhile is revoked.
func TestALateCallEndsAlone(t *testing.T) {
	const deadline = time.Second
	for late := range 3 {
		for _, leaves := range []bool{false, late > 0} { // the first one has the lock, and decides whether or not its caller waits
			synctest.Test(t, func(t *testing.T) {
				s := newScene(t)
				store := &slowStore{SimStore: s.store}
				l := s.open(slidinglog.Config{Store: store, Deadline: deadline})
				s.follow(20, l)
				store.takes = deadline / 4
				var asking sync.WaitGroup
				ask := func(within time.Duration, want error) {
					asking.Go(func() {
						ctx, cancel := context.WithTimeout(t.Context(), within)
						defer cancel()
						if leaves && want != nil {
							ctx, cancel = context.WithCancel(t.Context())
							time.AfterFunc(within, cancel)
							want = context.Canceled
						}
						begun := time.Now()
						if _, err := l.Acquire(ctx, s.c, s.asks(1)); !errors.Is(err, want) {
							t.Errorf("call %d is late: %v, want %v", late, err, want)
						}
						if took := time.Since(begun); took > within {
							t.Errorf("waited for %v, of %v", took, within)
						}
					})
					synctest.Wait()
				}
				ask(deadline, nil)
				for n := range 3 {
					if n == late {
						ask(deadline*3/8, quota.ErrOutcomeUnknown)
					} else {
						ask(deadline, nil)
					}
				}
				asking.Wait()
				store.takes = 0
				s.follow(20, l)
				if u, err := l.Usage(t.Context(), s.c); err != nil || u.Limits[0].Used != 3 {
					t.Errorf("call %d is late (leaves: %v): %v, want 3 used", late, leaves, u.Limits[0].Used)
				}
			})
		}
	}
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

// A store is down if it has answered nothing for a whole deadline, and not for what was left of the deadline of a call that had
// waited for others.
func TestALateAnswerIsNoOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const deadline = time.Second
		s := newScene(t)
		store := &slowStore{SimStore: s.store}
		l := s.open(slidinglog.Config{Store: store, Deadline: deadline, Clock: time.Now})
		for range 20 {
			time.Sleep(pollTime)
			s.follow(1, l)
		}
		var asking sync.WaitGroup
		ask := func(want error, serves bool) {
			asking.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), deadline)
				defer cancel()
				if _, err := l.Acquire(ctx, s.c, s.asks(1)); !errors.Is(err, want) || l.Serves(s.c) != serves {
					t.Errorf("%v, serves: %v", err, l.Serves(s.c))
				}
			})
			synctest.Wait()
		}
		store.takes = deadline / 4
		ask(nil, true)
		store.hangs = true
		ask(quota.ErrContended, true)
		asking.Wait()
		ask(quota.ErrOutcomeUnknown, false)
		asking.Wait()
	})
}

// A slowFile writes when it is let.
type slowFile struct {
	*ledgertest.MemFile
	let chan struct{}
}

func (f slowFile) Append(credential string, frame []byte, sync bool) error {
	<-f.let
	return f.MemFile.Append(credential, frame, sync)
}

// A caller that goes away while another call writes its grant waits for the file.
func TestACallerLeavesWhileItsGrantIsWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, file := credential(time.Hour), slowFile{ledgertest.NewMemFile(), make(chan struct{})}
		l, err := slidinglog.Open(slidinglog.Config{File: file, Credentials: []*quota.Credential{c}, Manual: true, Clock: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		var asking sync.WaitGroup
		ask := func(ctx context.Context) {
			asking.Go(func() {
				asks := []quota.Ask{{Request: quota.Request{Credential: c.Name, Operation: "list", Count: 1}, Charges: []quota.Charge{{Limit: "daily", Units: 1}}}}
				if d, err := l.Acquire(ctx, c, asks); err != nil || !d[0].Granted() {
					t.Errorf("got %v, %v", d, err)
				}
			})
			synctest.Wait()
		}
		ctx, leave := context.WithCancel(t.Context())
		ask(t.Context())
		ask(t.Context()) // leads the next draft, which has
		ask(ctx)
		file.let <- struct{}{}
		synctest.Wait()
		leave()
		synctest.Wait()
		file.let <- struct{}{}
		asking.Wait()
	})
}

package slidinglog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// open makes the operation of a scene open in an outage, and records its events.
func (s *scene) openInOutage(store slidinglog.Store, events *[]slidinglog.EventKind) *slidinglog.Ledger {
	s.t.Helper()
	return s.open(slidinglog.Config{
		Store:    store,
		Policies: s.policies(),
		OnEvent:  func(e slidinglog.Event) { *events = append(*events, e.Kind) },
	})
}

// policies make the operation of a scene open in an outage.
func (s *scene) policies() map[string]slidinglog.Policy {
	return map[string]slidinglog.Policy{s.c.Name: {Open: map[string]bool{"list": true}, Units: 5}}
}

// A fullStore answers, and takes no records.
type fullStore struct {
	*ledgertest.SimStore
	full bool
}

var errFull = fmt.Errorf("%w: redis refuses: OOM", quota.ErrUnavailable)

func (s *fullStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	outcomes := s.SimStore.Append(ctx, calls[:0])
	for i := range calls {
		if s.full && (len(calls[i].Body) > 0 || calls[i].Probe) {
			outcomes = append(outcomes, slidinglog.Outcome{Result: slidinglog.Failed, Err: errFull})
			continue
		}
		outcomes = append(outcomes, s.Do(&calls[i]))
	}
	return outcomes
}

// While the store takes no records, the host does not serve, however well the log can be read. There is one
// outage, which ends when a record was taken. A host that nobody asks notices, too.
func TestOnlyARecordEndsAnOutageOfWriting(t *testing.T) {
	for name, asked := range map[string]bool{"asked": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			store := &fullStore{SimStore: s.store}
			var events []slidinglog.EventKind
			l := s.openInOutage(store, &events)
			s.follow(40, l)
			store.full = true
			for range 20 {
				if asked {
					if d, err := l.Acquire(t.Context(), s.c, s.asks(1)); err == nil && !d[0].Outage {
						t.Fatalf("%+v of a full store", d)
					}
				}
				s.now = s.now.Add(time.Second)
				l.Poll()
				if l.Serves(s.c) {
					t.Fatal("it serves, though the store takes no records")
				}
			}
			before := len(s.records())
			store.full = false
			s.now = s.now.Add(time.Second)
			l.Poll()
			if !l.Serves(s.c) || len(s.records()) == before {
				t.Errorf("it serves: %v; %d records, there were %d", l.Serves(s.c), len(s.records()), before)
			}
			if got, want := fmt.Sprint(events), fmt.Sprint([]slidinglog.EventKind{slidinglog.Down, slidinglog.Up}); got != want {
				t.Errorf("events %v, want %v", got, want)
			}
		})
	}
}

// A heldStore answers no call until it is released, or the caller's deadline has ended.
type heldStore struct {
	*ledgertest.SimStore
	hold          func(slidinglog.Call) bool // nil: none
	held, release chan struct{}
}

func (s *heldStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	if s.hold != nil && s.hold(calls[0]) {
		s.held <- struct{}{}
		select {
		case <-s.release:
		case <-ctx.Done():
			return []slidinglog.Outcome{{Err: fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, ctx.Err())}}
		}
	}
	return s.SimStore.Append(ctx, calls)
}

// A call that waits until its deadline for another call of its host has lost to that. It is no outage.
func TestWaitingForAnotherCallIsNoOutage(t *testing.T) {
	s := newScene(t)
	store := &heldStore{SimStore: s.store, held: make(chan struct{}), release: make(chan struct{})}
	var events []slidinglog.EventKind
	l := s.openInOutage(store, &events)
	s.follow(40, l)
	store.hold = func(slidinglog.Call) bool { return true }
	first := make(chan error)
	go func() {
		_, err := l.Acquire(t.Context(), s.c, s.asks(1))
		first <- err
	}()
	<-store.held
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if d, err := l.Acquire(ctx, s.c, s.asks(1)); !errors.Is(err, quota.ErrContended) {
		t.Errorf("%+v, %v; want that others were first", d, err)
	}
	close(store.release)
	if err := <-first; err != nil || len(events) > 0 {
		t.Errorf("%v; events %v", err, events)
	}
}

// A host that still reads a long log grants nothing offline: not to a call that waits for that until
// its deadline, and not if the store goes away meanwhile.
func TestNothingIsGrantedOnAHalfReadCopy(t *testing.T) {
	s := newScene(t)
	writer := s.open(slidinglog.Config{})
	s.follow(40, writer)
	for range 3 * slidinglog.PageSize {
		s.c.Limits[0].Units++
		s.grant(writer, 1)
	}
	beyondAPage := func(c slidinglog.Call) bool { return !c.At.IsZero() }

	t.Run("while it reads", func(t *testing.T) {
		store := &heldStore{SimStore: s.store, hold: beyondAPage, held: make(chan struct{}, 1)}
		var events []slidinglog.EventKind
		l := s.openInOutage(store, &events)
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		if d, err := l.Acquire(ctx, s.c, s.asks(1)); !errors.Is(err, quota.ErrRecovering) || errors.Is(err, quota.ErrLost) {
			t.Errorf("%+v, %v; want that the log is being read", d, err)
		}
		if len(events) > 0 {
			t.Errorf("events %v", events)
		}
	})
	t.Run("then the store goes away", func(t *testing.T) {
		store := &fadingStore{SimStore: s.store, answers: 2}
		var events []slidinglog.EventKind
		l := s.openInOutage(store, &events)
		s.follow(1, l)
		if d, err := l.Acquire(t.Context(), s.c, s.asks(1)); err == nil {
			t.Errorf("%+v on a copy that has two pages of the log", d)
		}
		store.answers = 1000
		s.follow(4, l)
		store.answers = 0
		if d, err := l.Acquire(t.Context(), s.c, s.asks(1)); err != nil || !d[0].Outage {
			t.Errorf("%+v, %v on a copy that was read to its end", d, err)
		}
	})
}

// A promptStore answers only those who still wait.
type promptStore struct{ *ledgertest.SimStore }

func (s promptStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	outcomes := s.SimStore.Append(ctx, calls)
	if err := ctx.Err(); err != nil {
		return []slidinglog.Outcome{{Err: fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, err)}}
	}
	return outcomes
}

// A process stands still while a call waits: its deadline has ended long ago when it goes on. That is no
// outage. The call is made once more, and is carried out once.
func TestACallAfterAFreezeIsMadeOnceMore(t *testing.T) {
	s := newScene(t)
	var events []slidinglog.EventKind
	l := s.openInOutage(promptStore{s.store}, &events)
	s.follow(40, l)
	for n := range quota.Units(10) { // the lock may be free before the deadline is noticed
		s.now = s.now.Add(time.Minute) // no answer is recent
		ctx, cancel := context.WithDeadline(t.Context(), time.Now().Add(-time.Second))
		d, err := l.Acquire(ctx, s.c, s.asks(1))
		cancel()
		if err != nil || !d[0].Granted() || d[0].Outage || len(events) > 0 {
			t.Fatalf("%+v, %v; events %v", d, err, events)
		}
		s.follow(4, l)
		if u, err := l.Usage(t.Context(), s.c); err != nil || u.Limits[0].Used != n+1 {
			t.Fatalf("%d units are used, %v; want %d", u.Limits[0].Used, err, n+1)
		}
	}
}

// The answers to two grants and to a correction that returns units were lost. Until the log says what became of
// them, an outage counts the grants, and not what is returned.
func TestOpenAttemptsCountInAnOutage(t *testing.T) {
	s := newScene(t)
	store := &heldStore{SimStore: s.store, held: make(chan struct{}, 100)}
	var events []slidinglog.EventKind
	l := s.openInOutage(store, &events)
	s.follow(40, l)
	s.grant(l, 90)
	store.hold = func(c slidinglog.Call) bool { return len(c.Body) > 0 }
	unanswered := func(f func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		return f(ctx)
	}
	acquire := func(units quota.Units) (d []quota.Decision, err error) {
		err = unanswered(func(ctx context.Context) (err error) {
			d, err = l.Acquire(ctx, s.c, s.asks(units))
			return err
		})
		return d, err
	}
	for range 2 {
		if d, err := acquire(4); err == nil { // the store has answered lately, so this is no outage
			t.Fatalf("%+v without an answer", d)
		}
	}
	err := unanswered(func(ctx context.Context) error {
		_, err := l.Adjust(ctx, s.c, quota.Adjustment{Limit: "daily", Units: -5})
		return err
	})
	if err == nil {
		t.Fatal("a correction succeeds without an answer")
	}
	store.hold = func(slidinglog.Call) bool { return true }
	s.now = s.now.Add(time.Second)
	unanswered(func(ctx context.Context) error { l.Follow(ctx); return nil })
	for _, row := range []struct {
		units   quota.Units
		granted bool
	}{{3, false}, {2, true}} {
		d, err := acquire(row.units)
		if granted := err == nil && d[0].Granted() && d[0].Outage; granted != row.granted {
			t.Errorf("%d units of the 2 that are left: %+v, %v", row.units, d, err)
		}
	}
}

// A slowDisk calls a function before a frame is synced.
type slowDisk struct {
	*ledgertest.MemFile
	before func()
}

func (f *slowDisk) Append(credential string, frame []byte, sync bool) error {
	if sync {
		f.before()
	}
	return f.MemFile.Append(credential, frame, sync)
}

// While a grant of an outage is synced, the tables are written, and no call of another credential waits for the disk behind
// that. The tables have the grant.
func TestNothingWaitsForASync(t *testing.T) {
	s := newScene(t)
	store := &fadingStore{SimStore: s.store, answers: 1000}
	file, folded := &slowDisk{MemFile: ledgertest.NewMemFile()}, make(chan error, 1)
	l := s.open(slidinglog.Config{File: file, Store: store, Policies: s.policies()})
	s.follow(40, l)
	store.answers = 0
	file.before = func() {
		go func() { folded <- l.Fold() }()
		select {
		case err := <-folded:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Error("the tables wait for the sync of a grant")
		}
		file.before = func() {}
	}
	s.grant(l, 3)
	l = s.open(slidinglog.Config{File: file.Crash(false, 0), Store: store, Policies: s.policies()})
	if e := l.Entries(s.c); len(e) != 1 || quota.Max(e[0].Charges) != 3 {
		t.Errorf("after a kill the file has %+v", e)
	}
	store.answers = 1000
	s.follow(20, l)
	if u, err := l.Usage(t.Context(), s.c); err != nil || u.Limits[0].Used != 3 {
		t.Errorf("%+v, %v; want that 3 are booked once", u, err)
	}
}

// A roomyFile calls a function when room is reserved in it.
type roomyFile struct {
	*ledgertest.MemFile
	room func()
}

func (f *roomyFile) Room(credential string, n int) error {
	f.room()
	return f.MemFile.Room(credential, n)
}

// A call found the store down, and it is back before the call decides offline. Another call may be appending
// a grant then, which the copy does not count yet.
func TestNothingIsGrantedOfflineOnceTheStoreIsBack(t *testing.T) {
	s := newScene(t)
	store := &fadingStore{SimStore: s.store, answers: 1000}
	file := &roomyFile{MemFile: ledgertest.NewMemFile(), room: func() {}}
	l := s.open(slidinglog.Config{File: file, Store: store, Policies: s.policies()})
	s.follow(40, l)
	store.answers = 0
	file.room = func() {
		if l.Serves(s.c) {
			return
		}
		store.answers = 1000
		s.follow(4, l)
		if !l.Serves(s.c) {
			t.Error("the store is back, and the host does not serve")
		}
	}
	if d, err := l.Acquire(t.Context(), s.c, s.asks(1)); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("%+v, %v; want that the ledger was unavailable", d, err)
	}
}

// A host decides in an outage by its policy, its limits and its closings as they are then, and says why it
// grants no more. When the store is back, all is booked.
func TestPolicyOfAnOutage(t *testing.T) {
	s := newScene(t)
	store := &fadingStore{SimStore: s.store, answers: 1000}
	l := s.open(slidinglog.Config{Store: store, Policies: s.policies()})
	s.follow(20, l)
	s.grant(l, 20)
	store.answers = 0
	granted := func(r quota.Request, want quota.Units) quota.Decision {
		t.Helper()
		asks := s.asks(r.Count)
		r.Credential, r.Operation = s.c.Name, "list"
		asks[0].Request = r
		d, err := l.Acquire(t.Context(), s.c, asks)
		if err != nil || !d[0].Granted() || !d[0].Outage || d[0].Units != want {
			t.Fatalf("%+v, %v; want %d units granted offline", d, err, want)
		}
		return d[0]
	}
	refused := func(units quota.Units, why string) {
		t.Helper()
		if d, err := l.Acquire(t.Context(), s.c, s.asks(units)); err == nil || !strings.HasSuffix(err.Error(), why) {
			t.Errorf("%+v, %v; want an error that ends in %q", d, err, why)
		}
	}
	reload := func(open bool, units quota.Units) {
		t.Helper()
		if err := l.SetCredentials([]*quota.Credential{s.c}, map[string]slidinglog.Policy{s.c.Name: {Open: map[string]bool{"list": open}, Units: units}}); err != nil {
			t.Fatal(err)
		}
	}
	granted(quota.Request{Count: 2}, 2)
	refused(4, "of the 5 units for an outage of the ledger 3 are left, and 4 are asked")
	refused(99, `limit "daily" had no room for 99 units when the ledger last answered`)
	three := quota.Request{Count: 3, RequestID: "three"}
	first := granted(three, 3)
	if again := granted(three, 3); !again.Replayed || again.GrantID != first.GrantID {
		t.Errorf("%+v, want grant %s again", again, first.GrantID)
	}
	reload(true, 7) // what the old allowance granted counts against the new one
	granted(quota.Request{Count: 2}, 2)
	refused(1, "of the 7 units for an outage of the ledger 0 are left, and 1 are asked")
	reload(false, 50)
	refused(1, quota.ErrUnavailable.Error())
	s.c = credential(time.Hour)
	s.c.Limits[0].Units = 28 // has 27 already
	reload(true, 50)
	refused(2, `limit "daily" had no room for 2 units when the ledger last answered`)
	granted(quota.Request{Count: 1}, 1)
	store.answers = 1000
	s.follow(20, l)
	if u, err := l.Usage(t.Context(), s.c); err != nil || u.Limits[0].Used != 28 {
		t.Errorf("%+v, %v; want 28 units booked", u, err)
	}

	closing := quota.Change{Kind: quota.KindClosing, Limit: "daily", Until: s.now.Add(time.Hour), Note: "spent"}
	if changed, err := l.ChangeLimit(t.Context(), s.c, closing); err != nil || !changed {
		t.Fatal(changed, err)
	}
	store.answers = 0
	if d, err := l.Acquire(t.Context(), s.c, s.asks(1)); err != nil || d[0].Reason != quota.LimitClosed {
		t.Errorf("%+v, %v; want that the limit is closed", d, err)
	}
	if d, err := l.Peek(t.Context(), s.c, []string{"list"}, s.asks(1)[0].Charges, false); err != nil || d.Reason != quota.LimitClosed {
		t.Errorf("%+v, %v; want that the limit is closed", d, err)
	}
}

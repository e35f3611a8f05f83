package slidinglog_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A frozenStore carries out the next append, and its host then stands still until long after the caller's deadline.
// So the host has no answer to it.
type frozenStore struct {
	slidinglog.Store
	freezes *freeze // nil: none
	during  func()  // what happens meanwhile
}

func (s *frozenStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	f := s.freezes
	if f == nil || len(calls[0].Body) == 0 {
		return s.Store.Append(ctx, calls)
	}
	s.freezes = nil
	s.Store.Append(ctx, calls)
	s.during()
	f.ended = true
	return []slidinglog.Outcome{{Err: fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, context.DeadlineExceeded)}}
}

// A freeze is the context of a call, of which the deadline has passed a second ago once it has ended.
type freeze struct {
	context.Context
	ended  bool
	prompt bool // the end is noticed at once
}

func (f *freeze) Deadline() (time.Time, bool) {
	if f.ended && !f.prompt {
		return time.Now().Add(-time.Second), true
	}
	return time.Now().Add(time.Hour), true
}

func (f *freeze) Err() error {
	if f.ended {
		return context.DeadlineExceeded
	}
	return nil
}

// A correction is one call of an operator, or of a job.
type correction struct {
	name string
	make func(context.Context, *slidinglog.Ledger, *quota.Credential) error
	want string // what the limit has then, of 100 units
}

var boss = quota.Caller{UID: 1000}

// corrections are all that there are. 12 units are used before each, of which 5 are of one grant.
func corrections(grant quota.ID, now time.Time) []correction {
	type ctx = context.Context
	adjust := func(units int64) func(ctx, *slidinglog.Ledger, *quota.Credential) error {
		return func(ctx ctx, l *slidinglog.Ledger, c *quota.Credential) error {
			d, err := l.Adjust(ctx, c, quota.Adjustment{Limit: "daily", Units: units, Caller: boss})
			if err == nil && d.Units != quota.Units(max(units, -units)) {
				err = fmt.Errorf("%d units were adjusted", d.Units)
			}
			return err
		}
	}
	change := func(k quota.Change) func(ctx, *slidinglog.Ledger, *quota.Credential) error {
		k.Limit, k.Caller = "daily", boss
		return func(ctx ctx, l *slidinglog.Ledger, c *quota.Credential) error {
			changed, err := l.ChangeLimit(ctx, c, k)
			if err == nil && !changed {
				err = fmt.Errorf("it says that it changes nothing")
			}
			return err
		}
	}
	return []correction{
		{"book", adjust(4), "used 16"},
		{"return", adjust(-4), "used 8"},
		{"close", change(quota.Change{Kind: quota.KindClosing, Until: now.Add(time.Hour)}), "used 12, closed"},
		{"reset", func(ctx ctx, l *slidinglog.Ledger, c *quota.Credential) error {
			return l.Reset(ctx, c, boss, "")
		}, "used 0"},
		{"settle", func(ctx ctx, l *slidinglog.Ledger, c *quota.Credential) error {
			_, err := l.Settle(ctx, c, quota.Settlement{Grant: grant, Units: 2, Caller: boss})
			return err
		}, "used 9"},
	}
}

// eachCorrection plays a history for each correction, of one host on a store of its own and another one.
func eachCorrection(t *testing.T, play func(s *scene, l, other *slidinglog.Ledger, store *frozenStore, k correction, count func(want string))) {
	for i := range corrections(quota.ID{}, time.Time{}) {
		s := newScene(t)
		store := &frozenStore{Store: s.store}
		l, other := s.open(slidinglog.Config{Store: store}), s.open(slidinglog.Config{})
		s.follow(20, l, other)
		s.grant(l, 7)
		d, err := l.Acquire(t.Context(), s.c, s.asks(5))
		if err != nil {
			t.Fatal(err)
		}
		s.follow(1, l, other)
		_, grant, _ := quota.ParseGrantID(d[0].GrantID)
		k := corrections(grant, s.now)[i]
		t.Run(k.name, func(t *testing.T) {
			play(s, l, other, store, k, func(want string) {
				t.Helper()
				for name, l := range map[string]*slidinglog.Ledger{"its host": l, "the other host": other} {
					u, err := l.Usage(t.Context(), s.c)
					if err != nil {
						t.Fatal(err)
					}
					is := u.Limits[0]
					got := fmt.Sprintf("used %d", is.Used)
					if !is.Closed.IsZero() {
						got += ", closed"
					}
					if got != want {
						t.Errorf("%s has %s, want %s", name, got, want)
					}
				}
			})
		})
	}
}

// frozen makes a correction whose host stands still after the store has carried it out.
func (s *scene) frozen(l *slidinglog.Ledger, store *frozenStore, k correction, during func()) {
	s.t.Helper()
	ctx := &freeze{Context: s.t.Context()}
	store.freezes, store.during = ctx, during
	if err := k.make(ctx, l, s.c); err != nil || !ctx.ended {
		s.t.Errorf("%s: %v; it was frozen: %v", k.name, err, ctx.ended)
	}
}

// A host stands still after the store has carried out a correction, and goes on after the call's deadline. The
// correction is made once, and what others did meanwhile stays.
func TestACorrectionBeforeAFreezeIsMadeOnce(t *testing.T) {
	eachCorrection(t, func(s *scene, l, other *slidinglog.Ledger, store *frozenStore, k correction, count func(string)) {
		s.frozen(l, store, k, func() {})
		s.follow(8, l, other)
		count(k.want)
		if n := s.entriesOf(boss); n != 1 {
			t.Errorf("%s: the log has %d entries of it", k.name, n)
		}
	})
}

// entriesOf returns how many entries of a caller the log has.
func (s *scene) entriesOf(by quota.Caller) int {
	ids := make(map[quota.ID]bool)
	for _, r := range s.records() {
		for _, e := range r.Entries {
			if e.By == by.By() {
				ids[e.ID] = true
			}
		}
	}
	return len(ids)
}

// While a host stands still after a reset that it does not know of, another one grants. Its grant stays. A settlement
// is not made again after a later one.
func TestWhatOthersDoDuringAFreezeStays(t *testing.T) {
	eachCorrection(t, func(s *scene, l, other *slidinglog.Ledger, store *frozenStore, k correction, count func(string)) {
		want := ""
		var meanwhile func()
		switch k.name {
		case "reset":
			want, meanwhile = "used 3", func() { s.grant(other, 3) }
		case "settle":
			want, meanwhile = "used 13", func() {
				e := other.Entries(s.c)[1]
				if _, err := other.Settle(s.t.Context(), s.c, quota.Settlement{Grant: e.ID, Units: 6, Caller: quota.Caller{UID: 1}}); err != nil {
					t.Error(err)
				}
			}
		case "return":
			want, meanwhile = "used 11", func() { s.grant(other, 3) }
		default:
			return
		}
		s.frozen(l, store, k, meanwhile)
		s.follow(8, l, other)
		count(want)
	})
}

// A correction whose first answer is lost is appended again, because the log has lost it by then. Another host, which
// had read it, puts it back. It counts once.
func TestACorrectionThatIsPutBackCountsOnce(t *testing.T) {
	eachCorrection(t, func(s *scene, l, other *slidinglog.Ledger, store *frozenStore, k correction, count func(string)) {
		store.freezes, store.during = &freeze{}, func() {
			s.follow(1, other)
			s.store.DropLast(1)
		}
		if err := k.make(s.t.Context(), l, s.c); err != nil {
			t.Errorf("%s: %v", k.name, err)
		}
		s.follow(60, l, other)
		count(k.want)
	})
}

// A store that has just answered does not answer a correction in time. Its caller learns that it may have been made, and not
// that others were first.
func TestACorrectionWithoutAnAnswerIsUnknown(t *testing.T) {
	eachCorrection(t, func(s *scene, l, other *slidinglog.Ledger, store *frozenStore, k correction, count func(string)) {
		if k.name == "settle" { // which is made offline then
			return
		}
		ctx := &freeze{Context: s.t.Context(), prompt: true}
		store.freezes, store.during = ctx, func() {}
		if err := k.make(ctx, l, s.c); !errors.Is(err, quota.ErrOutcomeUnknown) {
			t.Errorf("%s: %v, want that the outcome is unknown", k.name, err)
		}
	})
}

// A settlement that a caller may not make is refused, though its first try found the store away, and the grant was settled
// meanwhile.
func TestASettlementIsJudgedAfterAFreeze(t *testing.T) {
	s := newScene(t)
	store := &fadingStore{SimStore: s.store, answers: 1000}
	l, other := s.open(slidinglog.Config{Store: store}), s.open(slidinglog.Config{})
	s.follow(20, l, other)
	d, err := other.Acquire(t.Context(), s.c, s.asks(5))
	if err != nil {
		t.Fatal(err)
	}
	_, grant, _ := quota.ParseGrantID(d[0].GrantID)
	if _, err := other.Settle(t.Context(), s.c, quota.Settlement{Grant: grant, Units: 2}); err != nil {
		t.Fatal(err)
	}
	ctx := &freeze{Context: t.Context(), ended: true}
	settled, err := l.Settle(ctx, s.c, quota.Settlement{Grant: grant, Units: 1000, Bounded: true})
	if err != nil || settled.Reason != quota.SettledTooHigh {
		t.Errorf("%+v, %v", settled, err)
	}
}

// The log has a correction that its host cannot write to its file. Its caller learns that it may have been made, and it
// counts.
func TestACorrectionThatTheFileLacks(t *testing.T) {
	s := newScene(t)
	file := &faultyFile{MemFile: ledgertest.NewMemFile()}
	l := s.open(slidinglog.Config{File: file})
	s.follow(20, l)
	s.grant(l, 5)
	file.appends = 1
	_, err := l.Adjust(t.Context(), s.c, quota.Adjustment{Limit: "daily", Units: 4, Caller: boss})
	if !errors.Is(err, quota.ErrOutcomeUnknown) || !errors.Is(err, errDisk) {
		t.Errorf("%v, want that the outcome is unknown, and the file's error", err)
	}
	s.follow(8, l)
	if u, err := l.Usage(t.Context(), s.c); err != nil || u.Limits[0].Used != 9 || s.entriesOf(boss) != 1 {
		t.Errorf("%+v, %v; %d entries of it", u, err, s.entriesOf(boss))
	}
}

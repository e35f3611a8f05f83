package slidinglog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A scene has hosts on one store, and a clock that only a test moves.
type scene struct {
	t     *testing.T
	now   time.Time
	store *ledgertest.SimStore
	c     *quota.Credential
	pause func(time.Duration) // instead of pausing
}

func newScene(t *testing.T) *scene {
	s := &scene{t: t, now: time.UnixMilli(1795345190000), c: credential(time.Hour), pause: func(time.Duration) {}}
	s.store = &ledgertest.SimStore{Clock: func() int64 { return s.now.UnixMilli() }}
	return s
}

func credential(window time.Duration) *quota.Credential {
	return (&quota.Credential{
		Name: "api", Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(window)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}).Prepared()
}

// open opens a host, with a new file, and the scene's store and clock, unless config names others.
func (s *scene) open(config slidinglog.Config) *slidinglog.Ledger {
	s.t.Helper()
	if config.File == nil {
		config.File = ledgertest.NewMemFile()
	}
	if config.Store == nil {
		config.Store = s.store
	}
	config.Credentials = []*quota.Credential{s.c}
	if config.Clock == nil {
		config.Clock = func() time.Time { return s.now }
	}
	config.Manual, config.Pause = true, func(_ context.Context, d time.Duration) { s.pause(d) }
	l, err := slidinglog.Open(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// The health names a credential from the loss of its log until that is put back.
func TestHealthOfALoss(t *testing.T) {
	s := newScene(t)
	l := s.open(slidinglog.Config{})
	recovering := func(want ...string) {
		t.Helper()
		if h := l.Health(t.Context()); !slices.Equal(h.Recovering, want) {
			t.Errorf("%q are recovering, want %q", h.Recovering, want)
		}
	}
	recovering() // the log is being read
	s.follow(20, l)
	s.grant(l, 1)
	recovering()
	s.store.Flush(s.c.Name)
	s.follow(4, l)
	recovering(s.c.Name)
	s.follow(20, l)
	recovering()
}

// pollTime is how often hosts follow the log.
const pollTime = 250 * time.Millisecond

// follow has hosts follow the log some times.
func (s *scene) follow(times int, hosts ...*slidinglog.Ledger) {
	for range times {
		s.now = s.now.Add(pollTime)
		for _, l := range hosts {
			l.Follow(s.t.Context())
		}
	}
}

func (s *scene) asks(units quota.Units) []quota.Ask {
	return []quota.Ask{{
		Request: quota.Request{Credential: s.c.Name, Operation: "list", Count: units},
		Charges: []quota.Charge{{Limit: "daily", Units: units}},
	}}
}

func (s *scene) grant(l *slidinglog.Ledger, units quota.Units) {
	s.t.Helper()
	if d, err := l.Acquire(s.t.Context(), s.c, s.asks(units)); err != nil || !d[0].Granted() {
		s.t.Fatal(d, err)
	}
}

// records returns the log.
func (s *scene) records() (log []slidinglog.Record) {
	s.t.Helper()
	for _, p := range s.store.Records(s.c.Name) {
		r, err := slidinglog.DecodeRecord(p)
		if err != nil {
			s.t.Fatal(err)
		}
		log = append(log, r)
	}
	return log
}

// An idle host has the end of the log, to which a log has fallen back. So it reads of the loss as of any
// other record. It must say that it is there, or the other hosts wait for it ten times as long.
func TestAnIdleHostIsThereAfterALoss(t *testing.T) {
	s := newScene(t)
	var hosts []*slidinglog.Ledger
	poll := func() {
		s.now = s.now.Add(pollTime)
		for _, l := range hosts {
			l.Poll()
		}
	}
	for range 2 {
		l := s.open(slidinglog.Config{})
		for hosts = append(hosts, l); !l.Serves(s.c); {
			poll()
		}
	}
	for range 20 {
		poll()
	}
	s.grant(hosts[0], 1)
	s.store.DropLast(1)
	fell := s.now
	for again := false; !again || !hosts[0].Serves(s.c); poll() {
		again = again || !hosts[0].Serves(s.c)
	}
	if took := s.now.Sub(fell); took > 6*time.Second {
		t.Errorf("nothing was granted for %v after the loss", took)
	}
}

// A host has stopped, and the log falls back to before it said so. The other host has read that, and
// all that the host knew, so it does not wait for it.
func TestAHostThatHasStoppedIsNotWaitedFor(t *testing.T) {
	s := newScene(t)
	one, other := s.open(slidinglog.Config{}), s.open(slidinglog.Config{})
	s.follow(40, one, other)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	s.follow(4, one)
	s.store.DropLast(1)
	fell := s.now
	for again := false; !again || !one.Serves(s.c); s.follow(1, one) {
		again = again || !one.Serves(s.c)
	}
	if took := s.now.Sub(fell); took > 6*time.Second {
		t.Errorf("nothing was granted for %v after the loss", took)
	}
}

// A reset of a log that is ahead of the clock empties it. What hosts have said in it has later places
// than what they say afterwards: they count as there, and say hello again.
func TestHostsAfterTheLogWasEmptied(t *testing.T) {
	s := newScene(t)
	file := ledgertest.NewMemFile()
	one, other := s.open(slidinglog.Config{}), s.open(slidinglog.Config{File: file})
	s.follow(60, one, other)
	s.now = s.now.Add(10 * time.Minute) // the clock is wrong
	s.follow(60, one, other)
	if err := other.Close(); err != nil { // it says that it stops
		t.Fatal(err)
	}
	s.follow(60, one)
	s.now = s.now.Add(-10 * time.Minute)
	if err := one.Reset(t.Context(), s.c, quota.Caller{}, "test"); err != nil {
		t.Fatal(err)
	}
	other = s.open(slidinglog.Config{File: file})
	s.follow(60, one, other)
	for name, l := range map[string]*slidinglog.Ledger{"the host that emptied it": one, "the other host": other} {
		if !one.Knows(s.c, l.Host()) {
			t.Errorf("%s does not count as there", name)
		}
		hello := false
		for _, r := range s.records() {
			hello = hello || r.Host == l.Host() && r.Says != nil && r.Says.Kind == slidinglog.Hello
		}
		if !hello {
			t.Errorf("the log has no hello of %s", name)
		}
	}
}

// A damagedFile lacks the entries of its tables while it is damaged.
type damagedFile struct {
	*ledgertest.MemFile
	damaged bool
}

type damagedTables struct{ slidinglog.Tables }

func (damagedTables) Rows(slidinglog.Table, []byte, bool) iter.Seq2[[]byte, []byte] {
	return func(func([]byte, []byte) bool) {}
}

func (f *damagedFile) View(credential string, do func(slidinglog.Tables) error) error {
	if !f.damaged {
		return f.MemFile.View(credential, do)
	}
	if err := f.MemFile.View(credential, func(t slidinglog.Tables) error { return do(damagedTables{t}) }); err != nil {
		return err
	}
	return errDisk
}

// A host that cannot read its file when the log was lost puts everything back once it can.
func TestALossWhileTheFileCannotBeRead(t *testing.T) {
	s := newScene(t)
	file := &damagedFile{MemFile: ledgertest.NewMemFile()}
	l := s.open(slidinglog.Config{File: file})
	s.follow(40, l)
	s.grant(l, 70)
	if err := l.Fold(); err != nil {
		t.Fatal(err)
	}
	s.store.Flush(s.c.Name)
	file.damaged = true
	s.follow(40, l)
	file.damaged = false
	s.follow(40, l)
	grants := 0
	for _, r := range s.records() {
		for _, e := range r.Entries {
			if e.Kind() == quota.KindGrant {
				grants++
			}
		}
	}
	if grants != 1 {
		t.Errorf("the log has %d grants", grants)
	}
}

// Two hosts that cannot reach the store may grant one request. One of the grants counts, and the log names
// it at the other one, which counts nothing.
func TestTheLogNamesTheGrantThatCounts(t *testing.T) {
	s := newScene(t)
	policies := map[string]slidinglog.Policy{s.c.Name: {Open: map[string]bool{"list": true}, Units: 9}}
	one, two := &fadingStore{SimStore: s.store, answers: 1000}, &fadingStore{SimStore: s.store, answers: 1000}
	x, y := s.open(slidinglog.Config{Store: one, Policies: policies}), s.open(slidinglog.Config{Store: two, Policies: policies})
	s.follow(20, x, y)
	one.answers, two.answers = 0, 0
	var ids []string
	for _, l := range []*slidinglog.Ledger{x, y} {
		asks := s.asks(3)
		asks[0].RequestID = "the same"
		d, err := l.Acquire(t.Context(), s.c, asks)
		if err != nil || !d[0].Outage {
			t.Fatalf("%+v, %v", d, err)
		}
		ids = append(ids, d[0].GrantID)
		s.now = s.now.Add(time.Second)
	}
	one.answers, two.answers = 1000, 1000
	s.follow(20, x, y)
	for _, l := range []*slidinglog.Ledger{x, y} {
		page, err := l.Log(t.Context(), s.c, quota.LogQuery{Max: 10})
		if err != nil || len(page.Entries) != 2 {
			t.Fatalf("%+v, %v", page, err)
		}
		void, counts := page.Entries[0], page.Entries[1]
		if g, _ := void.Grant(); !g.Void || quota.GrantID(s.c.Name, g.Counted) != ids[1] || quota.Max(void.Counts()) != 0 || quota.Max(counts.Counts()) != 3 {
			t.Errorf("the log has %+v and %+v, want the first one void and the second one, %s, named", void, counts, ids[1])
		}
	}
}

// A fadingStore answers some more calls, and then no more.
type fadingStore struct {
	*ledgertest.SimStore
	answers int
}

func (s *fadingStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	if s.answers--; s.answers < 0 {
		return []slidinglog.Outcome{{Result: slidinglog.Failed, Err: quota.ErrUnavailable}}
	}
	return s.SimStore.Append(ctx, calls)
}

// A host that is in a quiet period lacks what others put back. It grants nothing offline either, even if
// the log is lost again before the store goes away.
func TestNoOfflineGrantAfterALossInAQuietPeriod(t *testing.T) {
	s := newScene(t)
	store := &fadingStore{SimStore: s.store, answers: 1000}
	l := s.open(slidinglog.Config{
		Store:    store,
		Policies: map[string]slidinglog.Policy{s.c.Name: {Open: map[string]bool{"list": true}, Units: 5}},
	})
	s.follow(1, l)
	store.Flush(s.c.Name)
	store.answers = 1
	s.now = s.now.Add(time.Second)
	s.follow(1, l)
	if d, err := l.Acquire(t.Context(), s.c, s.asks(5)); !errors.Is(err, quota.ErrRecovering) {
		t.Errorf("%+v, %v", d, err)
	}
}

// An otherStore is another one than the host had.
type otherStore struct{ *ledgertest.SimStore }

func (otherStore) Name() string { return "another one" }

// A host that ended while it read a lost log again does not put that into another store.
func TestAnotherStoreAfterALoss(t *testing.T) {
	s := newScene(t)
	file := ledgertest.NewMemFile()
	store := &fadingStore{SimStore: s.store, answers: 1000}
	l := s.open(slidinglog.Config{File: file, Store: store})
	s.follow(40, l)
	s.grant(l, 1)
	store.Flush(s.c.Name)
	store.answers = 2
	s.now = s.now.Add(2 * time.Second)
	s.follow(1, l)
	if err := l.Fold(); err != nil {
		t.Fatal(err)
	}

	other := otherStore{&ledgertest.SimStore{Clock: s.store.Clock}}
	l = s.open(slidinglog.Config{File: file.Crash(false, 0), Store: other})
	s.follow(100, l)
	if d, err := l.Acquire(t.Context(), s.c, s.asks(1)); !errors.Is(err, slidinglog.ErrForeign) || len(other.Records(s.c.Name)) > 0 {
		t.Errorf("%+v, %v; %d records in the other store", d, err, len(other.Records(s.c.Name)))
	}
}

// A muteStore carries out what is appended while it is mute, and its caller does not wait for that answer, nor for
// those of its further tries.
type muteStore struct {
	*ledgertest.SimStore
	mute, muted bool
}

func (s *muteStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	outcomes := s.SimStore.Append(ctx, calls)
	if s.muted = s.mute && (s.muted || outcomes[0].Result == slidinglog.Done); s.muted {
		return []slidinglog.Outcome{{Err: fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, context.Canceled)}}
	}
	return outcomes
}

// However many grants had no caller any more: all of them are revoked.
func TestManyGrantsAreRevoked(t *testing.T) {
	s := newScene(t)
	store := &muteStore{SimStore: s.store}
	s.c.Limits[0].Units = 1000
	l := s.open(slidinglog.Config{Store: store})
	s.follow(20, l)
	var asks []quota.Ask
	for range quota.MaxAsks {
		asks = append(asks, s.asks(1)...)
	}
	store.mute = true
	for range 3 {
		store.muted = false
		if _, err := l.Acquire(t.Context(), s.c, asks); err == nil {
			t.Fatal("the outcome is known")
		}
	}
	store.mute = false
	s.follow(20, l)
	if u, err := l.Usage(t.Context(), s.c); err != nil || u.Limits[0].Used != 0 {
		t.Errorf("%d units are used, %v", u.Limits[0].Used, err)
	}
}

// A grant whose caller got no answer is revoked, too, if the log loses it before its writer reads it, and
// another host puts it back.
func TestAGrantThatAnotherHostPutsBackIsRevoked(t *testing.T) {
	s := newScene(t)
	store := &muteStore{SimStore: s.store}
	writer, other := s.open(slidinglog.Config{Store: store}), s.open(slidinglog.Config{})
	s.follow(20, writer, other)
	s.grant(writer, 1)
	store.mute = true
	if _, err := writer.Acquire(t.Context(), s.c, append(s.asks(2), s.asks(4)...)); err == nil {
		t.Fatal("the outcome is known")
	}
	store.mute = false
	s.follow(1, other)
	s.store.Flush(s.c.Name)
	s.follow(40, writer, other)
	for _, l := range []*slidinglog.Ledger{writer, other} {
		if u, err := l.Usage(t.Context(), s.c); err != nil || u.Limits[0].Used != 1 {
			t.Errorf("%d units are used, %v; want the one that was told", u.Limits[0].Used, err)
		}
	}
}

// Records that were removed from the middle of the log, or from its beginning, are missed by a host that
// reads it from its beginning. The log's key is deleted then, and a host that has them puts them back.
func TestRemovedRecordsAreNoticed(t *testing.T) {
	for name, removed := range map[string][2]int{"nothing": {0, 0}, "one in the middle": {5, 6}, "all but the last": {0, -1}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			old := s.open(slidinglog.Config{})
			s.follow(20, old)
			for range 10 {
				s.grant(old, 1)
				s.now = s.now.Add(time.Second)
			}
			from, to := removed[0], removed[1]
			if to < 0 {
				to += len(s.store.Records(s.c.Name))
			}
			s.store.Remove(s.c.Name, from, to)
			s.follow(5, old)
			fresh := s.open(slidinglog.Config{})
			s.follow(5, old, fresh)
			warned := strings.Contains(strings.Join(fresh.Health(t.Context()).Warnings, ""), "delete the log's key")
			if want := to > from; warned != want {
				t.Errorf("a new host warns: %v, want %v", warned, want)
			}
			s.store.Flush(s.c.Name)
			s.follow(40, old, fresh)
			u, err := fresh.Usage(t.Context(), s.c)
			if err != nil || u.Limits[0].Used != 10 || fresh.Hole(s.c) || old.Hole(s.c) {
				t.Errorf("%d units are used, %v, and the hole is still said", u.Limits[0].Used, err)
			}
		})
	}
}

// A record that the store carries out so late that it has dropped the one before it, as after a freeze, is
// not appended as if that was near: a host that reads the log from its beginning would miss a record.
func TestALateRecordIsNoHole(t *testing.T) {
	s := newScene(t)
	old := s.open(slidinglog.Config{})
	s.follow(20, old)
	freezes, froze := false, false
	late := s.open(slidinglog.Config{Store: &heldStore{SimStore: s.store, hold: func(c slidinglog.Call) bool {
		if len(c.Body) > 0 && freezes && !froze { // its second hello
			froze, s.now = true, s.now.Add(time.Hour+time.Minute)
		}
		return false
	}}})
	s.follow(1, late)
	s.now = s.now.Add(31 * time.Minute)
	s.follow(1, old)
	freezes = true
	s.follow(1, late)
	fresh := s.open(slidinglog.Config{})
	s.follow(5, late, fresh)
	if !froze || fresh.Hole(s.c) || late.Hole(s.c) {
		t.Errorf("after a freeze (%v), a host says that records were removed", froze)
	}
}

// What the store has dropped because no host needed it is no hole for a host that comes with a longer window.
func TestWhatHasExpiredIsNoHole(t *testing.T) {
	s := newScene(t)
	s.c.Limits[0].Units = 1000
	old := s.open(slidinglog.Config{})
	s.follow(20, old)
	for range 150 {
		s.grant(old, 1)
		s.now = s.now.Add(time.Minute)
		s.follow(1, old)
	}
	s.c = credential(24 * time.Hour)
	fresh := s.open(slidinglog.Config{})
	s.follow(5, old, fresh)
	if n := len(s.records()); n > 70 || fresh.Hole(s.c) {
		t.Errorf("of the log %d records are left, and a host says that records were removed: %v", n, fresh.Hole(s.c))
	}
}

// A log that holds no entry any more still says that it has dropped some: to a host with a longer window that
// comes when the record that said so first has been dropped, too, or right after another one has started again.
// Before, it does not say so.
func TestWhatWasDroppedIsSaid(t *testing.T) {
	for name, row := range map[string]struct {
		restartsAfter time.Duration
		dropped       bool
	}{"by an idle host": {0, true}, "by a host that starts again": {30 * time.Minute, true}, "not by one that does so before": {20 * time.Minute, false}} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			file := ledgertest.NewMemFile()
			one := s.open(slidinglog.Config{File: file})
			s.follow(20, one)
			s.grant(one, 1)
			s.now = s.now.Add(31 * time.Minute)
			s.follow(1, one) // another hello, which stands
			if row.restartsAfter > 0 {
				if err := one.Fold(); err != nil {
					t.Fatal(err)
				}
				s.now = s.now.Add(row.restartsAfter)
				one = s.open(slidinglog.Config{File: file.Crash(false, 0)})
				s.follow(1, one)
			} else {
				for range 9 {
					s.now = s.now.Add(31 * time.Minute)
					s.follow(1, one)
				}
			}
			if slices.ContainsFunc(s.records(), func(r slidinglog.Record) bool { return len(r.Entries) > 0 }) == row.dropped {
				t.Fatalf("the log has dropped the grant: %v", !row.dropped)
			}
			s.c = credential(24 * time.Hour)
			other := s.open(slidinglog.Config{})
			s.follow(20, other)
			if u, err := other.Usage(t.Context(), s.c); err != nil || u.Limits[0].CatchingUp.IsZero() == row.dropped {
				t.Errorf("%+v, %v; want that the longer window is not covered yet: %v", u, err, row.dropped)
			}
		})
	}
}

// A host that has not said yet that its window is shorter, because the log is in a quiet period, drops nothing
// that a host with a longer one would miss.
func TestNothingIsDroppedBeforeAHello(t *testing.T) {
	s := newScene(t)
	one := s.open(slidinglog.Config{})
	s.follow(1, one) // the quiet period of a new log
	s.now = s.now.Add(time.Hour + time.Second)
	s.open(slidinglog.Config{}).Follow(t.Context())
	s.c = credential(24 * time.Hour)
	other := s.open(slidinglog.Config{})
	other.Follow(t.Context())
	if n := len(s.records()); n != 4 || other.Hole(s.c) {
		t.Errorf("the log has %d records, want those of a loss and that each of 3 hosts is here; and a hole: %v", n, other.Hole(s.c))
	}
}

// A host that comes to a log with a longer window than the other hosts have: these have dropped what
// that window would have to count, so it counts once it is covered. A reset covers it.
func TestALongerWindowOnANewHost(t *testing.T) {
	s := newScene(t)
	open := func(window time.Duration) (*slidinglog.Ledger, *quota.Credential) {
		s.c = credential(window)
		l := s.open(slidinglog.Config{})
		s.follow(40, l)
		return l, s.c
	}
	catchingUp := func(l *slidinglog.Ledger, c *quota.Credential) time.Time {
		u, err := l.Usage(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return u.Limits[0].CatchingUp
	}
	one, c := open(time.Hour)
	for range 6 {
		s.grant(one, 9)
		s.now = s.now.Add(30 * time.Minute)
	}
	other, longer := open(24 * time.Hour)
	if at := catchingUp(other, longer); at.Before(s.now.Add(22*time.Hour)) || at.After(s.now.Add(23*time.Hour+time.Minute)) {
		t.Errorf("at %v, the longer window is covered at %v", s.now, at)
	}
	same, _ := open(time.Hour)
	if at := catchingUp(same, c); !at.IsZero() {
		t.Errorf("another host with the same window covers it at %v", at)
	}
	if err := one.Reset(t.Context(), c, quota.Caller{}, "test"); err != nil {
		t.Fatal(err)
	}
	if at := catchingUp(other, longer); !at.IsZero() {
		t.Errorf("after a reset, the longer window is covered at %v", at)
	}
}

// A host that could not poll for a while has not waited: the store may have been out of reach for the missing host,
// too. A laptop that wakes up after a minute of a quiet period does not end it.
func TestAGapIsNoWaiting(t *testing.T) {
	s := newScene(t)
	here, missing := s.open(slidinglog.Config{}), s.open(slidinglog.Config{})
	s.follow(20, here, missing)
	s.grant(missing, 3)
	s.grant(here, 1)
	s.store.Flush(s.c.Name)
	s.follow(4, here)
	s.now = s.now.Add(time.Minute)
	s.follow(1, here)
	if here.Serves(s.c) {
		t.Fatal("the quiet period has ended without a host that was given a second to come back")
	}
	s.follow(2, here, missing)
	s.follow(20, here)
	if got := s.used(here); got[0] != 4 {
		t.Errorf("%d units count, not 4", got[0])
	}
}

// A log that others always write to is read, though no look finds its end.
func TestAHostReadsABusyLog(t *testing.T) {
	s := newScene(t)
	other := s.open(slidinglog.Config{})
	s.follow(20, other)
	l := s.open(slidinglog.Config{Store: &busyStore{s.store, func(c slidinglog.Call) {
		if len(c.Body) == 0 {
			s.grant(other, 1)
		}
	}}})
	s.follow(2, l)
	if !l.Serves(s.c) {
		t.Error("it does not serve")
	}
}

// Hosts that ask for their turns get them one after the other. The others wait until that host has written, for half
// of their deadline at most.
func TestTurns(t *testing.T) {
	s := newScene(t)
	first, second := s.open(slidinglog.Config{}), s.open(slidinglog.Config{})
	s.follow(20, first, second)
	turn := func(l *slidinglog.Ledger) {
		record := slidinglog.Record{Tag: slidinglog.NewTag(), Host: l.Host(), Run: l.Run(), Says: &slidinglog.Statement{Kind: slidinglog.Yield}}
		s.store.Append(t.Context(), []slidinglog.Call{{Credential: s.c.Name, Body: record.Body(), NotAfter: 1 << 50, Keep: time.Hour, Blind: true}})
	}
	waited := func(l *slidinglog.Ledger, meanwhile func()) (waits time.Duration) {
		s.pause = func(d time.Duration) {
			s.now = s.now.Add(d)
			if waits += d; waits == 10*time.Millisecond {
				meanwhile()
			}
		}
		if _, err := l.Adjust(t.Context(), s.c, quota.Adjustment{Limit: "daily", Units: 1}); err != nil {
			t.Error(err)
		}
		return waits
	}
	turn(first)
	turn(second)
	var firstWaited time.Duration
	if got := waited(second, func() {
		pause := s.pause
		firstWaited = waited(first, func() {})
		s.pause = pause
	}); got != 10*time.Millisecond || firstWaited != 0 {
		t.Errorf("the second host has waited for %v, and the first for %v", got, firstWaited)
	}
	turn(second)
	if got := waited(first, func() {}); got != 125*time.Millisecond {
		t.Errorf("it has waited for %v for a host that does not write", got)
	}
}

// A slowHead calls a function while the id of its host is written.
type slowHead struct {
	*ledgertest.MemFile
	during func()
}

func (f *slowHead) SetHead(head []byte) error {
	if f.during != nil {
		f.during()
	}
	return f.MemFile.SetHead(head)
}

// While a host that has noticed a clone of itself writes its new id to the disk, it answers.
func TestNothingWaitsForANewID(t *testing.T) {
	s := newScene(t)
	file := &slowHead{MemFile: ledgertest.NewMemFile()}
	var events []slidinglog.EventKind
	l := s.open(slidinglog.Config{File: file, OnEvent: func(e slidinglog.Event) { events = append(events, e.Kind) }})
	s.follow(20, l)
	clone := s.open(slidinglog.Config{File: file.MemFile.Clone()})
	was, answered := l.Host(), make(chan struct{})
	file.during = func() {
		go func() {
			defer close(answered)
			l.Health(t.Context())
			if l.Host() != was {
				t.Error("it uses an id that is not written yet")
			}
		}()
		select {
		case <-answered:
		case <-time.After(time.Minute):
			t.Error("the health waits for the disk")
		}
	}
	s.follow(20, clone)
	s.follow(4, l)
	if l.Host() == was || !slices.Contains(events, slidinglog.Renamed) {
		t.Errorf("host %v was %v, events %v", l.Host(), was, events)
	}
}

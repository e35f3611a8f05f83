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

// A wire counts the calls of a host, keeps what they sent, and loses answers.
type wire struct {
	*ledgertest.SimStore
	sent []slidinglog.Call
	lose int // answers; the calls are carried out, or kept for later
	keep bool
	kept []slidinglog.Call
	fail int // calls after those, which are not carried out
}

func (w *wire) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	w.sent = append(w.sent, calls...)
	unknown := []slidinglog.Outcome{{Err: fmt.Errorf("%w: %w", quota.ErrOutcomeUnknown, context.Canceled)}}
	switch {
	case w.lose == 0 && w.fail > 0:
		w.fail--
		return []slidinglog.Outcome{{Result: slidinglog.Failed, Err: fmt.Errorf("%w: %w", quota.ErrUnavailable, context.Canceled)}}
	case w.lose == 0:
		return w.SimStore.Append(ctx, calls)
	case w.keep:
		w.kept = append(w.kept, calls...)
	default:
		w.SimStore.Append(ctx, calls)
	}
	w.lose--
	return unknown
}

// wideAndNarrow counts calls against a wide limit, and some also against a narrow one.
func wideAndNarrow() *quota.Credential {
	return (&quota.Credential{
		Name: "api",
		Limits: []quota.Limit{
			{Name: "daily", Units: 60, Window: quota.Sliding(time.Hour)},
			{Name: "narrow", Units: 3, Window: quota.Sliding(time.Hour), Only: []string{"both"}},
		},
		Operations: map[string]quota.Cost{"list": {Every: 1}, "both": {Every: 1}},
	}).Prepared()
}

// charged asks for units of each limit.
func (s *scene) charged(units ...quota.Units) []quota.Ask {
	ask := quota.Ask{Request: quota.Request{Credential: s.c.Name, Operation: "list", Count: 1}}
	if len(units) > 1 {
		ask.Operation = "both"
	}
	for i, n := range units {
		ask.Charges = append(ask.Charges, quota.Charge{Limit: s.c.Limits[i].Name, Units: n})
	}
	return []quota.Ask{ask}
}

// used returns what a host counts, once it has read the log.
func (s *scene) used(l *slidinglog.Ledger) []quota.Units {
	s.t.Helper()
	u, err := l.Usage(s.t.Context(), s.c)
	if err != nil {
		s.t.Fatal(err)
	}
	var used []quota.Units
	for _, state := range u.Limits {
		used = append(used, state.Used)
	}
	return used
}

// A grant is appended behind those of another host that it leaves room for, in the one call. It waits for what
// else the other host writes, and where there might be no room.
func TestGrantsOfTwoHosts(t *testing.T) {
	for _, row := range []struct {
		name    string
		other   func(s *scene, l *slidinglog.Ledger) // what another host does first
		asks    []quota.Units
		calls   int
		granted bool
		used    []quota.Units
	}{
		{"far from the wall", func(s *scene, l *slidinglog.Ledger) { s.take(l, 10, 1) }, []quota.Units{10, 1}, 1, true, []quota.Units{20, 2}},
		{"one limit each", func(s *scene, l *slidinglog.Ledger) { s.take(l, 30) }, []quota.Units{15}, 1, true, []quota.Units{45, 0}},
		{"many", func(s *scene, l *slidinglog.Ledger) {
			for range 39 {
				s.take(l, 1)
			}
		}, []quota.Units{20}, 1, true, []quota.Units{59, 0}},
		{"one too many", func(s *scene, l *slidinglog.Ledger) {
			for range 41 {
				s.take(l, 1)
			}
		}, []quota.Units{20}, 1, false, []quota.Units{41, 0}},
		{"no room in the narrow limit", func(s *scene, l *slidinglog.Ledger) { s.take(l, 2, 2) }, []quota.Units{2, 2}, 1, false, []quota.Units{2, 2}},
		{"the narrow limit is not its own", func(s *scene, l *slidinglog.Ledger) { s.take(l, 2, 2) }, []quota.Units{2}, 1, true, []quota.Units{4, 2}},
		{"an adjustment", func(s *scene, l *slidinglog.Ledger) {
			if _, err := l.Adjust(s.t.Context(), s.c, quota.Adjustment{Limit: "daily", Units: 1}); err != nil {
				s.t.Fatal(err)
			}
		}, []quota.Units{1}, 2, true, []quota.Units{2, 0}},
		{"a grant that is settled upwards", func(s *scene, l *slidinglog.Ledger) { s.settle(l, s.take(l, 1), 60) }, []quota.Units{1}, 1, false, []quota.Units{60, 0}},
		{"a grant that is settled downwards", func(s *scene, l *slidinglog.Ledger) { s.settle(l, s.take(l, 20), 10) }, []quota.Units{25}, 1, true, []quota.Units{35, 0}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t)
			s.c = wideAndNarrow()
			near := &wire{SimStore: s.store}
			other, l := s.open(slidinglog.Config{}), s.open(slidinglog.Config{Store: near})
			s.follow(20, other, l)
			row.other(s, other)
			near.sent = nil
			d, err := l.Acquire(t.Context(), s.c, s.charged(row.asks...))
			if err != nil || d[0].Granted() != row.granted || len(near.sent) != row.calls {
				t.Errorf("%+v, %v, in %d calls; want granted: %v, in %d", d, err, len(near.sent), row.granted, row.calls)
			}
			for _, l := range []*slidinglog.Ledger{other, l} {
				if got := s.used(l); fmt.Sprint(got) != fmt.Sprint(row.used) {
					t.Errorf("%v units are used, want %v", got, row.used)
				}
			}
			if row.granted && d[0].Limits[0].Used != row.used[0] {
				t.Errorf("the answer says that %d units are used, not %d", d[0].Limits[0].Used, row.used[0])
			}
		})
	}
}

// take has a host grant units of each limit.
func (s *scene) take(l *slidinglog.Ledger, units ...quota.Units) quota.Decision {
	s.t.Helper()
	d, err := l.Acquire(s.t.Context(), s.c, s.charged(units...))
	if err != nil || !d[0].Granted() {
		s.t.Fatal(d, err)
	}
	return d[0]
}

// settle has a host settle a grant.
func (s *scene) settle(l *slidinglog.Ledger, d quota.Decision, units quota.Units) {
	s.t.Helper()
	_, id, err := quota.ParseGrantID(d.GrantID)
	if err == nil {
		d, err = l.Settle(s.t.Context(), s.c, quota.Settlement{Grant: id, Units: units})
	}
	if err != nil || !d.Granted() {
		s.t.Fatal(d, err)
	}
}

// A settlement that raises nothing is appended behind grants and settlements of another host in one call, whatever
// those take. One that raises something reads them first.
func TestSettlementsOfTwoHosts(t *testing.T) {
	for units, calls := range map[quota.Units]int{0: 1, 20: 1, 21: 3} {
		s := newScene(t)
		near := &wire{SimStore: s.store}
		other, l := s.open(slidinglog.Config{}), s.open(slidinglog.Config{Store: near})
		s.follow(20, other, l)
		d := s.take(l, 20)
		s.settle(other, s.take(other, 80), 70)
		near.sent = nil
		if s.settle(l, d, units); len(near.sent) > calls {
			t.Errorf("settled to %d in %d calls, want %d at most", units, len(near.sent), calls)
		}
		if calls == 1 && len(near.sent) != 1 || calls > 1 && len(near.sent) < 2 {
			t.Errorf("settled to %d in %d calls", units, len(near.sent))
		}
		for _, l := range []*slidinglog.Ledger{other, l} {
			if got := s.used(l)[0]; got != 70+units {
				t.Errorf("%d units are used, want %d", got, 70+units)
			}
		}
	}
}

// Another host that counts by other limits may have taken what this one does not expect.
func TestGrantsUnderOtherTerms(t *testing.T) {
	s := newScene(t)
	s.c = wideAndNarrow()
	near := &wire{SimStore: s.store}
	l := s.open(slidinglog.Config{Store: near})
	mine, theirs := s.c, wideAndNarrow()
	theirs.Limits = theirs.Limits[:1]
	s.c = theirs.Prepared()
	other := s.open(slidinglog.Config{})
	s.follow(20, other, l)
	s.take(other, 1)
	s.c, near.sent = mine, nil
	if s.take(l, 1, 1); len(near.sent) != 2 {
		t.Errorf("it was appended in %d calls, want 2", len(near.sent))
	}
}

// Two hosts that are asked the same request at the same time have one answer, and count it once.
func TestOneRequestAtTwoHosts(t *testing.T) {
	for _, units := range []quota.Units{7, 9} { // the same request, or another one under its id
		s := newScene(t)
		near := &wire{SimStore: s.store}
		other, l := s.open(slidinglog.Config{}), s.open(slidinglog.Config{Store: near})
		s.follow(20, other, l)
		ask := func(l *slidinglog.Ledger, units quota.Units) quota.Decision {
			asks := s.asks(units)
			asks[0].RequestID = "one"
			d, err := l.Acquire(t.Context(), s.c, asks)
			if err != nil {
				t.Fatal(err)
			}
			return d[0]
		}
		first := ask(other, 7)
		near.sent = nil
		second := ask(l, units)
		if len(near.sent) != 1 {
			t.Errorf("it was appended in %d calls, want 1", len(near.sent))
		}
		same := units == 7
		if same && (second.GrantID != first.GrantID || !second.Replayed) || !same && second.Reason != quota.RequestIDConflict {
			t.Errorf("%d units: the second host answers %+v, the first %+v", units, second, first)
		}
		for _, l := range []*slidinglog.Ledger{other, l} {
			if got := s.used(l)[0]; got != units {
				t.Errorf("%d units are used, want %d", got, units)
			}
		}
		if !same {
			continue
		}
		for n, l := range []*slidinglog.Ledger{other, l} { // a repeat may name the other host's grant: either settles it
			again := ask(l, 7)
			if !again.Replayed {
				t.Errorf("a repeat is answered %+v", again)
			}
			for m, d := range []quota.Decision{first, again} {
				to := quota.Units(2*n + m)
				if s.settle(l, d, to); s.used(l)[0] != to {
					t.Errorf("settled to %d by %s, %d units are used", to, d.GrantID, s.used(l)[0])
				}
			}
		}
	}
}

// A call with slack could be carried out behind two positions, so each try has a tag of its own. It is carried
// out once all the same.
func TestTriesOfAGrant(t *testing.T) {
	s := newScene(t)
	near := &wire{SimStore: s.store}
	other, l := s.open(slidinglog.Config{}), s.open(slidinglog.Config{Store: near})
	s.follow(20, other, l)
	s.take(other, 5)
	near.sent, near.lose = nil, 1
	s.take(l, 7)
	if len(near.sent) != 2 || near.sent[0].Slack == 0 || slidinglog.Tag(near.sent[0].Body) == slidinglog.Tag(near.sent[1].Body) {
		t.Errorf("%d calls, or with the same tag", len(near.sent))
	}
	for _, l := range []*slidinglog.Ledger{other, l} {
		if got := s.used(l)[0]; got != 12 {
			t.Errorf("%d units are used, want 12", got)
		}
	}
}

// A call without an answer may be carried out behind records of other hosts, so it counts until the log has
// another record of its own host.
func TestAGrantWithoutAnAnswerCounts(t *testing.T) {
	for _, near := range []*wire{{lose: 3, keep: true}, {lose: 1, keep: true, fail: 2}} { // of three tries
		s := newScene(t)
		lose, fail := near.lose, near.fail
		near.SimStore, near.lose, near.fail = s.store, 0, 0
		other, l := s.open(slidinglog.Config{}), s.open(slidinglog.Config{Store: near})
		s.follow(20, other, l)
		near.lose, near.fail = lose, fail
		if _, err := l.Acquire(t.Context(), s.c, s.asks(60)); err == nil {
			t.Fatal("the outcome is known")
		}
		s.take(other, 1)
		if d, err := l.Acquire(t.Context(), s.c, s.asks(50)); err != nil || d[0].Granted() {
			t.Errorf("%d without an answer: %+v, %v, while 60 units may be granted", lose, d, err)
		}
		s.follow(8, l) // its hello
		if d, err := l.Acquire(t.Context(), s.c, s.asks(50)); err != nil || !d[0].Granted() {
			t.Errorf("%d without an answer: %+v, %v, after a record of its host", lose, d, err)
		}
		s.store.Append(t.Context(), near.kept)
		for _, l := range []*slidinglog.Ledger{other, l} {
			if got := s.used(l)[0]; got != 51 {
				t.Errorf("%d without an answer: %d units are used, want 51", lose, got)
			}
		}
	}
}

// A request whose first answer was lost is not granted again while the log may still get its record. It has its
// grant once the log has that, which other callers' grants without an answer have not: they are revoked.
func TestARequestWithoutAnAnswer(t *testing.T) {
	s := newScene(t)
	near := &wire{SimStore: s.store}
	other, l := s.open(slidinglog.Config{}), s.open(slidinglog.Config{Store: near})
	s.follow(20, other, l)
	asks := s.asks(7)
	asks[0].RequestID = "one"
	near.lose, near.keep = 3, true
	for range 2 {
		if d, err := l.Acquire(t.Context(), s.c, asks); !errors.Is(err, quota.ErrOutcomeUnknown) {
			t.Fatalf("%+v, %v, while its outcome is unknown", d, err)
		}
	}
	s.store.Append(t.Context(), near.kept[:1])
	s.follow(8, other, l)
	d, err := l.Acquire(t.Context(), s.c, asks)
	if err != nil || !d[0].Granted() || !d[0].Replayed {
		t.Errorf("%+v, %v, once the log has its record", d, err)
	}
	for _, l := range []*slidinglog.Ledger{other, l} {
		if got := s.used(l)[0]; got != 7 {
			t.Errorf("%d units are used, want 7", got)
		}
	}
}

// A denial is that of one instant, also where only a call of the same batch is in the way.
func TestABatchWithADenialIsExact(t *testing.T) {
	s := newScene(t)
	near := &wire{SimStore: s.store}
	other, l := s.open(slidinglog.Config{}), s.open(slidinglog.Config{Store: near})
	s.follow(20, other, l)
	s.take(other, 1)
	near.sent = nil
	if d, err := l.Acquire(t.Context(), s.c, append(s.asks(40), s.asks(70)...)); err != nil || !d[0].Granted() || d[1].Granted() {
		t.Errorf("%+v, %v", d, err)
	}
	for _, call := range near.sent {
		if call.Slack > 0 {
			t.Error("it was sent with slack")
		}
	}
}

// A part of a very large limit is many units. What a grant takes is rounded up, and what is left down.
func TestGrantsOfAVeryLargeLimit(t *testing.T) {
	s := newScene(t)
	s.c.Limits[0].Units = 1 << 40
	near := &wire{SimStore: s.store}
	other, l := s.open(slidinglog.Config{}), s.open(slidinglog.Config{Store: near})
	s.follow(20, other, l)
	s.grant(l, 1<<40-3000)
	s.grant(other, 1000)
	s.grant(other, 1000)
	if d, err := l.Acquire(t.Context(), s.c, s.asks(1500)); err != nil || d[0].Granted() {
		t.Errorf("%+v, %v; want a denial, 1,000 units are left", d, err)
	}
}

package slidinglog_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

// watched opens a host that has what it finds to be violated noted.
func (s *scene) watched(found *[]string) *slidinglog.Ledger {
	s.t.Helper()
	l := s.open(slidinglog.Config{Policies: s.policies(), OnViolation: func(v slidinglog.Violation) {
		*found = append(*found, fmt.Sprintf("%s %s: %s", v.Credential, v.Invariant, v.Says))
	}})
	return l
}

// passes has hosts read the log and fold, each second of a time.
func (s *scene) passes(d time.Duration, hosts ...*slidinglog.Ledger) {
	s.t.Helper()
	for range int(d / time.Second) {
		s.now = s.now.Add(time.Second)
		for _, l := range hosts {
			l.Follow(s.t.Context())
			if err := l.Fold(); err != nil {
				s.t.Fatal(err)
			}
		}
	}
}

// What may take a limit past its budget is no violation: a settlement, a booking, a loan that has ended.
func TestBookedPastABudget(t *testing.T) {
	var found []string
	s := newScene(t)
	a, b := s.watched(&found), s.watched(&found)
	s.passes(10*time.Second, a, b)
	d, err := a.Acquire(t.Context(), s.c, s.asks(90))
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := quota.ParseGrantID(d[0].GrantID)
	loan := quota.Change{Kind: quota.KindLoan, Limit: "daily", Units: 50, Until: s.now.Add(time.Minute)}
	if _, err := b.ChangeLimit(t.Context(), s.c, loan); err != nil {
		t.Fatal(err)
	}
	s.grant(b, 60)
	s.passes(2*time.Minute, a, b)
	if _, err := a.Settle(t.Context(), s.c, quota.Settlement{Grant: id, Units: 500}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Adjust(t.Context(), s.c, quota.Adjustment{Limit: "daily", Units: 1000}); err != nil {
		t.Fatal(err)
	}
	s.passes(2*time.Minute, a, b)
	for _, l := range []*slidinglog.Ledger{a, b} {
		if usage, err := l.Usage(t.Context(), s.c); err != nil || usage.Limits[0].Used != 1560 {
			t.Errorf("%+v, %v", usage, err)
		}
	}
	if len(found) > 0 {
		t.Errorf("found: %q", found)
	}
}

// A host grants more than another one would. That is a violation if it counts by the same limits, and none by others,
// also if it has not said these yet.
func TestGrantsByOtherLimits(t *testing.T) {
	for name, row := range map[string]struct {
		reloads, forges bool
		want            int
	}{
		"after a reload":      {reloads: true},
		"by other limits":     {},
		"by the same, forged": {forges: true, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			var found []string
			s := newScene(t)
			a, b := s.watched(&found), s.open(slidinglog.Config{})
			s.passes(10*time.Second, a, b)
			s.grant(a, 100)
			more := *s.c
			more.Limits = []quota.Limit{s.c.Limits[0]}
			more.Limits[0].Units = 1000
			larger := more.Prepared()
			if row.reloads {
				if err := b.SetCredentials([]*quota.Credential{larger}, nil); err != nil {
					t.Fatal(err)
				}
			}
			terms := s.records()[len(s.records())-1].Terms
			if d, err := b.Acquire(t.Context(), larger, s.asks(50)); err != nil || !d[0].Granted() {
				t.Fatal(d, err)
			}
			if row.forges {
				copy(s.store.Records("api")[len(s.records())-1].Body[25:], terms[:])
			}
			s.passes(10*time.Second, a, b)
			if len(found) != row.want || row.want > 0 && found[0] != "api budget: limit daily counts 150 since a grant of 50 units, and 100 is the most" {
				t.Errorf("found: %q, want %d", found, row.want)
			}
		})
	}
}

// A view that counts wrongly is found whichever part of it is wrong, reported once, and counted again.
func TestRecounts(t *testing.T) {
	const blocks, each = 4, 256
	for block := range blocks + 1 { // the last one is the sum of all
		var found []string
		s := newScene(t)
		s.c.Limits[0].Units = quota.MaxUnits
		l := s.watched(&found)
		s.passes(10*time.Second, l)
		for range blocks * each / quota.MaxAsks {
			asks := slices.Repeat(s.asks(1), quota.MaxAsks)
			if _, err := l.Acquire(t.Context(), s.c, asks); err != nil {
				t.Fatal(err)
			}
		}
		recounts := func() {
			for range 2 * (blocks + 1) { // a fold needs a change
				s.grant(l, 1)
				s.passes(time.Second, l)
			}
		}
		if recounts(); len(found) > 0 {
			t.Fatalf("found %q, and nothing is wrong", found)
		}
		l.Miscount(s.c, block, 5)
		recounts()
		if len(found) != 1 || !strings.HasPrefix(found[0], "api sums: limit daily counts ") {
			t.Errorf("block %d: found %q", block, found)
		}
		if usage, err := l.Usage(t.Context(), s.c); err != nil || usage.Limits[0].Used != blocks*each+4*(blocks+1) {
			t.Errorf("block %d: %+v, %v", block, usage.Limits, err)
		}
	}
}

// A credential that is shut grants nothing and says why, also while the store is away. What was spent can be corrected.
func TestShut(t *testing.T) {
	var found []string
	s := newScene(t)
	l := s.watched(&found)
	s.passes(10*time.Second, l)
	d, err := l.Acquire(t.Context(), s.c, s.asks(3))
	if err != nil {
		t.Fatal(err)
	}
	_, id, _ := quota.ParseGrantID(d[0].GrantID)
	why := fmt.Errorf("%w: so", quota.ErrUnusable)
	for _, shut := range []error{why, nil} {
		if err := l.Shut(s.c.Name, shut); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Acquire(t.Context(), s.c, s.asks(1)); !errors.Is(err, shut) {
			t.Errorf("acquire: %v, want %v", err, shut)
		}
		if _, err := l.Peek(t.Context(), s.c, []string{"list"}, s.asks(1)[0].Charges, false); !errors.Is(err, shut) {
			t.Errorf("peek: %v, want %v", err, shut)
		}
		if d, err := l.Settle(t.Context(), s.c, quota.Settlement{Grant: id, Units: 1}); err != nil || d.Reason != "" {
			t.Errorf("settle: %+v, %v", d, err)
		}
	}
}

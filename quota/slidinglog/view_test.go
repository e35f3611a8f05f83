package slidinglog_test

import (
	"iter"
	"slices"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/slidinglog"
)

var nine = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

// A countedLog counts how many entries are read of it.
type countedLog struct {
	entries []quota.Entry
	read    int
}

func (l *countedLog) After(id quota.ID) iter.Seq[quota.Entry] {
	n, _ := slices.BinarySearchFunc(l.entries, id, func(e quota.Entry, id quota.ID) int {
		if id.Less(e.ID) {
			return 1
		}
		return -1
	})
	return func(yield func(quota.Entry) bool) {
		for _, e := range l.entries[n:] {
			l.read++
			if !yield(e) {
				return
			}
		}
	}
}

func oneLimit(units quota.Units) *quota.Credential {
	return &quota.Credential{
		Name:       "one",
		Limits:     []quota.Limit{{Name: "daily", Units: units, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}
}

// filled is an account of so many entries of one unit, a millisecond apart.
func filled(c *quota.Credential, n int) (*slidinglog.Account, *countedLog) {
	account, log := &slidinglog.Account{}, &countedLog{}
	account.Advance(c, nine, log)
	for i := range n {
		e := quota.Entry{ID: quota.ID{Ms: nine.UnixMilli() + int64(i)}, Body: quota.Grant{Operation: "list", Count: 1},
			Charges: []quota.Charge{{Limit: "daily", Units: 1}}}
		log.entries = append(log.entries, e)
		account.Add(&e)
	}
	return account, log
}

// However long the log is, and however far a denial looks: it is exact, and reads a few
// hundred entries.
func TestFarDenialReadsLittle(t *testing.T) {
	const few = 600
	for _, n := range []int{1_000, 100_000} {
		c := oneLimit(quota.Units(n))
		account, log := filled(c, n)
		clock := nine.Add(time.Hour)
		for _, units := range []int{1, 2, n / 3, n - 1, n} {
			log.read = 0
			account.Advance(c, clock, log)
			d := account.Decide(c, []quota.Charge{{Limit: "daily", Units: quota.Units(units)}}, false, clock, log)
			want := nine.Add(24*time.Hour + time.Duration(units-1)*time.Millisecond)
			if d.Reason != quota.LimitExceeded || !d.RetryAt.Equal(want) || d.RetryAfter != want.Sub(clock) {
				t.Errorf("%d of %d units: got %q until %v, want a denial until %v", units, n, d.Reason, d.RetryAt, want)
			}
			if log.read > few {
				t.Errorf("%d of %d units: %d entries were read", units, n, log.read)
			}
		}
		// A day that expires at once is dropped block by block.
		log.read = 0
		account.Advance(c, nine.Add(24*time.Hour+time.Duration(n-1)*time.Millisecond-time.Millisecond), log)
		if got := account.Used()[0]; got != 1 || log.read > few {
			t.Errorf("of %d units %d are left, want 1; %d entries were read", n, got, log.read)
		}
	}
}

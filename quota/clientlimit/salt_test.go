package clientlimit

import (
	"bytes"
	"testing"
	"time"
)

// A salt is followed by the next one, of which the one before cannot be computed. It is drawn where
// that is of another time.
func TestSaltsFollow(t *testing.T) {
	const day = 24 * time.Hour
	for _, row := range []struct {
		name      string
		algorithm Algorithm
		window    time.Duration
		period    time.Duration
	}{
		{"a day at least", Log, time.Minute, day},
		{"a longer window", Log, 3 * day, 3 * day},
		{"two windows of a counter", Counter, day, 2 * day},
		{"two short windows of a counter", Counter, time.Hour, day},
	} {
		t.Run(row.name, func(t *testing.T) {
			c := limited(row.algorithm, 5, time.Second, row.window)
			begins := nine / row.period.Milliseconds() * row.period.Milliseconds()
			at := func(s Salt, after time.Duration) Salt { return s.At(c, begins+after.Milliseconds()) }
			first := at(Salt{}, 0)
			if other := at(Salt{}, 0); bytes.Equal(first.Before, other.Before) {
				t.Fatal("two hosts draw one secret")
			}
			if last := at(first, row.period-time.Millisecond); !bytes.Equal(last.Before, first.Before) {
				t.Error("it changes in its period")
			}
			second := at(first, row.period)
			if a, b := first.present(), second.Before; !bytes.Equal(a, b) || bytes.Equal(second.present(), first.present()) {
				t.Errorf("the secret before is %x, want %x", b, a)
			}
			if back := at(second, row.period-time.Millisecond); !bytes.Equal(back.Before, second.Before) {
				t.Error("a clock that steps back changes it")
			}
			for name, after := range map[string]time.Duration{"forward": 3 * row.period, "back": -time.Millisecond} {
				if drawn := at(second, after); bytes.Equal(drawn.Before, second.present()) || bytes.Equal(drawn.Before, second.Before) {
					t.Errorf("a clock that steps %s by more than a period leaves the secret", name)
				}
			}
			of, next := c.Ask(first, "alice", 1), c.Ask(second, "alice", 1)
			if next.Before != of.Subject || next.Subject == of.Subject || of.EndsMs != begins+row.period.Milliseconds() || next.BeforeEndsMs-of.EndsMs != c.counts().Milliseconds() {
				t.Errorf("got %+v after %+v", next, of)
			}
			if next.BeforeEndsMs > next.EndsMs {
				t.Error("what counts is older than the period before")
			}
		})
	}
}

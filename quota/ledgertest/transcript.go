package ledgertest

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// A Transcript has the last steps of a random history, to be written when one fails: no other is worth that.
type Transcript struct {
	Now   func() time.Time
	steps []step
}

type step struct {
	at     time.Time
	format string
	args   []any
}

// Say adds a step. What the arguments lead to must not change any more.
func (s *Transcript) Say(format string, args ...any) {
	const kept = 40
	s.steps = append(s.steps[max(0, len(s.steps)-kept):], step{s.Now(), format, args})
}

// String returns the steps, each in a line.
func (s *Transcript) String() string {
	var b strings.Builder
	for _, step := range s.steps {
		fmt.Fprintf(&b, "%s %s\n", step.at.Format("15:04:05.000000"), fmt.Sprintf(step.format, step.args...))
	}
	return b.String()
}

// same fails the test, and shows how it came to this, unless got and want agree.
func (s *Transcript) same(t testing.TB, what string, got, want any) {
	t.Helper()
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("%s%s:\n got %+v\nwant %+v", s, what, got, want)
	}
}

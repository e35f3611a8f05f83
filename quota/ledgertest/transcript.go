package ledgertest

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// A transcript has the last steps of a random history, to be written when one fails: no other is worth that.
type transcript struct {
	test  *testing.T
	now   func() time.Time
	steps []said
}

type said struct {
	at     time.Time
	format string
	args   []any
}

func (s *transcript) say(format string, args ...any) {
	const kept = 40
	s.steps = append(s.steps[max(0, len(s.steps)-kept):], said{s.now(), format, args})
}

// same fails the test, and shows how it came to this, unless got and want agree.
func (s *transcript) same(what string, got, want any) {
	s.test.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	for _, step := range s.steps {
		s.test.Log(step.at.Format("15:04:05.000 ") + fmt.Sprintf(step.format, step.args...))
	}
	s.test.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
}

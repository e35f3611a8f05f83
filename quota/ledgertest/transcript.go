package ledgertest

import (
	"fmt"
	"reflect"
	"testing"
	"time"
)

// A transcript has the last steps of a random history, to be shown when one fails.
type transcript struct {
	test  *testing.T
	now   func() time.Time
	lines []string
}

func (s *transcript) say(format string, args ...any) {
	const kept = 40
	s.lines = append(s.lines, s.now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
	s.lines = s.lines[max(0, len(s.lines)-kept):]
}

// same fails the test, and shows how it came to this, unless got and want agree.
func (s *transcript) same(what string, got, want any) {
	s.test.Helper()
	if reflect.DeepEqual(got, want) {
		return
	}
	for _, line := range s.lines {
		s.test.Log(line)
	}
	s.test.Fatalf("%s:\n got %+v\nwant %+v", what, got, want)
}

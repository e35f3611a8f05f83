package clientlimit

import "time"

// spans hold what is known of the current span of time and of the one before. The zero value is
// empty.
type spans[T any] struct {
	begun           time.Time // the current one
	current, before T
}

const span = time.Hour

// advance begins another span when the current one is over.
func (s *spans[T]) advance(now time.Time) {
	var none T
	switch over := now.Sub(s.begun); {
	case over < span:
		return
	case over < 2*span:
		s.before = s.current
	default:
		s.before = none
	}
	s.begun, s.current = now, none
}

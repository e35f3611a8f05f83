package scheduler

import (
	"fmt"
	"time"

	"github.com/go-co-op/gocron/v2"
)

// Beat calls a function at an interval from the loop that ticks, each time after the slots
// were checked: while it is called, ticks come. A call that would begin while the last one
// is under way is skipped. Nothing is called
// before Start, nor after Stop, which waits for a call under way.
func (s *Scheduler) Beat(every time.Duration, call func()) error {
	_, err := s.timers.NewJob(
		gocron.DurationJob(every),
		gocron.NewTask(func() {
			s.check()
			call()
		}),
		gocron.WithSingletonMode(gocron.LimitModeReschedule),
	)
	if err != nil {
		return fmt.Errorf("cannot schedule a beat every %v: %w", every, err)
	}
	return nil
}

package clientlimit

import (
	"context"
	"time"
)

// Watch keeps up with the other hosts until ctx ends, and then takes leave of them.
func (s *Service) Watch(ctx context.Context) {
	for tick := time.NewTicker(lookTime); ; {
		s.Refresh(ctx) // if it fails, what was read before goes on
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			s.leave()
			return
		}
	}
}

func (s *Service) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), s.Deadline)
	defer cancel()
	if now := s.snapshot.Load(); now.watched() {
		now.sharing.leave(ctx) // if it fails, the hello goes by itself
	}
}

// watched tells whether there is anything to keep up with.
func (s *snapshot) watched() bool {
	return s.sharing != nil && (len(s.names) > 0 || s.last.Load() != nil)
}

// Refresh reads what hosts share, and says there what this one counts.
func (s *Service) Refresh(ctx context.Context) error { return s.glance(ctx, 0, func(*seen) {}) }

// glanceTime is how old what Differences returns may be.
const glanceTime = time.Second

// Differences returns how other hosts that share the ledger count the same clients otherwise:
// nothing where the ledger cannot be read, whose health says why.
func (s *Service) Differences(ctx context.Context) (found []string) {
	s.glance(ctx, glanceTime, func(h *seen) { found = h.differs })
	return found
}

func (s *Service) glance(ctx context.Context, age time.Duration, f func(*seen)) error {
	now := s.snapshot.Load()
	if !now.watched() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	head, err := now.current(ctx, age)
	if err == nil {
		f(head)
	}
	return err
}

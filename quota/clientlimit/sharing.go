package clientlimit

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"hash"
	"slices"
	"sync/atomic"
	"time"

	"quotad/quota"
)

// A Host is one of those that share a ledger.
type Host struct {
	// ID returns what distinguishes hosts; nil: no other host uses the ledger.
	ID    func() string
	Label string // for people
}

// A sharing keeps this host's copy of the head of one ledger.
type sharing struct {
	ledger  Ledger
	host    Host
	emit    func(event any)
	refresh chan struct{} // a lock, of capacity 1: held while the head is read and changed

	mine atomic.Pointer[hello]
	last atomic.Pointer[seen]
}

// A seen head is one as it was read. The zero value was not read.
type seen struct {
	head
	clockMs int64     // of the ledger, when it was read
	at      time.Time // of the last try to read it
	of      *hello    // of this host, at that time
	differs []string
	others  map[string][]time.Duration // by clients, the windows of other hosts
}

// A Difference between how this host and another one count the same clients.
type Difference struct {
	Says   string
	Mended bool // there is none any more
}

const (
	// refreshInterval is how often the head is read.
	refreshInterval = 10 * time.Second
	// differencesAge is how old what Differences returns may be.
	differencesAge = time.Second
)

// Watch refreshes the head until ctx ends, and then removes this host from it.
func (s *Service) Watch(ctx context.Context) {
	for tick := time.NewTicker(refreshInterval); ; {
		s.Refresh(ctx) // if it fails, the last head stays in use
		select {
		case <-tick.C:
		case <-ctx.Done():
			tick.Stop()
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.Deadline)
			defer cancel()
			if now := s.snapshot.Load(); now.sharing != nil {
				now.leave(ctx) // if it fails, the hello expires
			}
			return
		}
	}
}

// Refresh reads the head that hosts share, and writes there what this one counts.
func (s *Service) Refresh(ctx context.Context) error {
	_, err := s.head(ctx, 0)
	return err
}

// Differences returns how other hosts that share the ledger count the same clients otherwise. It
// returns nothing if the ledger cannot be read: its health says why.
func (s *Service) Differences(ctx context.Context) []string {
	if head, err := s.head(ctx, differencesAge); err == nil && head != nil {
		return head.differs
	}
	return nil
}

// head returns the head, of at most that age; nil if there is nothing to share.
func (s *Service) head(ctx context.Context, maxAge time.Duration) (*seen, error) {
	now := s.snapshot.Load()
	if now.sharing == nil || len(now.groups) == 0 && !now.last.Load().wasRead() {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	return now.current(ctx, maxAge)
}

func (s *sharing) self() string {
	if s.host.ID == nil {
		return ""
	}
	return s.host.ID()
}

// current returns the head, of at most that age. If it cannot be read, the last one stays in use:
// the ledger limits for how long. A decision does not wait while another caller reads the head.
func (s *sharing) current(ctx context.Context, maxAge time.Duration) (*seen, error) {
	last := s.last.Load()
	if s.isFresh(last, maxAge) {
		return last, nil
	}
	select {
	case s.refresh <- struct{}{}:
	default:
		if last.wasRead() && maxAge == refreshInterval {
			return last, nil
		}
		select {
		case s.refresh <- struct{}{}:
		case <-ctx.Done():
			return nil, fmt.Errorf("%w: %w", quota.ErrUnavailable, ctx.Err())
		}
	}
	defer func() { <-s.refresh }()
	if last = s.last.Load(); s.isFresh(last, maxAge) {
		return last, nil
	}
	self, mine, next := s.self(), s.mine.Load(), *last
	h, clockMs, err := s.change(ctx, func(h head, clockMs int64) head { return h.next(self, *mine, last.Secrets, clockMs) })
	switch {
	case err == nil:
		next = seen{head: h, clockMs: clockMs, differs: h.differences(self, *mine), others: make(map[string][]time.Duration)}
		for name, counts := range mine.Counts {
			next.others[name] = h.otherWindows(self, name, counts.Algorithm)
		}
	case !last.wasRead():
		return nil, err
	}
	next.of, next.at = mine, time.Now()
	s.last.Store(&next)
	s.compare(last.differs, next.differs)
	return &next, nil
}

func (s *sharing) isFresh(last *seen, maxAge time.Duration) bool {
	return time.Since(last.at) < maxAge && last.of == s.mine.Load()
}

// wasRead reports whether there is a head: each one has a secret.
func (h *seen) wasRead() bool { return len(h.Secrets) > 0 }

// change replaces the head by what f makes of it.
func (s *sharing) change(ctx context.Context, f func(h head, clockMs int64) head) (h head, clockMs int64, err error) {
	err = s.ledger.replace(ctx, Place{}, func(text []byte, nowMs int64) ([]byte, int64, error) {
		read, err := decodeHead(text)
		if err != nil {
			return nil, 0, err
		}
		h, clockMs = f(read, nowMs), nowMs
		return h.encode(), h.endsMs(nowMs), nil
	})
	return h, clockMs, err
}

// compare reports differences that are new, and those that are mended.
func (s *sharing) compare(before, now []string) {
	for _, text := range now {
		if !slices.Contains(before, text) {
			s.emit(Difference{Says: text})
		}
	}
	for _, text := range before {
		if !slices.Contains(now, text) {
			s.emit(Difference{Says: text, Mended: true})
		}
	}
}

// leave removes this host's hello.
func (s *sharing) leave(ctx context.Context) error {
	self := s.self()
	if self == "" || !s.last.Load().wasRead() {
		return nil
	}
	_, _, err := s.change(ctx, func(h head, _ int64) head {
		delete(h.Hosts, self)
		return h
	})
	return err
}

// counted returns clients with the windows of other hosts.
func (h *seen) counted(c *Clients) *Clients {
	others := h.others[c.Name]
	if len(others) == 0 {
		return c
	}
	counted := *c
	counted.Kept = others
	return &counted
}

// asks returns what subjects ask for, by the keys of this head. To set up a keyed hash costs more
// than to use it, so all asks share those of the secrets.
func (h *seen) asks(c *Clients, all []priced) []Ask {
	keyed := make([]hash.Hash, len(h.Secrets))
	for i, secret := range h.Secrets {
		keyed[i] = hmac.New(sha256.New, secret.Bytes)
	}
	asks := make([]Ask, len(all))
	for i, one := range all {
		a := &asks[i]
		a.Subject, a.Units = one.subject.key(keyed[0], c.Plain), one.units
		if a.Subject.isPlain() {
			continue
		}
		a.UntilMs = h.clockMs + headTime.Milliseconds()
		if len(keyed) > 1 {
			a.Former = one.subject.key(keyed[1], c.Plain)
			a.SealMs = h.Secrets[0].SinceMs + sealTime.Milliseconds()
		}
	}
	return asks
}

package clientlimit

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"quotad/quota"
)

// A Host is who shares a ledger with others.
type Host struct {
	// ID returns what tells hosts apart; nil: no other host uses the ledger.
	ID    func() string
	Label string // for people
}

// A sharing keeps up with the head of one ledger.
type sharing struct {
	ledger Ledger
	host   Host
	differ func(Difference)
	turn   chan struct{} // taken by who reads the head, and changes it

	mine atomic.Pointer[hello]
	last atomic.Pointer[seen]
}

// A seen head is one as it was read.
type seen struct {
	head
	clockMs int64     // of the ledger, when it was read
	at      time.Time // when it was, or was tried again in vain
	of      *hello    // what this host said then
	differs []string
	keeps   map[string][]time.Duration // by clients, the windows that other hosts count them in
}

// A Difference is that other hosts count clients otherwise than this one; or that they did.
type Difference struct {
	Says   string
	Mended bool
}

// lookTime is how often the head is read.
const lookTime = 10 * time.Second

func newSharing(ledger Ledger, host Host, differ func(Difference)) *sharing {
	return &sharing{ledger: ledger, host: host, differ: differ, turn: make(chan struct{}, 1)}
}

func (s *sharing) self() string {
	if s.host.ID == nil {
		return ""
	}
	return s.host.ID()
}

// current returns the head, not older than that. If it cannot be read, the one that was read
// before goes on: what depends on its age is held to it by the ledger.
func (s *sharing) current(ctx context.Context, age time.Duration) (*seen, error) {
	fresh := func() *seen {
		if last := s.last.Load(); last != nil && time.Since(last.at) < age && last.of == s.mine.Load() {
			return last
		}
		return nil
	}
	if last := fresh(); last != nil {
		return last, nil
	}
	if last, err := s.take(ctx, age); last != nil || err != nil {
		return last, err
	}
	defer func() { <-s.turn }()
	if last := fresh(); last != nil {
		return last, nil
	}
	was, mine := s.last.Load(), s.mine.Load()
	next, err := s.look(ctx, was, mine)
	switch {
	case err != nil && was == nil:
		return nil, err
	case err != nil:
		again := *was
		next = &again
		next.of = mine
	}
	next.at = time.Now()
	s.last.Store(next)
	s.compare(was, next)
	return next, nil
}

// take takes the turn to read the head. Who may act on an older one does so, and waits for nobody who
// is reading it.
func (s *sharing) take(ctx context.Context, age time.Duration) (*seen, error) {
	select {
	case s.turn <- struct{}{}:
		return nil, nil
	default:
	}
	if last := s.last.Load(); last != nil && age == lookTime {
		return last, nil
	}
	select {
	case s.turn <- struct{}{}:
		return nil, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("%w: %w", quota.ErrUnavailable, ctx.Err())
	}
}

// look reads the head and changes it if it should be another one.
func (s *sharing) look(ctx context.Context, was *seen, mine *hello) (*seen, error) {
	var known []secret
	if was != nil {
		known = was.Secrets
	}
	h, clockMs, err := s.change(ctx, func(h head, clockMs int64) head { return h.next(s.self(), *mine, known, clockMs) })
	if err != nil {
		return nil, err
	}
	next := &seen{head: h, clockMs: clockMs, of: mine, differs: h.differences(s.self(), *mine), keeps: make(map[string][]time.Duration)}
	for name, counts := range mine.Counts {
		next.keeps[name] = h.kept(s.self(), name, counts.Algorithm)
	}
	return next, nil
}

// change replaces the head by what f makes of it.
func (s *sharing) change(ctx context.Context, f func(h head, clockMs int64) head) (head, int64, error) {
	for {
		text, clockMs, err := s.ledger.ReadHead(ctx)
		if err != nil {
			return head{}, 0, err
		}
		h, err := decodeHead(text)
		if err != nil {
			return head{}, 0, err
		}
		h = f(h, clockMs)
		next := h.encode()
		if bytes.Equal(next, text) {
			return h, clockMs, nil
		}
		swapped, err := s.ledger.SwapHead(ctx, text, clockMs, next, h.endsMs(clockMs))
		if err != nil || swapped {
			return h, clockMs, err
		}
	}
}

// compare notes differences that are new, and those that are mended.
func (s *sharing) compare(was, is *seen) {
	var before []string
	if was != nil {
		before = was.differs
	}
	for _, text := range is.differs {
		if !slices.Contains(before, text) {
			s.differ(Difference{Says: text})
		}
	}
	for _, text := range before {
		if !slices.Contains(is.differs, text) {
			s.differ(Difference{Says: text, Mended: true})
		}
	}
}

// leave takes this host's hello back.
func (s *sharing) leave(ctx context.Context) error {
	self := s.self()
	if self == "" || s.last.Load() == nil {
		return nil
	}
	_, _, err := s.change(ctx, func(h head, _ int64) head { return h.without(self) })
	return err
}

// ask returns what a subject asks for, by the keys of this time.
func (h *seen) ask(c *Clients, subject string, units quota.Units) Ask {
	a := Ask{Subject: KeyOf(h.Secrets[0].Bytes, subject, c.Plain), Units: units}
	if a.Subject.isPlain() {
		return a
	}
	a.UntilMs = h.clockMs + freshTime.Milliseconds()
	if len(h.Secrets) > 1 {
		a.Former = KeyOf(h.Secrets[1].Bytes, subject, c.Plain)
		a.SealMs = h.Secrets[0].SinceMs + sealTime.Milliseconds()
	}
	return a
}

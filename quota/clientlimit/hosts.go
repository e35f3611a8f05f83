package clientlimit

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"quotad/quota"
)

// A shared value is what the hosts on one store have in common. A host replaces it as a whole, if it
// is still what that host has read.
type shared struct {
	Version int
	Salts   map[string]Salt     // by group
	Hosts   map[string]counting // by id
}

// A Host is one of those that share a ledger.
type Host struct {
	ID    func() string // distinguishes hosts; nil: no other host uses the ledger
	Label string        // for people
}

// A counting is how a host counts clients.
type counting struct {
	Label  string
	Terms  map[string][]string // for people, by the name of the clients
	SeenMs int64               // when the host was last there, by the ledger's clock
}

const (
	sharedVersion = 2
	// refreshInterval is how often the shared value is read.
	refreshInterval = 10 * time.Second
	// A host says that it is there every hostInterval, and is gone when it has not for hostTime.
	hostInterval = 20 * time.Second
	hostTime     = time.Minute
)

// decodeShared reads a shared value. One that is damaged is lost, as a record may be.
func decodeShared(text []byte) (h shared, err error) {
	if err := json.Unmarshal(text, &h); err != nil {
		return shared{}, nil
	}
	if h.Version != sharedVersion {
		return h, fmt.Errorf("%w: hosts with another version of quotad share the ledger of clients: upgrade all of them", quota.ErrUnavailable)
	}
	return h, nil
}

func (h shared) encode() []byte {
	h.Version = sharedVersion
	text, err := json.Marshal(h)
	if err != nil {
		panic(err) // nothing in it can fail
	}
	return text
}

// endsMs is when nothing depends on the value any more, if no host writes it until then.
func (h shared) endsMs(nowMs int64) int64 {
	ends := nowMs + hostTime.Milliseconds()
	for _, salt := range h.Salts {
		ends = max(ends, salt.endsMs())
	}
	return ends
}

// follow has the salts of clients follow the clock. One that is lost is the one that this host still
// knows.
func (h *shared) follow(all []*Clients, known map[string]Salt, clockMs int64) {
	if h.Salts == nil {
		h.Salts = make(map[string]Salt)
	}
	maps.DeleteFunc(h.Salts, func(_ string, s Salt) bool { return clockMs >= s.endsMs() })
	for _, c := range all {
		group := c.group()
		salt, ok := h.Salts[group]
		if !ok {
			salt = known[group]
		}
		h.Salts[group] = salt.At(c, clockMs)
	}
}

// say writes how this host counts clients, and removes hosts that are gone.
func (h *shared) say(host Host, terms map[string][]string, nowMs int64) {
	if h.Hosts == nil {
		h.Hosts = make(map[string]counting)
	}
	maps.DeleteFunc(h.Hosts, func(_ string, there counting) bool { return !there.within(hostTime, nowMs) })
	id := host.ID()
	if was := h.Hosts[id]; !was.within(hostInterval, nowMs) || !maps.EqualFunc(was.Terms, terms, slices.Equal[[]string]) {
		h.Hosts[id] = counting{host.Label, terms, nowMs}
	}
}

func (c counting) within(time time.Duration, nowMs int64) bool {
	ago := nowMs - c.SeenMs
	return -time.Milliseconds() < ago && ago < time.Milliseconds()
}

// differences returns how other hosts count the same clients otherwise than this one.
func (h *shared) differences(mine map[string][]string) (found []string) {
	for _, id := range slices.Sorted(maps.Keys(h.Hosts)) {
		there := h.Hosts[id]
		for _, name := range slices.Sorted(maps.Keys(mine)) {
			theirs, both := there.Terms[name]
			if text := quota.DifferingTerms(there.Label, theirs, mine[name]); both && text != "" {
				found = append(found, "clients "+name+": "+text)
			}
		}
	}
	return found
}

// terms say how the clients are counted.
func (c *Clients) terms() []string {
	subjects := "hashed"
	if c.Plain {
		subjects = "plain"
	}
	lines := []string{"algorithm: " + string(c.Algorithm), "subjects: " + subjects}
	for _, limit := range c.Limits {
		lines = append(lines, fmt.Sprintf("limit %s: %s %s", limit.Name, limit.Units.Text(), limit.Describe()))
	}
	for operation, units := range c.Operations {
		lines = append(lines, fmt.Sprintf("operation %s: %s", operation, units.Text()))
	}
	slices.Sort(lines)
	return lines
}

// A sharing keeps this host's copy of the shared value of one ledger.
type sharing struct {
	ledger Decider
	host   Host
	emit   func(event any)
	lock   chan struct{} // of capacity 1: held while the value is read and changed

	mine atomic.Pointer[configured]
	last atomic.Pointer[seen]
}

// Configured is what this host has.
type configured struct {
	all   []*Clients
	terms map[string][]string // by the name of the clients
}

// A seen value is one as it was read. The zero value was not read.
type seen struct {
	shared
	clockMs int64       // of the ledger, when it was read
	of      *configured // at that time
	differs []string
}

// Watch refreshes the shared value until ctx ends.
func (s *Service) Watch(ctx context.Context) {
	tick := time.NewTicker(refreshInterval)
	defer tick.Stop()
	for {
		s.Refresh(ctx) // if it fails, the last value stays in use
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

// Refresh reads the value that hosts share, and writes there what this one counts.
func (s *Service) Refresh(ctx context.Context) error {
	now := s.snapshot.Load()
	if now.sharing == nil || len(now.groups) == 0 && now.last.Load().of == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.Deadline)
	defer cancel()
	return now.read(ctx, func(*seen) bool { return false }, 0)
}

// Differences returns how other hosts that share the ledger count the same clients otherwise, as it was
// when the shared value was read last.
func (s *Service) Differences() []string {
	if now := s.snapshot.Load(); now.sharing != nil {
		return now.last.Load().differs
	}
	return nil
}

// current returns the shared value as it was read last, or reads it if that was before a time of the
// ledger's clock or the last reload.
func (s *sharing) current(ctx context.Context, clockMs int64) (*seen, error) {
	enough := func(last *seen) bool { return last.of == s.mine.Load() && last.clockMs >= clockMs }
	if last := s.last.Load(); enough(last) {
		return last, nil
	}
	err := s.read(ctx, enough, clockMs)
	return s.last.Load(), err
}

// read reads the shared value and writes what this host has to say, unless another caller has read
// enough meanwhile. The ledger's clock is known to have reached a time.
func (s *sharing) read(ctx context.Context, enough func(last *seen) bool, clockMs int64) error {
	select {
	case s.lock <- struct{}{}:
		defer func() { <-s.lock }()
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", quota.ErrUnavailable, ctx.Err())
	}
	last, next := s.last.Load(), seen{of: s.mine.Load()}
	if enough(last) {
		return nil
	}
	err := s.ledger.replace(ctx, Place{}, 0, func(text []byte, nowMs int64) (_ []byte, endsMs int64, err error) {
		next.clockMs = max(nowMs, clockMs)
		if next.shared, err = decodeShared(text); err != nil {
			return nil, 0, err
		}
		next.follow(next.of.all, last.Salts, next.clockMs)
		if s.host.ID != nil {
			next.say(s.host, next.of.terms, nowMs)
		}
		return next.encode(), next.endsMs(nowMs), nil
	})
	if err != nil {
		return err
	}
	next.differs = next.differences(next.of.terms)
	s.last.Store(&next)
	return nil
}

package slidinglog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/seedtest"
)

// A simulation is a random history of three hosts with faults. What callers were told is kept by grant.
type simulation struct {
	*world
	*rand.Rand
	steps   []string
	ids     []string
	grants  map[string]quota.Units // what each counts, by its last settlement
	unknown quota.Units            // of calls whose outcome no caller knows
	bound   quota.Units            // what no other host had of a host that was ill when the log was lost
	written map[string][]written   // by host
	ill     map[string]bool        // hosts that do not reach the engine well
	copied  bool
	lost    time.Time   // when the log was
	most    quota.Units // that was told at one time
}

// A written is what a host has written.
type written struct {
	at    time.Time
	units quota.Units
}

func (s *simulation) note(format string, args ...any) {
	s.steps = append(s.steps, fmt.Sprintf("%s %s", time.Now().Format("04:05.000000"), fmt.Sprintf(format, args...)))
}

func (s *simulation) host() *host { return s.hosts[s.IntN(len(s.hosts))] }

func (s *simulation) told() (sum quota.Units) {
	for _, units := range s.grants {
		sum += units
	}
	s.most = max(s.most, sum)
	return sum
}

// acquire asks for a few units, and again under the same id while nothing is known.
func (s *simulation) acquire(h *host) {
	units := quota.Units(1 + s.IntN(5))
	id := fmt.Sprint("r", len(s.steps))
	d, err := h.askAs(id, units, within)
	unknown := errors.Is(err, quota.ErrOutcomeUnknown)
	for range 2 {
		if err != nil && unknown {
			d, err = h.askAs(id, units, within)
		}
	}
	s.note("%s asks for %d: %v %v %v", h.name, units, d.GrantID, d.Reason, err)
	switch {
	case err != nil && unknown:
		s.unknown += units
	case err == nil && d.Granted():
		s.grants[d.GrantID], s.ids = units, append(s.ids, d.GrantID)
		s.written[h.name] = append(s.written[h.name], written{time.Now(), units})
		s.told()
	}
}

// settle gives back some units of a grant that a caller was told of late.
func (s *simulation) settle(h *host) {
	if len(s.ids) == 0 {
		return
	}
	grant := s.ids[max(0, len(s.ids)-1-s.IntN(50))]
	was, known := s.grants[grant]
	if !known {
		return
	}
	to := quota.Units(s.IntN(int(was) + 1))
	err := h.settle(grant, to, within)
	s.note("%s settles %s from %d to %d: %v", h.name, grant, was, to, err)
	switch {
	case errors.Is(err, quota.ErrOutcomeUnknown):
		s.unknown += was
		delete(s.grants, grant)
	case err == nil:
		s.grants[grant] = to
		s.written[h.name] = append(s.written[h.name], written{time.Now(), was})
	}
}

// loses loses the log, if at most one host is ill.
func (s *simulation) loses(what string, lose func()) {
	if len(s.ill) > 1 {
		return
	}
	s.note("%s", what)
	s.lost = time.Now()
	for name := range s.ill {
		s.lacks(name)
	}
	lose()
}

// lacks adds to the bound what a host that is ill wrote after others mirrored it, before the log was lost.
func (s *simulation) lacks(name string) {
	for _, w := range s.written[name] {
		if since := s.lost.Sub(w.at); since >= 0 && since < 1500*time.Millisecond {
			s.bound += w.units
		}
	}
}

// falls has a host be ill, perhaps before it has put back what it has.
func (s *simulation) falls(h *host, meet func(Script, []any) fault) {
	s.ill[h.name] = true
	if time.Since(s.lost) < 2500*time.Millisecond {
		s.lacks(h.name)
	}
	h.way.disturb(meet)
}

// fault has something go wrong, or be well again.
func (s *simulation) fault() {
	h := s.host()
	server := fmt.Sprint("server", len(s.steps))
	switch s.IntN(13) {
	case 0:
		s.loses("flush", s.engine.flush)
	case 1, 12:
		key := []string{"entries", "state"}[s.IntN(2)]
		s.loses("DEL "+key, func() { s.engine.del(key) })
	case 2:
		s.note("a copy")
		s.engine.copy()
		s.copied = true
	case 3:
		if s.copied {
			s.loses("the copy", func() { s.engine.fallBack(server) })
		}
	case 4:
		s.note("the server changes")
		s.engine.set(func() { s.engine.twin.server = server })
	case 5:
		s.engine.set(func() { s.engine.away = !s.engine.away })
		s.note("away: %v", s.engine.away)
	case 6:
		back := time.Duration(s.IntN(3600)) * time.Second
		s.note("the clock steps back by %v", back)
		s.engine.set(func() { s.engine.offset -= back })
	case 7:
		s.note("%s loses answers", h.name)
		r := rand.New(rand.NewPCG(s.Uint64(), 1))
		var mu sync.Mutex // guards r
		s.falls(h, func(Script, []any) fault {
			mu.Lock()
			defer mu.Unlock()
			ms := func() time.Duration { return time.Duration(r.IntN(300)) * time.Millisecond }
			return fault{lose: r.IntN(3) == 0, drop: r.IntN(6) == 0, before: ms(), after: ms()}
		})
	case 8:
		s.note("%s is cut off", h.name)
		s.falls(h, func(Script, []any) fault { return fault{drop: true} })
	case 9, 10:
		s.note("%s is well again", h.name)
		delete(s.ill, h.name)
		h.way.disturb(nil)
	case 11:
		s.note("%s dies", h.name)
		h.kill()
		s.ill[h.name] = true
		if s.IntN(2) == 0 {
			s.loses("flush", s.engine.flush)
			time.Sleep(time.Duration(s.IntN(5000)) * time.Millisecond)
		}
		s.note("%s begins anew", h.name)
		delete(s.ill, h.name)
		s.hosts = slices.DeleteFunc(s.hosts, func(other *host) bool { return other == h })
		s.world.host(h.name)
	}
}

// play plays the history, and returns by how much it was over the budget, or what is wrong.
func (s *simulation) play() (over quota.Units, err error) {
	for range 60 {
		switch n := s.IntN(20); {
		case n < 10:
			h := s.host()
			for range 1 + s.IntN(40) {
				s.acquire(h)
			}
		case n < 12:
			s.settle(s.host())
		case n < 15:
			s.fault()
		default:
			time.Sleep(time.Duration(s.IntN(2500)) * time.Millisecond)
		}
	}
	s.note("all is well")
	s.engine.set(func() { s.engine.away = false })
	for _, h := range s.hosts {
		h.way.disturb(nil)
	}
	time.Sleep(8 * time.Second)
	told := s.told()
	over = max(0, s.most-budget)
	if over > s.bound {
		return over, fmt.Errorf("over by %d, want at most %d", over, s.bound)
	}
	for _, h := range s.hosts {
		if used := h.used(); used < told || used > told+s.unknown {
			return over, fmt.Errorf("host %s counts %d, callers were told %d, and %d may count", h.name, used, told, s.unknown)
		}
	}
	return over, nil
}

func TestSimulationOfHosts(t *testing.T) {
	seedtest.SkipUnderRace(t)
	seed, n := seedtest.Seed(t, 1), seedtest.Long(t, 30)
	var over, most, lost quota.Units
	for i := range n {
		play(t, 3, func(t *testing.T, w *world) {
			s := &simulation{world: w, Rand: rand.New(rand.NewPCG(seed, uint64(i))), grants: map[string]quota.Units{}}
			s.written, s.ill = map[string][]written{}, map[string]bool{}
			by, err := s.play()
			if err != nil {
				t.Fatalf("history %d of seed %d: %v\n%s", i, seed, err, strings.Join(s.steps, "\n"))
			}
			over, most, lost = over+min(1, by), max(most, by), lost+s.bound
		})
	}
	t.Logf("%d histories: over in %d of them, by %d at most; %d units were lost with ill hosts", n, over, most, lost)
}

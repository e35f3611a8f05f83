package slidinglog

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/lua"
	"quotad/quota"
	"quotad/quota/journal"
)

// Of many callers that are told lost at one time, one puts the journal back.
func TestOneCallerPutsBack(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		h := w.hosts[0]
		h.spend(100, time.Millisecond)
		w.engine.flush()
		before := w.engine.put()
		h.way.disturb(delayed(Restore, 10*time.Millisecond, 0))
		var callers sync.WaitGroup
		for range 64 {
			callers.Go(func() { h.Acquire(t.Context(), h.c, askOf("", 1)) })
		}
		callers.Wait()
		if n := w.engine.put() - before; n != 100 {
			t.Errorf("%d entries were put back, want the journal's 100 once", n)
		}
	})
}

// A machine that boots hours behind: what the log granted keeps its time, and counts when TIME is right again.
func TestPutBackAtItsOwnTime(t *testing.T) {
	play(t, 2, func(t *testing.T, w *world) {
		w.hosts[0].spend(600, time.Millisecond)
		w.engine.set(func() { w.engine.offset = -3 * time.Hour })
		w.engine.flush()
		time.Sleep(3500 * time.Millisecond)
		w.engine.set(func() { w.engine.offset = 0 })
		w.full(0)
	})
}

// A log that runs ahead of TIME is a grave trouble. A reset begins it anew at TIME: nothing of the wrong clock counts,
// also not what another host puts back, and later entries leave in time.
func TestLogAheadOfTime(t *testing.T) {
	play(t, 2, func(t *testing.T, w *world) {
		h, other := w.hosts[0], w.hosts[1]
		for _, host := range w.hosts {
			host.configure(credential(budget, quota.Sliding(5*time.Minute)))
		}
		w.engine.set(func() { w.engine.offset = 400 * 24 * time.Hour })
		h.spend(10, time.Millisecond)
		other.spend(10, time.Millisecond)
		w.engine.set(func() { w.engine.offset = 0 })
		time.Sleep(1100 * time.Millisecond)
		if clocks := h.Health(t.Context()).Clock; len(clocks) != 1 {
			t.Errorf("Health has %q, want that the log is ahead", clocks)
		}
		noError(t, h.Reset(t.Context(), h.c, quota.Caller{}, "the clock"))
		for _, what := range []string{"a reset", "a flush"} {
			time.Sleep(5 * time.Second)
			if clocks := h.Health(t.Context()).Clock; len(clocks) != 0 {
				t.Errorf("after %s Health has %q", what, clocks)
			}
			h.spend(3, time.Millisecond)
			other.spend(4, time.Millisecond)
			want := quota.Units(7)
			if what == "a flush" {
				want = 14
			}
			if used := h.used(); used != want {
				t.Errorf("%d are used after %s, want %d", used, what, want)
			}
			time.Sleep(1100 * time.Millisecond)
			w.engine.flush()
		}
		time.Sleep(h.c.Longest())
		if used := other.used(); used != 0 {
			t.Errorf("%d are used a window later", used)
		}
	})
}

// A log that a restore began says on which server: an older copy of it on another one grants nothing at first, also
// to a host that has never seen it.
func TestNewHostAfterAnOlderCopy(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		has := w.hosts[0]
		has.spend(300, time.Millisecond)
		w.engine.copy()
		has.spend(600, time.Millisecond)
		has.way.disturb(func(Script, []any) fault { return fault{drop: true} }) // until its next poll
		w.engine.fallBack("second")
		fresh := w.host("b")
		fresh.spend(500, time.Millisecond)
		has.way.disturb(nil)
		w.full(0)
	})
}

// Restores that take longer than the quiet: each page that is not the last prolongs it.
func TestSlowRestore(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		has := w.hosts[0]
		for _, h := range w.hosts {
			h.configure(credential(1800, quota.Sliding(time.Hour)))
		}
		has.spend(1600, 0)
		has.way.disturb(delayed(Restore, 700*time.Millisecond, 0))
		w.engine.flush()
		fresh := w.host("b")
		fresh.configure(has.c)
		fresh.spend(1000, 5*time.Millisecond)
		has.way.disturb(nil)
		time.Sleep(3 * time.Second)
		fresh.spend(400, 0)
		if w.told != 1800 {
			t.Errorf("told %d of 1800", w.told)
		}
	})
}

// A journal that takes longer to put back than any call waits is put back all the same. The calls are told so.
func TestLongRestore(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		h := w.hosts[0]
		h.configure(credential(1800, quota.Sliding(time.Hour)))
		for range 1600 {
			h.ask(1)
		}
		h.way.disturb(delayed(Restore, 500*time.Millisecond, 0))
		w.engine.flush()
		_, err := h.askAs("", 1, 700*time.Millisecond)
		if !errors.Is(err, quota.ErrRecovering) || h.event().Kind == Down {
			t.Errorf("between two pages: %v, and %v", err, h.event())
		}
		time.Sleep(20 * time.Second)
		for range 400 {
			h.ask(1)
		}
		if w.told != 1800 {
			t.Errorf("told %d of 1800", w.told)
		}
		h.way.disturb(nil)
		time.Sleep(time.Second)
	})
}

// The log is lost once more between two pages: they begin anew.
func TestLostBetweenPages(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		h := w.hosts[0]
		h.configure(credential(1400, quota.Sliding(time.Hour)))
		h.spend(1100, 0)
		pages := 0
		h.way.disturb(func(s Script, _ []any) fault {
			if s == Restore {
				if pages++; pages == 3 {
					w.engine.flush()
				}
			}
			return fault{}
		})
		w.engine.flush()
		time.Sleep(3500 * time.Millisecond)
		h.spend(400, 0)
		if w.told != 1400 || pages < 5 {
			t.Errorf("told %d of 1400 after %d pages", w.told, pages)
		}
	})
}

// What came back at old times is mirrored, too.
func TestMirrorWhatCameBack(t *testing.T) {
	play(t, 2, func(t *testing.T, w *world) {
		away, other := w.hosts[0], w.hosts[1]
		away.mayGrantAlone(200)
		away.way.disturb(func(Script, []any) fault { return fault{drop: true} })
		away.spend(200, time.Millisecond)
		if w.told != 200 {
			t.Fatalf("told %d alone, want 200", w.told)
		}
		for range 3 { // the other one goes on, and mirrors
			other.spend(10, time.Millisecond)
			time.Sleep(time.Second)
		}
		away.way.disturb(nil)
		time.Sleep(2100 * time.Millisecond) // it puts back; the other one mirrors
		away.kill()
		w.engine.flush()
		w.full(0)
	})
}

// A grant whose log is gone when its answer arrives is asked for again before it is answered.
func TestGrantOfALogThatIsGone(t *testing.T) {
	play(t, 2, func(t *testing.T, w *world) {
		h := w.hosts[0]
		held := false
		h.way.disturb(func(s Script, args []any) fault {
			if s == Acquire && args[0] != "" && !held {
				held = true
				return fault{after: 6 * time.Second}
			}
			return fault{}
		})
		answered := make(chan quota.Decision)
		go func() {
			d, _ := h.askAs("", 7, 10*time.Second)
			answered <- d
		}()
		time.Sleep(time.Second / 3) // before a poll mirrors it
		w.engine.flush()
		time.Sleep(4 * time.Second)
		if d, err := h.askAs("", 1, time.Second); !d.Granted() { // the log is whole again, and has a newer entry of the host
			t.Errorf("got %+v, %v", d, err)
		}
		d := <-answered
		time.Sleep(2 * time.Second)
		if used := h.used(); !d.Granted() || used != 8 {
			t.Errorf("granted %v, and %d are used; want 8", d.Granted(), used)
		}
	})
}

// Closings, openings, resets and settlements come back in any order: the outcome is one.
func TestCorrectionsInAnyOrder(t *testing.T) {
	w := newTwin(t, lua.Usual(), nil)
	w.name, w.server, w.clock = "c", "s", 1_764_000_000e6
	ago := func(s int64) int64 { return w.clock - s*1e6 }
	closing := func(s int64) string { return fmt.Sprintf("\nclose daily %d @0 %% why", w.clock+s*1e6) }
	records := []journal.Record{
		{ID: "old", At: ago(12), Text: " daily=50\ngrant op 50 @0 % %"},
		{ID: "reset", At: ago(11), Text: "\nreset - 0 @0 % %"},
		{ID: "grant", At: ago(10), Text: " daily=9\ngrant op 9 @0 % %"},
		{ID: "first", At: ago(9), Text: "\nsettle grant 4 @0 % %"},
		{ID: "last", At: ago(8), Text: "\nsettle grant 6 @0 % %"},
		{ID: "longest", At: ago(7), Text: closing(900)},
		{ID: "opened", At: ago(6), Text: "\nclose daily 0 @0 % %"},
		{ID: "longer", At: ago(5), Text: closing(300)},
		{ID: "shorter", At: ago(4), Text: closing(100)},
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 300 {
		r.Shuffle(len(records), func(i, j int) { records[i], records[j] = records[j], records[i] })
		noError(t, w.forget(w.keys()...))
		args := []any{"e", "", int64(3600e6), 0}
		for _, r := range records {
			args = append(args, r.ID, r.At, 0, r.Text)
		}
		if _, err := w.run(Restore, args...); err != nil {
			t.Fatal(err)
		}
		w.clock += 3e6
		look := call{known: known{epoch: "e", keep: 3600e6}, checks: []quota.Check{{Limit: "daily", Length: time.Hour, Max: 100, Cost: 1}}}
		got, err := w.ask(look)
		w.clock -= 3e6
		if err != nil || got.word != denied || got.limits[0].used != 6 || got.limits[0].retry != w.clock+300e6 {
			t.Fatalf("in this order %v\ngot %+v, %v; want 6 used, closed for 300 s", records, got, err)
		}
	}
}

// What arrives after its caller has left does nothing: an acquire or, of the corrections, a settlement.
func TestLateCalls(t *testing.T) {
	calls := map[string]func(ctx context.Context, h *host, grant quota.ID) error{
		"acquire": func(ctx context.Context, h *host, _ quota.ID) error {
			_, err := h.Acquire(ctx, h.c, askOf("", 100))
			return err
		},
		"settle": func(ctx context.Context, h *host, grant quota.ID) error {
			_, err := h.Settle(ctx, h.c, quota.Settlement{Grant: grant, Units: 100})
			return err
		},
	}
	for name, do := range calls {
		t.Run(name, func(t *testing.T) {
			play(t, 1, func(t *testing.T, w *world) {
				h := w.hosts[0]
				d, err := h.ask(9)
				noError(t, err)
				_, grant, _ := quota.ParseGrantID(d.GrantID)
				h.way.disturb(func(s Script, args []any) fault {
					if (s == Acquire || s == Correct) && args[0] != "" {
						return fault{before: time.Second}
					}
					return fault{}
				})
				ctx, cancel := context.WithTimeout(t.Context(), within)
				defer cancel()
				if err := do(ctx, h, grant); !errors.Is(err, quota.ErrOutcomeUnknown) {
					t.Errorf("got %v, want that the outcome is unknown", err)
				}
				time.Sleep(3 * time.Second)
				h.way.disturb(nil)
				if d, err := h.ask(1); err != nil || !d.Granted() || h.used() != 10 {
					t.Errorf("a late call was carried out: %+v %v, %d are used", d, err, h.used())
				}
			})
		})
	}
}

// A call that may have been carried out stays in doubt, however the next tries fail.
func TestDoubtStays(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		tries := 0
		w.hosts[0].way.disturb(func(s Script, args []any) fault {
			if s == Acquire && args[0] != "" {
				tries++
			}
			return fault{lose: tries == 1, drop: tries > 1}
		})
		if d, err := w.hosts[0].ask(1); !errors.Is(err, quota.ErrOutcomeUnknown) || tries < 2 {
			t.Errorf("got %+v, %v after %d tries, want that the outcome is unknown", d, err, tries)
		}
	})
}

// A host with a shorter window drops nothing that another one needs.
func TestGreatestKeepOfAllHosts(t *testing.T) {
	play(t, 2, func(t *testing.T, w *world) {
		short, long := w.hosts[0], w.hosts[1]
		short.kill()
		short = w.host("c")
		short.configure(credential(budget, quota.Sliding(time.Minute)))
		long.configure(credential(budget, quota.Sliding(15*time.Minute)))
		long.spend(100, time.Millisecond)
		time.Sleep(11 * time.Minute)
		for range 3 {
			short.spend(10, time.Millisecond)
			time.Sleep(time.Minute)
		}
		if used := long.used(); used != 130 {
			t.Errorf("%d are used in a quarter of an hour, want 130", used)
		}
	})
}

// While the engine is away, hosts share what was left, each grants at most its allowance, and an id counts once.
func TestOutage(t *testing.T) {
	play(t, 2, func(t *testing.T, w *world) {
		for _, h := range w.hosts {
			h.mayGrantAlone(300)
		}
		w.hosts[0].spend(500, time.Millisecond)
		dead := w.host("dead")
		time.Sleep(2 * time.Second) // it says that it lives
		dead.kill()
		time.Sleep(7 * time.Second)
		w.engine.set(func() { w.engine.away = true })
		for _, h := range w.hosts[:2] {
			before := w.told
			for range 2 { // of the other host it is another request
				if d, err := h.askAs("id", 100+quota.Units(h.name[0]), within); err != nil || !d.Granted() {
					t.Fatal(d, err)
				}
			}
			h.spend(400, time.Millisecond)
			if told := w.told - before; told != 250 {
				t.Errorf("host %s grants %d alone, want half of the 500 that were left", h.name, told)
			}
			if d, err := h.ask(1); err == nil || d.GrantID != "" {
				t.Errorf("host %s: got %+v %v beyond that, want an error alone", h.name, d, err)
			}
			if u, err := h.Usage(t.Context(), h.c); err != nil || u.AsOf.IsZero() || u.GrantedSince != 250 || u.Limits[0].Used != 750 {
				t.Errorf("host %s: got %+v %v, want the 500 of before, and 250", h.name, u, err)
			}
		}
		w.engine.set(func() { w.engine.away = false })
		time.Sleep(4 * time.Second) // each puts back, and mirrors what the other one did
		if e := w.hosts[0].event(); e.Kind != Up || e.Units != 250 || e.Took <= 0 {
			t.Errorf("got the event %+v, want that it is back, and the 250 units of the outage", e)
		}
		w.engine.set(func() { w.engine.away = true })
		if u, err := w.hosts[1].Usage(t.Context(), w.hosts[1].c); err != nil || u.AsOf.IsZero() || u.GrantedSince != 0 {
			t.Errorf("in another outage: got %+v %v, want that nothing was granted since", u, err)
		}
		w.engine.set(func() { w.engine.away = false })
		for range 3 {
			if used := w.hosts[1].used(); used != w.told {
				t.Errorf("%d are used, %d were told", used, w.told)
			}
			w.hosts[0].kill() // the other one has what it had under that id
			w.engine.flush()
			time.Sleep(5 * time.Second)
		}
		w.full(0)
	})
}

// While the engine is away, an open operation is granted where each of its limits had room.
func TestWhatIsGrantedAlone(t *testing.T) {
	hour := quota.Sliding(time.Hour)
	closed := func(d time.Duration) func(h *host) {
		return func(h *host) {
			k := quota.Change{Limit: "daily", Kind: quota.KindClosing, Until: time.Now().Add(d)}
			h.ChangeLimit(t.Context(), h.c, k)
		}
	}
	for name, row := range map[string]struct {
		before, away func(h *host)
		granted      bool
	}{
		"what fits":                {granted: true},
		"a limit that is closed":   {before: closed(time.Hour)},
		"one that was closed":      {before: closed(5 * time.Second), granted: true},
		"an operation that is not": {away: func(h *host) { h.policies["c"] = Policy{Units: 300}; h.configure(h.c) }},
		"one that only observes": {granted: true, before: func(h *host) {
			c := credential(1, hour)
			c.Limits[0].DryRun = true
			h.configure(c)
			h.ask(3)
		}},
		"one that is new": {
			before: func(h *host) {
				c := credential(budget, hour)
				c.Limits[0].Name = "other"
				h.configure(c)
				l := h.find(c)
				l.mu.Lock()
				defer l.mu.Unlock()
				clear(l.holds)
			},
			away: func(h *host) { h.configure(credential(budget, hour)) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			play(t, 1, func(t *testing.T, w *world) {
				h := w.hosts[0]
				h.mayGrantAlone(300)
				if row.before != nil {
					row.before(h)
				}
				time.Sleep(1100 * time.Millisecond)
				w.engine.set(func() { w.engine.away = true })
				time.Sleep(5 * time.Second)
				if row.away != nil {
					row.away(h)
				}
				if d, err := h.ask(5); (err == nil && d.Outage && d.Granted()) != row.granted {
					t.Errorf("got %+v %v, want granted: %v", d, err, row.granted)
				}
			})
		})
	}
}

// A journal that takes nothing is a trouble, and refuses nothing. What a full disk did not take is put back into a log
// that is lost, also under an id that the journal has for longer than the log.
func TestOutageOnAFullDisk(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		h := w.hosts[0]
		h.c = credential(budget, quota.Sliding(10*time.Minute))
		h.c.Limits = append(h.c.Limits, quota.Limit{Name: "closed", Units: 1, Window: quota.Sliding(time.Minute)})
		h.mayGrantAlone(300)
		h.askAs("id", 5, within)
		h.ChangeLimit(t.Context(), h.c, quota.Change{Limit: "closed", Kind: quota.KindClosing, Until: time.Now().Add(time.Hour)})
		time.Sleep(11 * time.Minute)
		h.find(h.c).journal.Close()
		if d, err := h.ask(1); err != nil || !d.Granted() || h.Health(t.Context()).Unwritten == nil {
			t.Errorf("got %+v %v, want it granted, and said by Health", d, err)
		}
		w.engine.set(func() { w.engine.away = true })
		if d, err := h.askAs("id", 7, within); err != nil || !d.Outage || d.Replayed {
			t.Errorf("got %+v %v, want a grant of the outage", d, err)
		}
		w.engine.flush()
		w.engine.set(func() { w.engine.away = false })
		time.Sleep(5 * time.Second)
		u, err := h.Usage(t.Context(), h.c)
		if err != nil || u.Limits[0].Used != 7 || u.Limits[1].Closed.IsZero() {
			t.Errorf("got %+v, %v, want 7 used, and the closing of before", u, err)
		}
	})
}

// The allowance is that of any window: another outage has what the one before left, also after a restart.
func TestAllowanceOfAWindow(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		h := w.hosts[0]
		outage := func(want quota.Units) {
			t.Helper()
			h.c = credential(budget, quota.Sliding(10*time.Minute))
			h.mayGrantAlone(100)
			w.engine.set(func() { w.engine.away = true })
			before := w.told
			h.spend(150, time.Millisecond)
			if told := w.told - before; told != want {
				t.Errorf("%d are granted alone, want %d", told, want)
			}
			w.engine.set(func() { w.engine.away = false })
			time.Sleep(2 * time.Second)
		}
		outage(100)
		outage(0)
		h.kill()
		h = w.host("a") // with its journal
		outage(0)
		time.Sleep(10 * time.Minute)
		outage(100)
	})
}

// While calls wait for an engine that answers nothing, an open operation is granted alone, not refused as recovering.
func TestOutageWithoutAnswers(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		h := w.hosts[0]
		h.mayGrantAlone(300)
		h.way.disturb(func(Script, []any) fault { return fault{before: 5 * time.Second} })
		for n := range 20 {
			if d, err := h.ask(1); err != nil || !d.Outage {
				t.Errorf("call %d: got %+v %v, want a grant of the outage", n, d, err)
			}
		}
		h.kill()
		time.Sleep(10 * time.Second)
	})
}

// What a host granted alone is put back alone: its whole journal, in pages, would prolong a quiet that is in effect,
// and with calls that fail now and then the log would be quiet for ever.
func TestGrantsOfAnOutageArePutBackAlone(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		h := w.hosts[0]
		h.c = credential(1000, quota.Sliding(time.Hour))
		h.mayGrantAlone(300)
		h.spend(600, 0)
		before := w.engine.put()
		for range 10 {
			h.way.disturb(func(Script, []any) fault { return fault{drop: true} })
			if d, err := h.ask(1); err != nil || !d.Outage {
				t.Fatalf("got %+v %v, want a grant of the outage", d, err)
			}
			h.way.disturb(nil)
			if d, err := h.ask(1); err != nil || d.Outage {
				t.Fatalf("got %+v %v, want a grant of the log", d, err)
			}
		}
		if n := w.engine.put() - before; n != 10 {
			t.Errorf("%d entries were put back, want the 10 that were granted alone", n)
		}
		if used := h.used(); used != 620 {
			t.Errorf("%d are used, want 620", used)
		}
	})
}

// A log that is quiet is not away: nothing is granted alone.
func TestQuietIsNotAway(t *testing.T) {
	play(t, 1, func(t *testing.T, w *world) {
		h := w.hosts[0]
		h.mayGrantAlone(300)
		w.engine.set(func() { w.engine.twin.server = "second" })
		w.engine.flush()
		if d, err := h.ask(1); !errors.Is(err, quota.ErrRecovering) {
			t.Errorf("got %+v %v, want that it recovers", d, err)
		}
	})
}

// Hosts say that they live: a clean stop takes the row away, a dead host's goes after a day, and two daemons of one
// name are a trouble after 5 s together.
func TestHosts(t *testing.T) {
	play(t, 2, func(t *testing.T, w *world) {
		names := func() string {
			time.Sleep(1100 * time.Millisecond)
			var list []string
			rows, _, _ := w.hosts[0].Hosts()
			for _, row := range rows {
				list = append(list, row.Name)
			}
			slices.Sort(list)
			return strings.Join(list, " ")
		}
		if got := names(); got != "a b" {
			t.Errorf("hosts %q", got)
		}
		c, d := w.host("c"), w.host("d")
		time.Sleep(time.Millisecond) // they have said that they live
		c.dead = true
		noError(t, c.Close())
		d.kill()
		if got := names(); got != "a b d" {
			t.Errorf("hosts %q after a clean stop", got)
		}
		if h := w.hosts[0].Health(t.Context()).Hosts; len(h) > 0 {
			t.Errorf("trouble %q", h)
		}
		other := w.named("b2", "b")
		time.Sleep(8 * time.Second)
		if h := other.Health(t.Context()).Hosts; len(h) != 1 {
			t.Errorf("two daemons of one name: %q", h)
		}
		other.configure(credential(5, quota.Sliding(time.Hour)))
		time.Sleep(2 * time.Second)
		if h := w.hosts[0].Health(t.Context()).Hosts; len(h) != 1 {
			t.Errorf("hosts that count differently: %q", h)
		}
	})
}

package jobs

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/slidinglog"
)

// A sharedStore is one for hosts that append at the same time.
type sharedStore struct {
	ledgertest.SimStore
	mu      sync.Mutex
	answers func(slidinglog.Call, slidinglog.Outcome) // is called with each answer before it arrives; or nil
}

func (s *sharedStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	s.mu.Lock()
	out := s.SimStore.Append(ctx, calls)
	answers := s.answers
	s.mu.Unlock()
	for i := range calls {
		if answers != nil {
			answers(calls[i], out[i])
		}
	}
	return out
}

// The gate counts what passes on other hosts expect to spend, also if the log that says so is
// read on this host by others at the same time, or what was read of it is being written.
func TestTheGateReadsAllThatWasAppended(t *testing.T) {
	for name, meanwhile := range map[string]func(*jobControl, slidinglog.Call, slidinglog.Outcome){
		"read by others": func(j *jobControl, call slidinglog.Call, out slidinglog.Outcome) {
			j.writing.Lock()
			defer j.writing.Unlock()
			out.Tail = out.Tail[:1] // they asked before the rest was appended
			_ = j.receive(nil, call, out)
		},
		"written": func(j *jobControl, _ slidinglog.Call, _ slidinglog.Outcome) {
			j.writing.Lock()
			go func() {
				for range 1000 {
					runtime.Gosched()
				}
				j.writing.Unlock()
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, dir string) {
				store := &sharedStore{SimStore: ledgertest.SimStore{Clock: func() int64 { return time.Now().UnixMilli() }}}
				host := func(name string) *bed {
					one, two := trending(t), trending(t)
					two.Name = "channels"
					for _, job := range []*Job{one, two} {
						job.Regions, job.Expects = eight()[:1], map[string]quota.Units{"videos.list": 4}
					}
					b := newHost(t, dir+name, store, name, one, two)
					b.budget(5)
					_, _ = b.Status("") // it has read both logs
					return b
				}
				a, b := host("a"), host("b")
				b.Tick("channels", time.Now().UTC())
				synctest.Wait()
				time.Sleep(10 * time.Millisecond)
				j, err := a.state("channels")
				if err != nil {
					t.Fatal(err)
				}
				once := sync.Once{}
				store.mu.Lock()
				store.answers = func(call slidinglog.Call, out slidinglog.Outcome) {
					if call.Credential == "job:channels" && len(call.Body) == 0 && len(out.Tail) > 1 {
						once.Do(func() { meanwhile(j, call, out) })
					}
				}
				store.mu.Unlock()
				a.Tick("trending", time.Now().UTC())
				time.Sleep(time.Minute)
				if got := a.status().Last; got == nil || got.State != RunStopped || got.Reason != Unaffordable {
					t.Errorf("got %+v, want it not launched against what the other host expects to spend", got)
				}
				a.stop()
				b.stop()
			})
		})
	}
}

// Of three passes that come to the gate in the same millisecond, two of them on one host, each
// counts those before it in one order: units that are enough for two launch two.
func TestTheGateHasOneOrder(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		store := &sharedStore{SimStore: ledgertest.SimStore{Clock: func() int64 { return time.Now().UnixMilli() }}}
		left := &budget{left: 9}
		host := func(name string) *bed {
			var list []*Job
			for _, name := range []string{"first", "second", "third"} {
				job := trending(t)
				job.Name, job.Regions, job.Expects = name, eight()[:1], map[string]quota.Units{"videos.list": 4}
				list = append(list, job)
			}
			b := newHost(t, dir+name, store, name, list...)
			b.shares(left)
			_, _ = b.Status("") // it has read the logs
			return b
		}
		a, b := host("a"), host("b")
		a.Tick("third", time.Now().UTC())
		synctest.Wait()
		a.Tick("first", time.Now().UTC())
		b.Tick("second", time.Now().UTC())
		time.Sleep(time.Minute)
		list, err := a.Status("")
		if err != nil {
			t.Fatal(err)
		}
		states := map[RunState]int{}
		for _, job := range list {
			states[job.Last.State]++
		}
		if states[RunDone] != 2 || states[RunStopped] != 1 || left.get() != 1 {
			t.Errorf("the runs became %v, and %d units are left: want two done, and one not launched", states, left.get())
		}
		for _, job := range list {
			if p := job.Last.Passes; len(p) != 1 || p[0].Outcome == Exhausted {
				t.Errorf("%s was launched against units that are spoken for: %+v", job.Name, p)
			}
		}
		a.stop()
		b.stop()
	})
}

// The clock of the logs steps back while a pass is under way, as it may where another node takes
// over: a pass that comes to the gate then counts it all the same.
func TestTheGateCountsWhatCameBeforeTheClockWasSetBack(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		var back atomic.Int64
		store := &sharedStore{SimStore: ledgertest.SimStore{Clock: func() int64 { return time.Now().UnixMilli() - back.Load() }}}
		left := &budget{left: 5}
		host := func(name string) *bed {
			one, two := trending(t), trending(t)
			two.Name = "channels"
			for _, job := range []*Job{one, two} {
				job.Regions, job.Expects = eight()[:1], map[string]quota.Units{"videos.list": 4}
			}
			b := newHost(t, dir+name, store, name, one, two)
			b.shares(left)
			_, _ = b.Status("") // it has read both logs
			return b
		}
		a, b := host("a"), host("b")
		b.Tick("channels", time.Now().UTC())
		synctest.Wait()
		time.Sleep(10 * time.Millisecond)
		back.Store(5000)
		a.Tick("trending", time.Now().UTC())
		time.Sleep(time.Minute)
		if got := a.status().Last; got == nil || got.State != RunStopped || got.Reason != Unaffordable {
			t.Errorf("got %+v, want it not launched against what the other host expects to spend", got)
		}
		a.stop()
		b.stop()
	})
}

// While the logs of the hosts do not answer, a host's passes do not wait for them one after the
// other: only the first one waits for long.
func TestTheGateDoesNotWaitForEachJobOfSilentHosts(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		store := &silentStore{sharedStore: sharedStore{SimStore: ledgertest.SimStore{Clock: func() int64 { return time.Now().UnixMilli() }}}}
		var list []*Job
		for i := range 20 {
			job := trending(t)
			job.Name = fmt.Sprintf("job%d", i)
			job.Regions, job.Expects = eight()[:2], map[string]quota.Units{"videos.list": 4}
			list = append(list, job)
		}
		b := newHost(t, dir, store, "a", list...)
		slot := time.Now().UTC().Truncate(time.Hour).Add(time.Hour)
		time.Sleep(time.Until(slot))
		for _, job := range list {
			b.Tick(job.Name, slot)
		}
		time.Sleep(20 * time.Minute)
		b.forget()
		store.silent.Store(true)
		time.Sleep(10*time.Minute + 5*time.Second) // half an hour after the slot the second region begins
		b.mu.Lock()
		begun := 0
		for _, line := range b.log {
			if strings.HasSuffix(line, "GB running") {
				begun++
			}
		}
		b.mu.Unlock()
		if begun != len(list) {
			t.Errorf("%d of %d passes have begun 5 s after their time", begun, len(list))
		}
		store.silent.Store(false)
		time.Sleep(time.Minute)
		b.stop()
	})
}

// A silentStore does not answer at times.
type silentStore struct {
	sharedStore
	silent atomic.Bool
}

func (s *silentStore) Append(ctx context.Context, calls []slidinglog.Call) []slidinglog.Outcome {
	if !s.silent.Load() {
		return s.sharedStore.Append(ctx, calls)
	}
	<-ctx.Done()
	out := make([]slidinglog.Outcome, len(calls))
	for i := range out {
		out[i] = slidinglog.Outcome{Status: slidinglog.Unknown, Err: quota.ErrOutcomeUnknown}
	}
	return out
}

// A host that starts again reads only what was appended since.
func TestAHostContinuesWhereItHasRead(t *testing.T) {
	inBubble(t, func(t *testing.T, dir string) {
		store := &sharedStore{SimStore: ledgertest.SimStore{Clock: func() int64 { return time.Now().UnixMilli() }}}
		host := func() (*bed, slidinglog.Position) {
			b := newHost(t, dir, store, "a", trending(t))
			j, err := b.state("trending")
			if err != nil {
				t.Fatal(err)
			}
			return b, j.readCall().At
		}
		a, _ := host()
		a.Tick("trending", time.Now().UTC())
		time.Sleep(time.Minute)
		j, _ := a.state("trending")
		a.stop()
		want := j.readCall().At
		again, got := host()
		if want.IsZero() || got != want {
			t.Errorf("it reads what follows %v, want %v", got, want)
		}
		again.stop()
	})
}

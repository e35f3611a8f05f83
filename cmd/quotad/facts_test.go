package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"quotad/cmd/quotad/trouble"
	"quotad/jobs"
	"quotad/quota"
	"quotad/quota/proxy"
	"quotad/quota/server"
	"quotad/quota/slidinglog"
	"quotad/quota/upstream"
)

// A ledger that was well just before it was lost is not put back, nor is one that grants nothing yet. Where nothing was
// put back, nothing was lost, and what was not lost is carried along.
func TestHealthBeforeALoss(t *testing.T) {
	for records, want := range map[int]string{3: "lost, lost, back", 0: "lost, lost, none"} {
		f := newFacts()
		before := time.Now()
		f.record(slidinglog.Event{Kind: slidinglog.Restored, Credential: "carried", Records: 3})
		f.record(slidinglog.Event{Kind: slidinglog.LostLog, Credential: "api"})
		f.record(slidinglog.Event{Kind: slidinglog.Restored, Credential: "api", Records: records})
		var got []string
		for _, now := range []struct {
			asked  time.Time
			health quota.Health
		}{
			{before, quota.Health{Reachable: true}},
			{time.Now(), quota.Health{Reachable: true, Recovering: []string{"api"}}},
			{time.Now(), quota.Health{Reachable: true}},
		} {
			s := trouble.State{Ledger: trouble.LedgerState{Health: now.health}}
			for _, name := range []string{"api", "carried"} {
				s.Credentials = append(s.Credentials, trouble.CredentialState{Credential: &quota.Credential{Name: name}})
			}
			f.complete(&s, now.asked)
			switch {
			case len(s.Losses) == 0:
				got = append(got, "none")
			case len(s.Losses) == 1 && s.Losses[0].Credential == "api" && s.Losses[0].Back.IsZero():
				got = append(got, "lost")
			case len(s.Losses) == 1 && s.Losses[0].Credential == "api":
				got = append(got, "back")
			}
		}
		if text := strings.Join(got, ", "); text != want {
			t.Errorf("with %d records: %s, want %s", records, text, want)
		}
	}
}

// A key that is refused is known until an answer is good, or a pass that began later made calls and ended well.
func TestRefusedKey(t *testing.T) {
	for _, row := range []struct {
		name  string
		event func(since time.Time) any
		known bool
	}{
		{"a good answer", func(time.Time) any {
			return upstream.Outcome{Verdict: upstream.Verdict{Class: upstream.OK}, Credential: "api"}
		}, false},
		{"of another key", func(time.Time) any {
			return upstream.Outcome{Verdict: upstream.Verdict{Class: upstream.OK}, Credential: "other"}
		}, true},
		{"a pass", func(since time.Time) any { return passOf(jobs.OK, 1, since.Add(time.Second)) }, false},
		{"one that began before", func(since time.Time) any { return passOf(jobs.OK, 1, since.Add(-time.Second)) }, true},
		{"one without calls", func(since time.Time) any { return passOf(jobs.OK, 0, since.Add(time.Second)) }, true},
		{"one that failed", func(since time.Time) any { return passOf(jobs.Failed, 1, since.Add(time.Second)) }, true},
	} {
		f := newFacts()
		f.record(upstream.Outcome{Verdict: upstream.Verdict{Class: upstream.Key, Says: "no"}, Credential: "api"})
		urgent := f.record(row.event(time.Now()))
		if _, known := f.refuses["api"]; known != row.known || urgent == known {
			t.Errorf("%s: it is known: %v, and to be told at once: %v", row.name, known, urgent)
		}
	}
}

func passOf(outcome jobs.Outcome, calls int64, started time.Time) jobs.PassChanged {
	p := jobs.Pass{Outcome: outcome, Spent: jobs.Spent{Calls: calls}}
	p.StartedAt = started
	return jobs.PassChanged{Credential: "api", Pass: p}
}

// An upstream that does not answer is silent at once, one that answers 500 after a minute of that.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFacts()
		f.record(proxy.Finished{Credential: "away", Silent: "api cannot be reached"})
		f.record(proxy.Finished{Credential: "broken", Silent: "api answers 500"})
		silent := func() (names []string) {
			s := trouble.State{}
			for _, name := range []string{"away", "broken"} {
				s.Credentials = append(s.Credentials, trouble.CredentialState{Credential: &quota.Credential{Name: name}})
			}
			f.complete(&s, time.Now())
			for _, c := range s.Credentials {
				if c.Silent != nil {
					names = append(names, c.Name)
				}
			}
			return names
		}
		for _, row := range []struct {
			after time.Duration
			want  string
		}{{0, "[away]"}, {59 * time.Second, "[away]"}, {time.Second, "[away broken]"}} {
			time.Sleep(row.after)
			if got := fmt.Sprint(silent()); got != row.want {
				t.Errorf("%v later: got %s, want %s", row.after, got, row.want)
			}
		}
		f.record(proxy.Finished{Credential: "away", Status: 404})
		f.record(proxy.Finished{Credential: "broken"}) // it was refused here, and says nothing of the upstream
		if got := fmt.Sprint(silent()); got != "[broken]" {
			t.Errorf("after an answer: %s", got)
		}
	})
}

// A clock that is set back is known by what it showed before. One that drifts, or goes forward, is none.
func TestClockIsSetBack(t *testing.T) {
	for by, known := range map[time.Duration]bool{-10 * time.Minute: true, -6 * time.Second: true, -4 * time.Second: false, 10 * time.Minute: false} {
		f, now := newFacts(), time.Now()
		f.tick(now)
		f.tick(step(now.Add(time.Second), by))
		s := trouble.State{}
		f.complete(&s, now)
		if s.ClockWas.IsZero() == known || known && (s.ClockBy != -by || !s.ClockWas.Equal(now.Add(time.Second).Round(0))) {
			t.Errorf("by %v: it was %v, by %v", by, s.ClockWas, s.ClockBy)
		}
	}
}

// step returns a time at which the wall clock alone was set: it lies behind the monotonic one in a time.Time.
func step(t time.Time, by time.Duration) time.Time {
	after := t.Add(by)
	*(*int64)(unsafe.Add(unsafe.Pointer(&after), 8)) -= int64(by)
	return after
}

// A job is idle while each of its last runs ended well without a call. A slot that was skipped says nothing.
func TestIdle(t *testing.T) {
	run := func(state jobs.RunState, calls ...int64) jobs.Run {
		r := jobs.Run{State: state}
		for _, n := range calls {
			r.Passes = append(r.Passes, jobs.Pass{Outcome: jobs.OK, Spent: jobs.Spent{Calls: n}})
		}
		return r
	}
	idleRun := run(jobs.RunDone, 0, 0)
	for _, row := range []struct {
		name string
		runs []jobs.Run
		want int
	}{
		{"no run yet", nil, 0},
		{"all of them", []jobs.Run{run(jobs.RunRunning, 0), idleRun, run(jobs.RunSkipped), idleRun}, 2},
		{"one region calls", []jobs.Run{idleRun, run(jobs.RunDone, 0, 1)}, 0},
		{"one failed", []jobs.Run{idleRun, run(jobs.RunFailed, 0)}, 0},
	} {
		f, asked := newFacts(), 0
		runs := func(string, int) ([]jobs.Run, error) { asked++; return row.runs, nil }
		if got := []int{f.idleOf("fetch", runs), f.idleOf("fetch", runs)}; got[0] != row.want || got[1] != row.want || asked != 1 {
			t.Errorf("%s: %v after asking %d times, want %d", row.name, got, asked, row.want)
		}
		f.record(jobs.RunChanged{Run: jobs.Run{Job: "fetch", State: jobs.RunDone}})
		if f.idleOf("fetch", runs); asked != 2 {
			t.Errorf("%s: after a run it asks %d times in all", row.name, asked)
		}
	}
}

// What may show a trouble is looked at at once.
func TestWhatIsUrgent(t *testing.T) {
	no := upstream.Outcome{Verdict: upstream.Verdict{Class: upstream.Billing, Says: "no"}, Credential: "api"}
	f := newFacts()
	for _, row := range []struct {
		name   string
		event  any
		urgent bool
	}{
		{"the ledger does not answer", server.Decided{Err: quota.ErrUnavailable}, true},
		{"a caller did not wait for it", server.Decided{Err: errors.Join(quota.ErrUnavailable, context.Canceled)}, false},
		{"a call is denied", server.Decided{Decision: quota.Decision{Reason: quota.LimitExceeded}}, false},
		{"an edge of an outage", slidinglog.Event{Kind: slidinglog.Up}, true},
		{"a run fails", jobs.RunChanged{Run: jobs.Run{State: jobs.RunFailed}}, true},
		{"a run is done", jobs.RunChanged{Run: jobs.Run{State: jobs.RunDone}}, false},
		{"a key is refused", no, true},
		{"it is refused again", no, false},
	} {
		if got := f.record(row.event); got != row.urgent {
			t.Errorf("%s: urgent is %v", row.name, got)
		}
	}
}

// A limit is closed by hand if an operator closed it last, or reported what this host did not see; what it counted is
// that of the first look at it.
func TestWhoClosed(t *testing.T) {
	f, now := newFacts(), time.Now()
	answered := upstream.Outcome{Credential: "api", Limit: "daily", Changed: true, Closed: quota.Closed{Since: now}}
	byHand := server.Decided{Verb: "close", Decision: quota.Decision{Limit: "daily"}}
	byHand.Request.Credential = "api"
	for _, row := range []struct {
		name  string
		event any
		by    string
		used  quota.Units
		want  string
	}{
		{"an answer that a user observed", answered, "@0", 7, "7 false"},
		{"and later", nil, "@0", 9, "7 false"},
		{"then a user", byHand, "@0", 11, "11 true"},
		{"a job", nil, "fetch", 12, "11 false"},
	} {
		f.record(row.event)
		l := trouble.LimitState{LimitState: quota.LimitState{Used: row.used, Closed: quota.Closed{Since: now, Until: now.Add(time.Hour), By: row.by}}}
		if f.completeLimit("api daily", &l); fmt.Sprint(l.ClosedAt, l.ByHand) != row.want {
			t.Errorf("%s: got %v %v, want %s", row.name, l.ClosedAt, l.ByHand, row.want)
		}
	}
}

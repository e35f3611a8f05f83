package redisledger

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// answered are faults after which a call is answered in the end.
var answered = []struct {
	name   string
	faults []redistest.Fault
}{
	{"none", nil},
	{"cut after the commit", []redistest.Fault{redistest.CutAfter}},
	{"cut after it three times", []redistest.Fault{redistest.CutAfter, redistest.CutAfter, redistest.CutAfter}},
	{"cut before the commit", []redistest.Fault{redistest.CutBefore}},
	{"cut before, then after it", []redistest.Fault{redistest.CutBefore, redistest.CutAfter}},
	{"cut after, then before it", []redistest.Fault{redistest.CutAfter, redistest.CutBefore}},
}

// writes are the calls that write, on a log that holds one grant of ten units,
// and what they leave there. The first's grant is ten units of the hundred.
var writes = []struct {
	name    string
	call    func(ctx context.Context, r *proxied, first quota.Decision) error
	units   quota.Units
	entries int64
}{
	{"acquire", acquires(ask("ten", "")), 20, 2},
	{"acquire with an id", acquires(ask("ten", "a")), 20, 2},
	{"a batch", acquires(ask("ten", ""), ask("ten", "a"), ask("ten", "a"), ask("list", ""), ask("list", "b")), 32, 5},
	{"settle", func(ctx context.Context, r *proxied, first quota.Decision) error { return r.settle(ctx, first, 4) }, 4, 2},
	{"book", func(ctx context.Context, r *proxied, _ quota.Decision) error { return r.adjust(ctx, 7) }, 17, 2},
	{"give back", func(ctx context.Context, r *proxied, _ quota.Decision) error { return r.adjust(ctx, -7) }, 3, 2},
}

// acquires returns a call that acquires, and expects every ask granted.
func acquires(asks ...quota.Ask) func(context.Context, *proxied, quota.Decision) error {
	return func(ctx context.Context, r *proxied, _ quota.Decision) error {
		decisions, err := r.ledger.Acquire(ctx, r.c, asks)
		for _, d := range decisions {
			r.isGrant(d)
		}
		return err
	}
}

func TestAnsweredCallsWriteOnce(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, write := range writes {
		for _, test := range answered {
			t.Run(write.name+"/"+test.name, func(t *testing.T) {
				r := newProxied(t, server)
				first := r.acquire(ask("ten", ""))[0]
				r.proxy.Meet(test.faults...)
				r.must(write.call(t.Context(), r, first))
				r.holds(write.units, write.entries)
			})
		}
	}
}

// A caller with more time than an answer may take asks again when it does not come.
func TestSwallowedReplyIsAskedForAgain(t *testing.T) {
	t.Parallel()
	r := newProxied(t, redistest.Start(t))
	r.proxy.Meet(redistest.Swallow)
	for _, d := range r.acquire(ask("ten", ""), ask("ten", "a"), ask("ten", "a"), ask("list", "")) {
		r.isGrant(d)
	}
	r.holds(21, 3)
}

func TestLateReply(t *testing.T) {
	t.Parallel()
	r := newProxied(t, redistest.Start(t))
	r.proxy.Meet(redistest.Late)
	decided := make(chan []quota.Decision)
	go func() {
		decisions, err := r.ledger.Acquire(context.Background(), r.c, []quota.Ask{ask("ten", "")})
		if err != nil {
			t.Error(err)
		}
		decided <- decisions
	}()
	for {
		r.proxy.Release() // nothing, until the call is there
		select {
		case decisions := <-decided:
			if len(decisions) != 1 || !decisions[0].Granted() {
				t.Errorf("got %+v, want a grant", decisions)
			}
			r.holds(10, 1)
			return
		default:
		}
	}
}

// A script that Redis does not have any more is sent in full.
func TestFlushedScripts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, write := range writes {
		for _, test := range []struct {
			name   string
			faults []redistest.Fault
		}{
			{"no fault", nil},
			{"its refusal is lost", []redistest.Fault{redistest.CutAfter}},
			{"the reply to the whole script is lost", []redistest.Fault{redistest.Pass, redistest.CutAfter}},
		} {
			t.Run(write.name+"/"+test.name, func(t *testing.T) {
				r := newProxied(t, server)
				first := r.acquire(ask("ten", ""))[0]
				server.Order(t, "SCRIPT FLUSH")
				r.proxy.Meet(test.faults...)
				r.must(write.call(t.Context(), r, first))
				r.holds(write.units, write.entries)
			})
		}
	}
}

// short bounds a call whose reply never comes.
func short(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestUnansweredCallsSaySo(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	for _, write := range writes {
		t.Run(write.name, func(t *testing.T) {
			t.Parallel()
			r := newProxied(t, server)
			first := r.acquire(ask("ten", ""))[0]
			r.proxy.Meet(redistest.Swallow)
			r.unknown(write.call(short(t), r, first))
			r.holds(write.units, write.entries)
		})
		t.Run(write.name+", in vain", func(t *testing.T) {
			t.Parallel()
			r := newProxied(t, server)
			first := r.acquire(ask("ten", ""))[0]
			r.proxy.Disturb(func([]string) redistest.Fault { return redistest.CutBefore })
			r.unknown(write.call(short(t), r, first)) // Redis was there: it might have
			r.holds(10, 1)
		})
	}
}

func TestAskingAgainGivesTheOneGrant(t *testing.T) {
	t.Parallel()
	r := newProxied(t, redistest.Start(t))
	r.proxy.Meet(redistest.Swallow)
	_, err := r.ledger.Acquire(short(t), r.c, []quota.Ask{ask("ten", "a")})
	r.unknown(err)
	again := r.acquire(ask("ten", "a"))[0]
	if !again.Replayed || again.GrantID == "" {
		t.Errorf("got %+v, want the grant whose reply was lost", again)
	}
	if more := r.acquire(ask("ten", "a"))[0]; more.GrantID != again.GrantID {
		t.Errorf("got %+v, want %s once more", more, again.GrantID)
	}
	r.holds(10, 1)
}

// Requests without an id cannot be asked again: what became of them unheard is
// given back, and leaves its trace.
func TestUnheardGrantsAreGivenBack(t *testing.T) {
	t.Parallel()
	r := newProxied(t, redistest.Start(t))
	batch := []quota.Ask{ask("ten", ""), ask("ten", "a"), ask("list", ""), ask("list", "b")}
	r.proxy.Meet(redistest.Swallow)
	_, err := r.ledger.Acquire(short(t), r.c, batch)
	r.unknown(err)
	r.holds(22, 4)
	decisions := r.acquire(batch...)
	for i, replayed := range []bool{false, true, false, true} {
		if !decisions[i].Granted() || decisions[i].Replayed != replayed {
			t.Errorf("ask %d: got %+v, want a grant, replayed: %v", i, decisions[i], replayed)
		}
	}
	r.holds(22, 4+2+2)
}

// Who looks after the ledger gives back too: nothing may be acquired here for long.
func TestCheckGivesBackWhatIsUnheard(t *testing.T) {
	t.Parallel()
	r := newProxied(t, redistest.Start(t))
	r.proxy.Meet(redistest.Swallow)
	_, err := r.ledger.Acquire(short(t), r.c, []quota.Ask{ask("ten", ""), ask("list", "a")})
	r.unknown(err)
	r.must(r.ledger.account(r.c.Name).check(t.Context(), r.c))
	r.holds(1, 3)
}

// The answer to the question what became of a call may be lost as well.
func TestUnheardGrantsAreGivenBackOnce(t *testing.T) {
	t.Parallel()
	r := newProxied(t, redistest.Start(t))
	r.proxy.Meet(redistest.Swallow)
	_, err := r.ledger.Acquire(short(t), r.c, []quota.Ask{ask("ten", ""), ask("list", "")})
	r.unknown(err)
	lost := 0
	r.proxy.Disturb(func(command []string) redistest.Fault {
		if lost++; lost%2 == 1 && lost < 20 && command[0] != "hello" {
			return redistest.CutAfter
		}
		return redistest.Pass
	})
	for {
		decisions, err := r.ledger.Acquire(t.Context(), r.c, []quota.Ask{ask("ten", "")})
		if err == nil {
			r.isGrant(decisions[0])
			break
		}
		if !errors.Is(err, quota.ErrUnavailable) {
			t.Fatalf("got %v, want an error that says that nothing was debited", err)
		}
	}
	r.holds(10, 2+2+1)
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newProxied(t, server)
	r.ledger = openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "a", KeyPrefix: r.ledger.prefix})
	first := r.acquire(ask("ten", ""))[0]
	server.Kill()
	for _, write := range writes {
		err := write.call(t.Context(), r, first) // without a deadline, and yet it ends
		if !errors.Is(err, quota.ErrUnavailable) || errors.Is(err, quota.ErrOutcomeUnknown) {
			t.Errorf("%s: got %v, want an error that says that nothing was written", write.name, err)
		}
	}
}

// Another daemon's grants between a reset and its repetition are not wiped out.
func TestRepeatedResetKeepsWhatCameBetween(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newProxied(t, server)
	r.acquire(ask("ten", ""))
	other := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "b", KeyPrefix: r.ledger.prefix})
	calls := 0
	r.proxy.Disturb(func(command []string) redistest.Fault {
		if !redistest.IsScript(command) {
			return redistest.Pass
		}
		if calls++; calls == 1 {
			return redistest.CutAfter
		}
		decisions, err := other.Acquire(t.Context(), r.c, []quota.Ask{ask("list", "")})
		if err != nil || !decisions[0].Granted() {
			t.Errorf("the other daemon got %+v, %v", decisions, err)
		}
		return redistest.Pass
	})
	r.must(r.ledger.Reset(t.Context(), r.c, quota.Caller{}, ""))
	r.holds(1, 1)
}

// A call that arrives after it was given up, asked again and answered must not be
// carried out once more.
func TestStrayCalls(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	t.Run("acquire", func(t *testing.T) {
		r := newProxied(t, server)
		r.proxy.Meet(redistest.Stray)
		r.isGrant(r.acquire(ask("ten", ""))[0])
		r.isGrant(r.acquire(ask("list", ""))[0])
		r.proxy.Release()
		r.holds(11, 2)
	})
	t.Run("adjust", func(t *testing.T) {
		r := newProxied(t, server)
		r.proxy.Meet(redistest.Stray)
		r.must(r.adjust(t.Context(), 10))
		r.must(r.adjust(t.Context(), 1))
		r.proxy.Release()
		r.holds(11, 2)
	})
}

// A call is asked three times, and what it denied the first time would fit since: that is
// granted once.
func TestDeniedBeforeItIsAskedAgain(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	r := newProxied(t, server)
	r.must(r.adjust(t.Context(), 95))
	other := openAt(t, Config{Addrs: []string{server.Addr}, Daemon: "b", KeyPrefix: r.ledger.prefix})
	calls := 0
	r.proxy.Disturb(func(command []string) redistest.Fault {
		if !redistest.IsScript(command) {
			return redistest.Pass
		}
		if calls++; calls > 2 {
			return redistest.Pass
		}
		if calls == 2 { // the first time it was denied
			if _, err := other.Adjust(t.Context(), r.c, quota.Adjustment{Limit: "daily", Units: -50}); err != nil {
				t.Error(err)
			}
		}
		return redistest.CutAfter
	})
	for _, d := range r.acquire(ask("list", ""), ask("ten", "")) {
		r.isGrant(d)
	}
	r.holds(95-50+1+10, 1+1+2)
}

// An acquire passes a peek on its way to Redis: both are answered.
func TestPeekBesideAnAcquire(t *testing.T) {
	t.Parallel()
	r := newProxied(t, redistest.Start(t))
	sent, acquired := make(chan struct{}), make(chan struct{})
	send := sync.OnceFunc(func() { close(sent) })
	r.proxy.Disturb(func(command []string) redistest.Fault {
		if redistest.IsScript(command) && command[len(command)-1] == "-" {
			send()
			<-acquired
		}
		return redistest.Pass
	})
	done := make(chan struct{})
	go func() {
		defer close(done)
		d, err := r.ledger.Peek(context.Background(), r.c, []string{"ten"}, ask("ten", "").Charges, false)
		if err != nil || !d.Granted() {
			t.Errorf("got %+v, %v; want that it fits", d, err)
		}
	}()
	<-sent
	r.isGrant(r.acquire(ask("ten", ""))[0])
	close(acquired)
	<-done
	r.holds(10, 1)
}

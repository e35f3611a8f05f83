package outage

import (
	"context"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger"
	"quotad/quota/redisledger/redistest"
)

func open(t *testing.T, booked chan<- Event) (*Ledger, *redistest.Server, *quota.Credential) {
	t.Helper()
	return openBehind(t, booked, func(r quota.Restorer) quota.Restorer { return r })
}

func openBehind(t *testing.T, booked chan<- Event, wrap func(quota.Restorer) quota.Restorer) (*Ledger, *redistest.Server, *quota.Credential) {
	t.Helper()
	server := redistest.Start(t)
	shared, err := redisledger.Open(redisledger.Config{Addrs: []string{server.Addr}, Daemon: "a"})
	if err != nil {
		t.Fatal(err)
	}
	journal, err := OpenJournal(filepath.Join(t.TempDir(), "journal"), 48*time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	l, err := Open(Config{Ledger: wrap(shared), Journal: journal, Daemon: "a", Deadline: time.Second, Observe: func(e Event) { booked <- e }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	c := &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)},
			{Name: "hourly", Units: 100, Window: quota.Sliding(time.Hour)},
		},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}},
	}
	setCredential(t, l, c)
	return l, server, c
}

func setCredential(t *testing.T, l *Ledger, c *quota.Credential) {
	t.Helper()
	policy := Policy{Open: map[string]bool{"videos.list": true}, Units: 5}
	if err := l.SetCredentials([]*quota.Credential{c}, map[string]Policy{"youtube": policy}); err != nil {
		t.Fatal(err)
	}
}

func askFor(t *testing.T, c *quota.Credential) []quota.Ask {
	t.Helper()
	charges, err := c.Charges("videos.list", 1)
	if err != nil {
		t.Fatal(err)
	}
	return []quota.Ask{{Request: quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1}, Charges: charges}}
}

// The ledger fails, and decides again before the caller is answered alone: what
// it is granted must be booked all the same.
func TestGrantedAloneAsTheLedgerReturns(t *testing.T) {
	events := make(chan Event, 100)
	l, _, c := open(t, events)
	if d := l.decideAlone(l.state("youtube"), c, askFor(t, c), quota.ErrUnavailable)[0]; !d.Granted() {
		t.Fatalf("got %+v, want a grant of an open operation", d)
	}
	for e := range events {
		if e.Kind == Up {
			break
		}
	}
	u, err := l.Usage(t.Context(), c)
	if err != nil || u.Limits[0].Used != 1 {
		t.Errorf("%+v, %v; want the unit booked", u, err)
	}
}

// Limits change during an outage, under a request that was priced before.
func TestReloadDuringAnOutage(t *testing.T) {
	l, server, c := open(t, make(chan Event, 100))
	if !server.Real {
		t.Skip("needs a redis-server that can be killed")
	}
	server.Kill()
	fewer := *c
	fewer.Limits = c.Limits[:1]
	setCredential(t, l, &fewer)
	decisions, err := l.Acquire(t.Context(), c, askFor(t, c))
	if err != nil || !decisions[0].Outage {
		t.Errorf("got %+v, %v; want a grant of the outage", decisions, err)
	}
}

// Some of what was granted alone may be in the log that is lost now: all of it is put
// back, as what the ledger granted is.
func TestUnbookedIsPutBackToo(t *testing.T) {
	l, _, c := open(t, make(chan Event, 100))
	s := &state{credential: c, policy: l.state("youtube").policy}
	for range 2 {
		if d := l.decideAlone(s, c, askFor(t, c), quota.ErrUnavailable)[0]; !d.Granted() {
			t.Fatalf("got %+v, want a grant of an open operation", d)
		}
	}
	if !l.settleBooked(s, c, slices.Clone(s.unbooked[:1])) {
		t.Fatal("what was booked cannot be taken off the list")
	}
	memory, err := l.journal.recall("youtube", time.Now().Add(-time.Hour))
	if err != nil || len(memory.records) != 2 {
		t.Errorf("got %+v, %v; want both grants put back", memory, err)
	}
}

// interrupted does something between a call's answer and whoever asked.
type interrupted struct {
	quota.Restorer
	by func()
}

func (i *interrupted) Acquire(ctx context.Context, c *quota.Credential, asks []quota.Ask) ([]quota.Decision, error) {
	decisions, err := i.Restorer.Acquire(ctx, c, asks)
	i.by()
	return decisions, err
}

// The log is lost right behind a grant: it is not put back from the journal before the
// grant is in it.
func TestGrantIsWrittenDownBeforeTheJournalIsRead(t *testing.T) {
	var by func()
	l, server, c := openBehind(t, make(chan Event, 100), func(r quota.Restorer) quota.Restorer {
		return &interrupted{r, func() { by() }}
	})
	if !server.Real {
		t.Skip("needs a redis-server")
	}
	s, done := l.state("youtube"), make(chan struct{})
	by = func() {
		server.Order(t, "FLUSHALL")
		go func() {
			l.restore(s, c)
			close(done)
		}()
		for s.writing.TryRLock() { // until the restore waits for this call
			s.writing.RUnlock()
			select {
			case <-done:
				t.Error("the journal was read before the grant was written down")
				return
			default:
			}
		}
	}
	if decisions, err := l.Acquire(t.Context(), c, askFor(t, c)); err != nil || !decisions[0].Granted() {
		t.Fatalf("got %+v, %v; want a grant", decisions, err)
	}
	<-done
	page, err := l.Log(t.Context(), c, quota.LogQuery{Most: 10})
	if err != nil || len(page.Entries) != 1 {
		t.Errorf("%+v, %v; want the grant put back", page, err)
	}
}

// The disk is full while an outage's grants are booked back: who asks for the health,
// and every other credential's requests, are answered all the same.
func TestJournalThatCannotBeWrittenHoldsUpNobody(t *testing.T) {
	l, _, c := open(t, make(chan Event, 100))
	other := *c
	other.Name = "other"
	s := &state{credential: &other, policy: l.state("youtube").policy, kick: make(chan struct{}, 1)}
	l.mu.Lock()
	l.states[other.Name] = s // without a watcher: this test books back itself
	l.mu.Unlock()
	if d := l.decideAlone(s, &other, askFor(t, &other), quota.ErrUnavailable)[0]; !d.Granted() {
		t.Fatalf("got %+v, want a grant of an open operation", d)
	}
	if err := l.journal.file.Close(); err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var all sync.WaitGroup
	for _, f := range []func(){
		func() {
			if l.settleBooked(s, &other, slices.Clone(s.unbooked)) {
				t.Error("what was booked was taken off the list, but not in the journal")
			}
		},
		func() { l.Health(t.Context()) },
		func() { _, _ = l.Acquire(t.Context(), c, askFor(t, c)) },
	} {
		all.Go(func() {
			for range 2000 {
				f()
			}
		})
	}
	go func() {
		all.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Fatal("the ledger hangs")
	}
}

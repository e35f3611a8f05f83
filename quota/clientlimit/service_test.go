package clientlimit_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
)

var public = &clientlimit.Clients{
	Name: "public", Algorithm: clientlimit.Log, Plain: true, OpenOnOutage: true,
	Limits:     []quota.Limit{{Name: "default", Units: 3, Window: quota.Sliding(time.Minute)}},
	Operations: map[string]quota.Units{"search": 2},
}

// A scene is a service on a ledger in memory.
type scene struct {
	*clientlimit.Service
	clock  *ledgertest.Clock
	ledger *ledgertest.ClientStore

	mu     sync.Mutex // guards events
	events []clientlimit.Decided
}

func newScene(t *testing.T, all ...*clientlimit.Clients) *scene {
	s := &scene{clock: ledgertest.NewClock(time.Date(2026, 11, 22, 9, 0, 0, 0, time.UTC))}
	s.ledger = ledgertest.NewClientStore(s.clock.Now)
	s.Service = clientlimit.NewService(clientlimit.Config{Deadline: time.Second, Emit: func(event any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if e, ok := event.(clientlimit.Decided); ok {
			s.events = append(s.events, e)
		}
	}})
	if err := s.SetClients(s.ledger, all); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *scene) stats(name string) clientlimit.Stats {
	g, _ := s.Group(name)
	return g.Stats()
}

// ask decides about one call.
func (s *scene) ask(t *testing.T, name, subject, operation string, count quota.Units) quota.Decision {
	t.Helper()
	decisions := s.Acquire(context.Background(), name, clientlimit.Request{Subject: subject, Operation: operation, Count: count})
	if len(decisions) != 1 {
		t.Fatalf("one request has %d decisions", len(decisions))
	}
	return decisions[0]
}

func TestServiceDecides(t *testing.T) {
	s := newScene(t, public)
	for _, row := range []struct {
		name, clients, subject, operation string
		count                             quota.Units
		want                              quota.Reason
		remaining                         quota.Units
	}{
		{"a call", "public", "alice", "", 1, "", 2},
		{"one of another cost", "public", "alice", "search", 1, "", 0},
		{"one too many", "public", "alice", "", 1, quota.LimitExceeded, 0},
		{"of somebody else", "public", "bob", "", 3, "", 0},
		{"more than there is", "public", "carol", "", 4, quota.CostExceedsLimit, 3},
		{"many more", "public", "carol", "search", clientlimit.MaxUnits, quota.CostExceedsLimit, 3},
		{"none", "public", "carol", "", 0, quota.BadRequest, 0},
		{"fewer than none", "public", "carol", "", -1, quota.BadRequest, 0},
		{"nobody's", "public", "", "", 1, quota.BadRequest, 0},
		{"an unknown operation", "public", "carol", "serch", 1, quota.UnknownOperation, 0},
		{"unknown clients", "pubic", "carol", "", 1, quota.UnknownClients, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			d := s.ask(t, row.clients, row.subject, row.operation, row.count)
			if d.Reason != row.want || d.Err != nil || d.Remaining() != row.remaining {
				t.Errorf("got %q (%v), %d remaining, want %q, %d", d.Reason, d.Err, d.Remaining(), row.want, row.remaining)
			}
		})
	}
	if stats := s.stats("public"); stats != (clientlimit.Stats{Granted: 3, Denied: 3}) {
		t.Errorf("counted: %+v", stats)
	}
	if d := s.ask(t, "pubic", "alice", "", 1); d.Hint != "did you mean public?" {
		t.Errorf("hint: %q", d.Hint)
	}
}

// Requests of one call are decided in their order, each on its own.
func TestServiceDecidesSeveral(t *testing.T) {
	s := newScene(t, public)
	decisions := s.Acquire(context.Background(), "public",
		clientlimit.Request{Subject: "alice", Count: 2}, clientlimit.Request{Subject: "", Count: 1}, clientlimit.Request{Subject: "alice", Count: 2},
		clientlimit.Request{Subject: "bob", Count: 2}, clientlimit.Request{Subject: "alice", Count: 1})
	var got []quota.Reason
	for _, d := range decisions {
		got = append(got, d.Reason)
	}
	if want := []quota.Reason{"", quota.BadRequest, quota.LimitExceeded, "", ""}; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(s.events) != len(decisions) {
		t.Errorf("%d of %d decisions were told of", len(s.events), len(decisions))
	}
}

func TestServiceDuringAnOutage(t *testing.T) {
	closed := *public
	closed.Name, closed.OpenOnOutage = "closed", false
	s := newScene(t, public, &closed)
	for _, down := range []error{quota.ErrUnavailable, fmt.Errorf("%w: gone", quota.ErrOutcomeUnknown)} {
		s.ledger.Fail(down)
		for range 5 { // more than the limit has
			if d := s.ask(t, "public", "alice", "search", 1); !d.Granted() || !d.Outage || d.Units != 2 || len(d.Limits) != 0 {
				t.Errorf("of open clients: %+v", d)
			}
		}
		if d := s.ask(t, "closed", "alice", "", 1); !errors.Is(d.Err, down) || d.Outage {
			t.Errorf("of closed clients: %+v", d)
		}
		if d := s.ask(t, "public", "alice", "serch", 1); d.Reason != quota.UnknownOperation {
			t.Errorf("of an unknown operation: %+v", d)
		}
		if _, _, _, err := s.Usage(context.Background(), "public", "alice"); !errors.Is(err, down) {
			t.Errorf("usage: %v", err)
		}
		if _, err := s.Reset(context.Background(), "public", "alice"); !errors.Is(err, down) {
			t.Errorf("reset: %v", err)
		}
	}
	s.ledger.Fail(nil)
	if d := s.ask(t, "public", "alice", "", 3); !d.Granted() || d.Outage {
		t.Errorf("what was granted during the outage counts: %+v", d)
	}
	if stats := s.stats("public"); stats != (clientlimit.Stats{Granted: 11, OutageGrants: 10}) {
		t.Errorf("counted: %+v", stats)
	}
	if stats := s.stats("closed"); stats != (clientlimit.Stats{Undecided: 2}) {
		t.Errorf("counted of closed clients: %+v", stats)
	}
}

// A call that other hosts were faster than each time has no decision, also of open clients: the ledger is there.
func TestServiceWhoseCallsLoseEachRace(t *testing.T) {
	s := newScene(t, public)
	s.ledger.Fail(fmt.Errorf("%w: %w", quota.ErrContended, quota.ErrUnavailable))
	if d := s.ask(t, "public", "alice", "", 1); !errors.Is(d.Err, quota.ErrContended) || d.Outage {
		t.Errorf("got %+v, want %v", d, quota.ErrContended)
	}
	if stats := s.stats("public"); stats != (clientlimit.Stats{Undecided: 1}) {
		t.Errorf("counted: %+v", stats)
	}
}

// A caller who goes away is no outage: nothing is granted to him.
func TestServiceAndACallerWhoLeaves(t *testing.T) {
	s := newScene(t, public)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	d := s.Acquire(ctx, "public", clientlimit.Request{Subject: "alice", Count: 1})[0]
	if !errors.Is(d.Err, context.Canceled) || d.Outage {
		t.Errorf("got %+v", d)
	}
	if stats := s.stats("public"); len(s.events) > 0 || stats != (clientlimit.Stats{}) {
		t.Errorf("told of %+v, counted %+v", s.events, stats)
	}
}

func TestServiceKeepsUsageWhenReconfigured(t *testing.T) {
	s := newScene(t, public)
	s.ask(t, "public", "alice", "", 3)
	more := *public
	more.Limits = []quota.Limit{{Name: "default", Units: 5, Window: quota.Sliding(time.Minute)}}
	if err := s.SetClients(s.ledger, []*clientlimit.Clients{&more}); err != nil {
		t.Fatal(err)
	}
	if d := s.ask(t, "public", "alice", "", 2); !d.Granted() || d.Remaining() != 0 {
		t.Errorf("with two units more: %+v", d)
	}
	if stats := s.stats("public"); stats.Granted != 2 {
		t.Errorf("counted: %+v", stats)
	}
	for _, bad := range [][]*clientlimit.Clients{{public, public}, {{Name: "public"}}} {
		if err := s.SetClients(s.ledger, bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	if d := s.ask(t, "public", "bob", "", 5); !d.Granted() {
		t.Errorf("after a configuration that was not taken: %+v", d)
	}
}

func TestServiceResets(t *testing.T) {
	s := newScene(t, public)
	s.ask(t, "public", "alice", "", 3)
	if refused, err := s.Reset(context.Background(), "public", "alice"); err != nil || !refused.Granted() {
		t.Fatal(refused, err)
	}
	usage, key, _, err := s.Usage(context.Background(), "public", "alice")
	if err != nil || len(usage.Limits) != 1 || usage.Limits[0].Used != 0 || key != "=alice" {
		t.Errorf("got %+v of %q, %v", usage, key, err)
	}
	for _, about := range []struct{ name, subject string }{{"pubic", "alice"}, {"public", ""}} {
		if refused, err := s.Reset(context.Background(), about.name, about.subject); err != nil || refused.Granted() {
			t.Errorf("%+v is reset: %v", about, err)
		}
	}
}

// Requests at the same time share the ledger's calls, and none is granted twice.
func TestServiceAtOnce(t *testing.T) {
	few := *public
	few.Limits = []quota.Limit{{Name: "default", Units: 100, Window: quota.Sliding(time.Minute)}}
	s := newScene(t, &few)
	var callers sync.WaitGroup
	for i := range 8 {
		callers.Go(func() {
			for range 50 {
				s.Acquire(context.Background(), "public", clientlimit.Request{Subject: "alice", Count: 1}, clientlimit.Request{Subject: strings.Repeat("x", i+1), Count: 1})
			}
		})
	}
	callers.Wait()
	if usage, _, _, err := s.Usage(context.Background(), "public", "alice"); err != nil || usage.Limits[0].Used != 100 {
		t.Errorf("used %+v, %v", usage, err)
	}
	if stats := s.stats("public"); stats != (clientlimit.Stats{Granted: 500, Denied: 300}) {
		t.Errorf("counted: %+v", stats)
	}
}

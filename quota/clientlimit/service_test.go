package clientlimit_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
)

var public = &clientlimit.Clients{
	Name: "public", Algorithm: clientlimit.Log, OpenOnOutage: true,
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
	s.Service = clientlimit.NewService(func(event any) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.events = append(s.events, event.(clientlimit.Decided))
	})
	if err := s.SetClients(s.ledger, "a secret of the test", all); err != nil {
		t.Fatal(err)
	}
	return s
}

// outcomes are what is in clientlimit.Stats.
type outcomes struct{ Granted, Denied, OutageGrants, Undecided int64 }

func (s *scene) stats(name string) outcomes {
	g, _ := s.Group(name)
	return outcomes{g.Granted.Load(), g.Denied.Load(), g.OutageGrants.Load(), g.Undecided.Load()}
}

// ask decides about one call.
func (s *scene) ask(t *testing.T, name, subject, operation string, count quota.Units) (quota.Decision, error) {
	t.Helper()
	return s.Acquire(t.Context(), name, clientlimit.Request{Subject: subject, Operation: operation, Count: count})
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
			d, err := s.ask(t, row.clients, row.subject, row.operation, row.count)
			if d.Reason != row.want || err != nil || d.Remaining() != row.remaining {
				t.Errorf("got %q (%v), %d remaining, want %q, %d", d.Reason, err, d.Remaining(), row.want, row.remaining)
			}
		})
	}
	if stats := s.stats("public"); stats != (outcomes{Granted: 3, Denied: 3}) {
		t.Errorf("counted: %+v", stats)
	}
	if d, _ := s.ask(t, "pubic", "alice", "", 1); d.Hint != "did you mean public?" {
		t.Errorf("hint: %q", d.Hint)
	}
}

func TestServiceDuringAnOutage(t *testing.T) {
	closed := *public
	closed.Name, closed.OpenOnOutage = "closed", false
	s := newScene(t, public, &closed)
	for _, down := range []error{quota.ErrUnavailable, fmt.Errorf("%w: gone", quota.ErrOutcomeUnknown)} {
		s.ledger.Fail(down)
		for range 5 { // more than the limit has
			if d, err := s.ask(t, "public", "alice", "search", 1); err != nil || !d.Granted() || !d.Outage || d.Units != 2 || len(d.Limits) != 0 {
				t.Errorf("of open clients: %+v", d)
			}
		}
		if d, err := s.ask(t, "closed", "alice", "", 1); !errors.Is(err, down) || d.Outage {
			t.Errorf("of closed clients: %+v", d)
		}
		if d, _ := s.ask(t, "public", "alice", "serch", 1); d.Reason != quota.UnknownOperation {
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
	if d, err := s.ask(t, "public", "alice", "", 3); err != nil || !d.Granted() || d.Outage {
		t.Errorf("what was granted during the outage counts: %+v", d)
	}
	if stats := s.stats("public"); stats != (outcomes{Granted: 11, OutageGrants: 10}) {
		t.Errorf("counted: %+v", stats)
	}
	if stats := s.stats("closed"); stats != (outcomes{Undecided: 2}) {
		t.Errorf("counted of closed clients: %+v", stats)
	}
}

// A caller that goes away is no outage: nothing is granted to it.
func TestServiceAndACallerThatLeaves(t *testing.T) {
	s := newScene(t, public)
	s.ledger.Fail(context.Canceled)
	if d, err := s.ask(t, "public", "alice", "", 1); !errors.Is(err, context.Canceled) || d.Outage {
		t.Errorf("got %+v, %v", d, err)
	}
	if stats := s.stats("public"); len(s.events) > 0 || stats != (outcomes{}) {
		t.Errorf("told of %+v, counted %+v", s.events, stats)
	}
}

func TestServiceKeepsUsageWhenReconfigured(t *testing.T) {
	s := newScene(t, public)
	s.ask(t, "public", "alice", "", 3)
	more := *public
	more.Limits = []quota.Limit{{Name: "default", Units: 5, Window: quota.Sliding(time.Minute)}}
	if err := s.SetClients(s.ledger, "a secret of the test", []*clientlimit.Clients{&more}); err != nil {
		t.Fatal(err)
	}
	if d, _ := s.ask(t, "public", "alice", "", 2); !d.Granted() || d.Remaining() != 0 {
		t.Errorf("with two units more: %+v", d)
	}
	if stats := s.stats("public"); stats.Granted != 2 {
		t.Errorf("counted: %+v", stats)
	}
	for _, bad := range [][]*clientlimit.Clients{{public, public}, {{Name: "public"}}} {
		if err := s.SetClients(s.ledger, "", bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	if d, _ := s.ask(t, "public", "bob", "", 5); !d.Granted() {
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
	if err != nil || len(usage.Limits) != 1 || usage.Limits[0].Used != 0 || key == (clientlimit.Key{}) {
		t.Errorf("got %+v of %q, %v", usage, key, err)
	}
	for _, about := range []struct{ name, subject string }{{"pubic", "alice"}, {"public", ""}} {
		if refused, err := s.Reset(context.Background(), about.name, about.subject); err != nil || refused.Granted() {
			t.Errorf("%+v is reset: %v", about, err)
		}
	}
}

// Without a secret in the file, the first that asks draws one. Where it is lost, the one that is known is put back; where
// another has taken its place, that one counts.
func TestTheSecretInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &secretStore{ClientStore: ledgertest.NewClientStore(time.Now)}
		ctx, stop := context.WithCancel(t.Context())
		var watching sync.WaitGroup
		defer watching.Wait()
		defer stop()
		open := func() *clientlimit.Service {
			s := clientlimit.NewService(nil)
			if err := s.SetClients(store, "", []*clientlimit.Clients{public}); err != nil {
				t.Fatal(err)
			}
			watching.Go(func() { s.Watch(ctx) })
			return s
		}
		key := func(s *clientlimit.Service) clientlimit.Key {
			t.Helper()
			_, k, _, err := s.Usage(ctx, "public", "alice")
			if err != nil {
				t.Fatal(err)
			}
			return k
		}
		one, other := open(), open()
		first := key(one)
		if drawn := store.set(""); len(drawn) < 32 {
			t.Errorf("the secret is %q", drawn)
		}
		time.Sleep(11 * time.Second) // it is put back
		if got := key(other); got != first {
			t.Error("a host that shares the store has another key")
		}
		store.set("another one that somebody wrote")
		if key(one) != first {
			t.Error("the secret is read at each call")
		}
		time.Sleep(11 * time.Second)
		if now := key(one); now == first || now != key(other) {
			t.Error("a secret that was replaced is not taken over")
		}
		if err := other.SetClients(store, "one in the file", []*clientlimit.Clients{public}); err != nil || key(other) == key(one) {
			t.Errorf("the file's secret does not count: %v", err)
		}
		if err := other.SetClients(store, "", []*clientlimit.Clients{public}); err != nil || key(other) != key(one) {
			t.Errorf("without one in the file: %v", err)
		}
	})
}

// A secretStore has a secret, as Redis does.
type secretStore struct {
	*ledgertest.ClientStore
	mu     sync.Mutex // guards secret
	secret string
}

func (s *secretStore) Secret(_ context.Context, ours string) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.secret == "" {
		s.secret = ours
	}
	return s.secret, nil
}

// set replaces the secret, and returns the one before.
func (s *secretStore) set(secret string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	was := s.secret
	s.secret = secret
	return was
}

// A program that knows the secret makes the same keys, in any language.
func TestKeysAreAContract(t *testing.T) {
	s := newScene(t, &clientlimit.Clients{Name: "public", Algorithm: clientlimit.Log, Limits: []quota.Limit{
		{Name: "hour", Units: 3, Window: quota.Sliding(time.Hour)}, {Name: "minute", Units: 3, Window: quota.Sliding(time.Minute)},
	}})
	keyed := hmac.New(sha256.New, []byte("a secret of the test"))
	keyed.Write([]byte("public\x00log\x0060000,3600000\x002001:db8::1"))
	want := hex.EncodeToString(keyed.Sum(nil)[:16])
	for _, subject := range []string{"2001:db8::1", "2001:0db8:0::1", "2001:DB8::1"} {
		if _, got, _, err := s.Usage(t.Context(), "public", subject); err != nil || got.String() != want {
			t.Errorf("%s: %s, %v, want %s", subject, got, err, want)
		}
	}
	if _, got, _, err := s.Usage(t.Context(), "public", "2001:db8::2"); err != nil || got.String() == want {
		t.Errorf("another subject has the key %s, %v", got, err)
	}
}

package clientlimit_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"sync/atomic"
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
	ledger *ledgertest.ClientStore
	events int
}

func newScene(t *testing.T, all ...*clientlimit.Clients) *scene {
	s := &scene{ledger: ledgertest.NewClientStore(ledgertest.NewClock(nine).Now)}
	s.Service = clientlimit.NewService(func(any) { s.events++ })
	must(t, s.SetClients(s.ledger, "a secret of the test", all))
	return s
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
}

// A caller that goes away is no outage: nothing is granted to it.
func TestServiceDuringAnOutage(t *testing.T) {
	closed := *public
	closed.Name, closed.OpenOnOutage = "closed", false
	s := newScene(t, public, &closed)
	for _, down := range []error{quota.ErrUnavailable, fmt.Errorf("%w: gone", quota.ErrOutcomeUnknown), context.Canceled} {
		s.ledger.Fail(down)
		d, err := s.ask(t, "public", "alice", "search", 1)
		if open := !errors.Is(down, context.Canceled); open != (err == nil) || d.Outage != open || len(d.Limits) != 0 {
			t.Errorf("of open clients: %+v, %v", d, err)
		}
		if d, err := s.ask(t, "closed", "alice", "", 1); !errors.Is(err, down) || d.Outage {
			t.Errorf("of closed clients: %+v", d)
		}
	}
	if err := s.Reset(t.Context(), "public", "alice"); !errors.Is(err, context.Canceled) {
		t.Errorf("reset: %v", err)
	}
	s.ledger.Fail(nil)
	if d, err := s.ask(t, "public", "alice", "", 3); err != nil || !d.Granted() || d.Outage {
		t.Errorf("what was granted during the outage counts: %+v", d)
	}
	if s.events != 5 {
		t.Errorf("there were %d events, want none of callers who went away", s.events)
	}
}

// A secretStore has a secret, as Redis does.
type secretStore struct {
	*ledgertest.ClientStore
	secret atomic.Value
}

func (s *secretStore) Secret(_ context.Context, ours string) (string, error) {
	s.secret.CompareAndSwap("", ours)
	return s.secret.Load().(string), nil
}

// Without a secret in the file, the first that asks draws one. Where it is lost, the one that is known is put back;
// where another has taken its place, that one counts.
func TestTheSecretInTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &secretStore{ClientStore: ledgertest.NewClientStore(time.Now)}
		store.secret.Store("")
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		key := func(s *clientlimit.Service) clientlimit.Key {
			t.Helper()
			_, k, err := s.Usage(ctx, "public", "alice")
			must(t, err)
			return k
		}
		set := func(s *clientlimit.Service, secret string) {
			must(t, s.SetClients(store, secret, []*clientlimit.Clients{public}))
		}
		// await returns after the secret was read again.
		await := func() {
			time.Sleep(11 * time.Second)
			synctest.Wait()
		}
		one, other := clientlimit.NewService(nil), clientlimit.NewService(nil)
		for _, s := range []*clientlimit.Service{one, other} {
			set(s, "")
			go s.Watch(ctx)
		}
		first := key(one)
		if secret := store.secret.Load().(string); len(secret) < 32 {
			t.Errorf("the secret is %q", secret)
		}
		store.secret.Store("")
		if await(); key(other) != first {
			t.Error("the secret that was lost is not put back")
		}
		store.secret.Store("another one that somebody wrote")
		if key(one) != first {
			t.Error("the secret is read at each call")
		}
		if await(); key(one) == first || key(one) != key(other) {
			t.Error("a secret that was replaced is not taken over")
		}
		if set(other, "one in the file"); key(other) == key(one) {
			t.Error("the file's secret does not count")
		}
	})
}

// A program that knows the secret makes the same keys, in any language.
func TestKeysAreAContract(t *testing.T) {
	s := newScene(t, &clientlimit.Clients{Name: "public", Algorithm: clientlimit.Log, Limits: []quota.Limit{
		{Name: "hour", Units: 3, Window: quota.Sliding(time.Hour)}, {Name: "minute", Units: 3, Window: quota.Sliding(time.Minute)},
	}})
	keyed := hmac.New(sha256.New, []byte("a secret of the test"))
	keyed.Write([]byte("public\x00log\x0060000,3600000\x002001:db8::1"))
	want := hex.EncodeToString(keyed.Sum(nil)[:16])
	for subject, same := range map[string]bool{"2001:db8::1": true, "2001:0db8:0::1": true, "2001:DB8::1": true, "2001:db8::2": false} {
		if _, got, err := s.Usage(t.Context(), "public", subject); err != nil || (got.String() == want) != same {
			t.Errorf("%s: %s, %v, want %s: %v", subject, got, err, want, same)
		}
	}
}

package redisledger

import (
	"context"
	"errors"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
	"quotad/quota/redisledger/redistest"
)

// hourly gives each subject five units an hour.
func hourly() *clientlimit.Clients {
	return &clientlimit.Clients{
		Name: "public", Algorithm: clientlimit.Counter,
		Limits: []quota.Limit{{Name: "hourly", Units: 5, Window: quota.Sliding(time.Hour)}},
	}
}

// takeOne has a subject ask for a unit.
func takeOne(ctx context.Context, l *Store, c *clientlimit.Clients, subject string) (quota.Decision, error) {
	service, err := serviceOn(l, c)
	if err != nil {
		return quota.Decision{}, err
	}
	return service.Acquire(ctx, c.Name, clientlimit.Request{Subject: subject, Count: 1})
}

func serviceOn(l *Store, c *clientlimit.Clients) (*clientlimit.Service, error) {
	service := clientlimit.NewService(nil)
	return service, service.SetClients(l, "a secret of the tests", []*clientlimit.Clients{c})
}

func usageOf(ctx context.Context, l *Store, c *clientlimit.Clients, subject string) (u quota.Usage, err error) {
	service, err := serviceOn(l, c)
	if err == nil {
		u, _, _, err = service.Usage(ctx, c.Name, subject)
	}
	return u, err
}

func wantUsed(t *testing.T, l *Store, c *clientlimit.Clients, subject string, want quota.Units) {
	t.Helper()
	u, err := usageOf(t.Context(), l, c, subject)
	if err != nil {
		t.Fatal(err)
	}
	if got := u.Limits[0].Used; got != want {
		t.Errorf("%s has used %d units, want %d", subject, got, want)
	}
}

// awaitAnswer asks for a unit until Redis decides.
func awaitAnswer(t *testing.T, l *Store, c *clientlimit.Clients, subject string) quota.Decision {
	t.Helper()
	begun := time.Now()
	for tick := time.NewTicker(10 * time.Millisecond); ; <-tick.C {
		d, err := takeOne(t.Context(), l, c, subject)
		if err == nil {
			t.Logf("it took %v until Redis decided again", time.Since(begun))
			return d
		}
		if time.Since(begun) > hanging {
			t.Fatalf("Redis is back and does not decide: %v", err)
		}
	}
}

// Calls wait for their deadline until a ping has waited for one, too. Then nobody waits.
func TestClientsOfFrozenRedis(t *testing.T) {
	t.Parallel()
	server, c := redistest.Start(t), hourly()
	l := openStoreAt(t, Config{Addrs: []string{server.Addr}})
	if d := awaitAnswer(t, l, c, "alice"); !d.Granted() {
		t.Fatalf("got %+v, want a grant", d)
	}
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	for l.unreachable(l.current()) == nil {
		if _, err := takeOne(t.Context(), l, c, "alice"); !errors.Is(err, quota.ErrOutcomeUnknown) && !errors.Is(err, quota.ErrUnavailable) {
			t.Errorf("got %v while Redis is frozen", err)
		}
	}
	for range 1000 {
		if _, err := takeOne(t.Context(), l, c, "alice"); !errors.Is(err, quota.ErrUnavailable) {
			t.Fatalf("got %v after a call that was not answered, want %v at once", err, quota.ErrUnavailable)
		}
	}
	if _, err := usageOf(t.Context(), l, c, "alice"); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("got %v for the usage, want %v at once", err, quota.ErrUnavailable)
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
	if d := awaitAnswer(t, l, c, "alice"); !d.Granted() {
		t.Errorf("got %+v, want a grant", d)
	}
}

func TestClientsOfFlushedRedis(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	config := Config{Addrs: []string{server.Addr}}
	one := patient(openStoreAt(t, config))
	other := patient(openStoreAt(t, config))
	c := hourly()
	if d, err := takeOne(t.Context(), one, c, "alice"); err != nil || !d.Granted() {
		t.Fatalf("got %+v, %v, want a grant", d, err)
	}
	server.Order(t, "FLUSHALL")
	server.Order(t, "SCRIPT FLUSH")
	if d, err := takeOne(t.Context(), other, c, "alice"); err != nil || !d.Granted() {
		t.Fatalf("got %+v, %v, want a grant", d, err)
	}
	wantUsed(t, one, c, "alice", 1)
}

// A reply that is lost is an outcome that nobody knows; the ask was debited once.
func TestClientsWithoutReply(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	proxy := redistest.NewProxy(t, server)
	l := patient(openStoreAt(t, Config{Addrs: []string{proxy.Addr}}))
	for _, test := range []struct {
		name  string
		fault redistest.Fault
		used  quota.Units
	}{
		{"carried out", redistest.CutAfter, 2},
		{"not carried out", redistest.CutBefore, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			c, subject := hourly(), test.name
			awaitAnswer(t, l, c, subject)
			proxy.Meet(test.fault)
			if _, err := takeOne(t.Context(), l, c, subject); !errors.Is(err, quota.ErrOutcomeUnknown) {
				t.Errorf("got %v without a reply, want %v", err, quota.ErrOutcomeUnknown)
			}
			proxy.Meet()
			awaitAnswer(t, l, c, subject)
			wantUsed(t, l, c, subject, test.used+1)
		})
	}
}

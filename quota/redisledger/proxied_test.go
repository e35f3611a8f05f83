package redisledger

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// A proxied is a ledger behind a proxy that can lose its replies, and a way around
// the proxy to what Redis really holds.
type proxied struct {
	testing.TB
	server *redistest.Server
	proxy  *redistest.Proxy
	ledger *Ledger
	direct redis.UniversalClient
	c      *quota.Credential
}

// newProxied starts on a server; those of one server have logs of their own. All
// verbs have been used once, so that scripts are loaded and limits counted, and
// the log is empty but for the trace of a reset.
func newProxied(t testing.TB, server *redistest.Server) *proxied {
	t.Helper()
	r := &proxied{TB: t, server: server, proxy: redistest.NewProxy(t, server), c: hundred()}
	prefix := "quotad:" + t.Name() + ":"
	r.ledger = openAt(t, Config{Addrs: []string{r.proxy.Addr}, Daemon: "a", KeyPrefix: prefix})
	r.direct = connect(t, Config{Addrs: []string{server.Addr}})
	grant := r.acquire(ask("list", ""))[0]
	r.must(r.settle(t.Context(), grant, 0))
	r.must(r.adjust(t.Context(), -1))
	r.must(r.ledger.Reset(t.Context(), r.c, quota.Caller{}, ""))
	_, err := r.ledger.Usage(t.Context(), r.c)
	r.must(err)
	return r
}

// hundred is a credential of a hundred units a day.
func hundred() *quota.Credential {
	return &quota.Credential{
		Name:       "one",
		Limits:     []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}, "ten": {Every: 10}},
	}
}

func openAt(t testing.TB, config Config) *Ledger {
	t.Helper()
	l, err := Open(config, Local{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// ask is an ask of hundred's, without an id if that is empty.
func ask(operation, id string) quota.Ask {
	units := hundred().Operations[operation].Every
	return quota.Ask{
		Request: quota.Request{Credential: "one", Operation: operation, Count: 1, RequestID: id, Caller: quota.Caller{UID: 1}},
		Charges: []quota.Charge{{Limit: "daily", Units: units}},
	}
}

func (r *proxied) must(err error) {
	r.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

// acquire acquires, however often the connection breaks.
func (r *proxied) acquire(asks ...quota.Ask) []quota.Decision {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hanging)
	defer cancel()
	decisions, err := r.ledger.Acquire(ctx, r.c, asks)
	if err != nil {
		r.Fatalf("acquire: %v", err)
	}
	return decisions
}

func (r *proxied) settle(ctx context.Context, d quota.Decision, units quota.Units) error {
	_, id, err := quota.ParseGrantID(d.GrantID)
	if err != nil {
		return err
	}
	settled, err := r.ledger.Settle(ctx, r.c, quota.Settlement{Grant: id, Units: units})
	if err == nil && settled.Reason != "" {
		err = fmt.Errorf("settle is refused: %+v", settled)
	}
	return err
}

func (r *proxied) adjust(ctx context.Context, units int64) error {
	_, err := r.ledger.Adjust(ctx, r.c, quota.Adjustment{Limit: "daily", Units: units})
	return err
}

// holds expects so many units in the window, and so many entries in the log
// behind the trace of the reset; it looks around the proxy.
func (r *proxied) holds(units quota.Units, entries int64) {
	r.Helper()
	around := openAt(r, Config{Addrs: []string{r.server.Addr}, Daemon: "observer", KeyPrefix: r.ledger.prefix})
	u, err := around.Usage(context.Background(), r.c)
	r.must(err)
	if got := u.Limits[0].Used; got != units {
		r.Errorf("%d units are used, want %d", got, units)
	}
	length, err := r.direct.XLen(context.Background(), r.ledger.keys(r.c.Name, "")[1]).Result()
	r.must(err)
	if length-1 != entries {
		r.Errorf("the log has %d entries, want %d", length-1, entries)
	}
}

// unknown expects the error of a call that may have debited.
func (r *proxied) unknown(err error) {
	r.Helper()
	if !errors.Is(err, quota.ErrOutcomeUnknown) || errors.Is(err, quota.ErrUnavailable) {
		r.Fatalf("got %v, want the outcome to be unknown", err)
	}
}

func (r *proxied) isGrant(d quota.Decision) {
	r.Helper()
	if !d.Granted() || d.GrantID == "" {
		r.Errorf("got %+v, want a grant", d)
	}
}

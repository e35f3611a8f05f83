package redisledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/redisledger/redistest"
)

// restoring is a ledger in the middle of a loss.
type restoring struct {
	*testing.T
	clock  *ledgertest.Clock
	ledger *Ledger
	c      *quota.Credential
}

func beginRestoring(t *testing.T) *restoring {
	t.Helper()
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	opened, _ := harness(t, redistest.Start(t)).Open(t, clock)
	t.Cleanup(func() { opened.Close() })
	return &restoring{t, clock, opened.(*Ledger), restored()}
}

// beginTwo returns two daemons with one log.
func beginTwo(t *testing.T) (a, b *restoring) {
	t.Helper()
	all := beginSome(t, 2)
	return all[0], all[1]
}

// beginSome returns daemons with one log.
func beginSome(t *testing.T, n int) (all []*restoring) {
	t.Helper()
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	h := harness(t, redistest.Start(t))
	first, _ := h.Open(t, clock)
	for len(all) < n {
		l := first
		if len(all) > 0 {
			l = h.Join(t)
		}
		t.Cleanup(func() { l.Close() })
		all = append(all, &restoring{t, clock, l.(*Ledger), restored()})
	}
	return all
}

func restored() *quota.Credential {
	return &quota.Credential{
		Name:       "youtube",
		Limits:     []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"list": {Every: 1}},
	}
}

func (r *restoring) ask(count quota.Units, id string) (quota.Ask, quota.Decision, error) {
	r.Helper()
	request := quota.Request{Credential: "youtube", Operation: "list", Count: count, RequestID: id}
	ask := quota.Ask{Request: request, Charges: []quota.Charge{{Limit: "daily", Units: count}}}
	decisions, err := r.ledger.Acquire(context.Background(), r.c, []quota.Ask{ask})
	if err != nil {
		return ask, quota.Decision{}, err
	}
	return ask, decisions[0], nil
}

// granted acquires, and returns what a journal would have of it.
func (r *restoring) granted(count quota.Units, id string) quota.Entry {
	r.Helper()
	ask, d, err := r.ask(count, id)
	if err != nil || !d.Granted() {
		r.Fatalf("got %+v, %v; want a grant", d, err)
	}
	_, entry, err := quota.ParseGrantID(d.GrantID)
	if err != nil {
		r.Fatal(err)
	}
	return quota.NewEntry(ask, entry)
}

// many acquires n single units in calls of a hundred.
func (r *restoring) many(n int) {
	r.Helper()
	one := quota.Ask{Request: quota.Request{Credential: "youtube", Operation: "list", Count: 1}, Charges: []quota.Charge{{Limit: "daily", Units: 1}}}
	for range n / 100 {
		if _, err := r.ledger.Acquire(context.Background(), r.c, slices.Repeat([]quota.Ask{one}, 100)); err != nil {
			r.Fatal(err)
		}
	}
}

func (r *restoring) lost() {
	r.Helper()
	if _, _, err := r.ask(1, ""); !errors.Is(err, quota.ErrLost) {
		r.Fatalf("got %v, want ErrLost", err)
	}
}

// missed expects that the heartbeat finds the loss.
func (r *restoring) missed() {
	r.Helper()
	if _, err := r.ledger.Usage(r.Context(), r.c); !errors.Is(err, quota.ErrLost) && !errors.Is(err, quota.ErrRecovering) {
		r.Fatalf("got %v, want ErrLost", err)
	}
}

// settled looks at a quiet log until it is decided about.
func (r *restoring) settled() {
	r.Helper()
	for err := error(quota.ErrRecovering); errors.Is(err, quota.ErrRecovering); {
		if err = r.ledger.account("youtube").check(r.Context(), r.c); err != nil && !errors.Is(err, quota.ErrRecovering) {
			r.Fatal(err)
		}
	}
}

func (r *restoring) flush() {
	r.Helper()
	if err := r.ledger.client.Del(context.Background(), r.ledger.keys("youtube", newView(r.c).digest)...).Err(); err != nil {
		r.Fatal(err)
	}
}

func (r *restoring) evict(name string) {
	r.Helper()
	if err := r.ledger.client.Del(context.Background(), r.key(name)).Err(); err != nil {
		r.Fatal(err)
	}
}

// keep copies the log, and returns what brings the copy back: as a failover to a
// lagging replica would.
func (r *restoring) keep() (back func()) {
	r.Helper()
	copies := make(map[string]string)
	for _, key := range r.ledger.keys("youtube", newView(r.c).digest) {
		if value, err := r.ledger.client.Dump(r.Context(), key).Result(); err == nil {
			copies[key] = value
		}
	}
	return func() {
		r.Helper()
		r.flush()
		for key, value := range copies {
			if err := r.ledger.client.RestoreReplace(r.Context(), key, 0, value).Err(); err != nil {
				r.Fatal(err)
			}
		}
	}
}

// forget has the last call, of one request, be one whose answer was lost.
func (r *restoring) forget() {
	r.Helper()
	account, err := r.ledger.client.Get(r.Context(), r.key("account")).Result()
	if err != nil {
		r.Fatal(err)
	}
	a := r.ledger.account("youtube")
	known, _ := a.known()
	state := account[len(r.ledger.front(known.epoch, r.ledger.viewOf(r.c))):]
	asks := []quota.Ask{{Request: quota.Request{Credential: "youtube", Operation: "list", Count: 1}}}
	a.unanswered = &unanswered{call: uint64(unpacked(state[16:])), asks: asks}
}

// restore puts entries back as a daemon does whose journal has them. What settled one
// is an entry of its own.
func (r *restoring) restore(quiet time.Duration, entries ...quota.Entry) {
	r.Helper()
	if err := putBack(r.Context(), r.ledger, r.c, quiet, r.clock.Now(), entries...); err != nil {
		r.Fatal(err)
	}
}

// journal is what a daemon's journal has that wrote all there is.
func (r *restoring) journal() (entries []any) {
	r.Helper()
	messages, err := r.ledger.client.XRange(r.Context(), r.ledger.keys("youtube", "")[1], "-", "+").Result()
	if err != nil {
		r.Fatal(err)
	}
	for _, m := range messages {
		entries = append(entries, m.ID, m.Values["e"])
	}
	return entries
}

func (r *restoring) stage(quiet time.Duration, entries ...any) {
	r.Helper()
	r.ledger.quietTime = quiet
	a := r.ledger.account("youtube")
	p, err := a.stage(r.Context(), r.c, nil, true, entries)
	if err != nil {
		r.Fatal(err)
	}
	a.expect(p)
}

// putBack stages entries in steps, as recover does.
func putBack(ctx context.Context, l *Ledger, c *quota.Credential, quiet time.Duration, now time.Time, entries ...quota.Entry) error {
	l.quietTime = quiet
	a := l.account(c.Name)
	p, err := a.stage(ctx, c, nil, len(entries) == 0, nil)
	var args []any
	for _, e := range entries {
		args = append(args, e.ID.String(), textOf(e))
		if e.Settled {
			by := quota.ID{Ms: now.UnixMilli(), Seq: 1 << 40}
			s := settleText(quota.Settlement{Grant: e.ID, Units: e.SettledTo})
			given := "-"
			for _, charge := range e.GivenBack {
				given = fmt.Sprintf(",%s=%d", charge.Limit, charge.Units)
			}
			args = append(args, by.String(), fmt.Sprintf("%s - -;%s - - %d %s", s, e.ID, e.SettledTo, given))
		}
	}
	for err == nil && len(args) > 0 {
		n := min(len(args), 2*stageStep)
		p, err = a.stage(ctx, c, &p, n == len(args), args[:n])
		args = args[n:]
	}
	if err == nil {
		a.expect(p)
	}
	return err
}

// textOf is how a grant stands in the log.
func textOf(e quota.Entry) string {
	ask := quota.Ask{Request: quota.Request{Operation: e.Operation, Count: e.Count, Caller: quota.Caller{Job: e.By, Region: e.Region}}, Charges: e.Charges}
	return grantText(ask, requestDigest(e.Key))
}

// alone is a record of what a host grants on its own now.
func (r *restoring) alone(count quota.Units, id string) quota.Entry {
	request := quota.Request{Credential: "youtube", Operation: "list", Count: count, RequestID: id}
	ask := quota.Ask{Request: request, Charges: []quota.Charge{{Limit: "daily", Units: count}}}
	return quota.NewEntry(ask, quota.ID{Ms: r.clock.Now().UnixMilli(), Seq: 7 << 16})
}

func (r *restoring) bookBack(records ...quota.Entry) {
	r.Helper()
	var pending []offlineGrant
	for _, e := range records {
		pending = append(pending, offlineGrant{id: e.ID, text: textOf(e), settledTo: "-", at: time.Now().Add(e.At.Sub(r.clock.Now()))})
	}
	if err := r.ledger.account("youtube").bookNow(r.Context(), r.c, pending); err != nil {
		r.Fatal(err)
	}
}

// known and expect are what a daemon knows of the log.
func (r *restoring) known() position {
	p, _ := r.ledger.account("youtube").known()
	return p
}

func (r *restoring) expect(p position) { r.ledger.account("youtube").expect(p) }

func (r *restoring) used(want quota.Units) {
	r.Helper()
	u, err := r.ledger.Usage(context.Background(), r.c)
	if err != nil || u.Limits[0].Used != want {
		r.Fatalf("%+v, %v; want %d used", u, err, want)
	}
}

func (r *restoring) key(name string) string {
	i := slices.IndexFunc(r.ledger.keys("youtube", newView(r.c).digest), func(key string) bool { return strings.HasSuffix(key, ":"+name) })
	return r.ledger.keys("youtube", newView(r.c).digest)[i]
}

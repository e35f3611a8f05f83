package redisledger

import (
	"context"
	"errors"
	"fmt"
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
	opened, _ := harness(redistest.Start(t)).Open(t, clock)
	t.Cleanup(func() { opened.Close() })
	return &restoring{t, clock, opened.(*Ledger), restored()}
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

func (r *restoring) flush() {
	r.Helper()
	if err := r.ledger.client.Del(context.Background(), r.ledger.keys("youtube", newView(r.c).digest)...).Err(); err != nil {
		r.Fatal(err)
	}
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
	p, err := a.stage(r.Context(), r.c, nil, entries)
	if err != nil {
		r.Fatal(err)
	}
	a.expect(p)
}

// putBack stages entries in steps, as recover does.
func putBack(ctx context.Context, l *Ledger, c *quota.Credential, quiet time.Duration, now time.Time, entries ...quota.Entry) error {
	l.quietTime = quiet
	a := l.account(c.Name)
	p, err := a.stage(ctx, c, nil, nil)
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
		p, err = a.stage(ctx, c, &p, args[:n])
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

func TestRestoreKeepsTimesAndIDs(t *testing.T) {
	r := beginRestoring(t)
	first := r.granted(30, "")
	r.clock.Add(20 * time.Minute)
	second := r.granted(40, "page-1")
	r.flush()
	r.lost()
	r.restore(0, first, second)
	r.restore(0, first, second) // once more changes nothing
	r.used(70)
	if _, d, err := r.ask(40, "page-1"); err != nil || !d.Replayed || d.GrantID != quota.GrantID("youtube", second.ID) {
		t.Errorf("got %+v, %v; want the grant of before the loss again", d, err)
	}
	_, d, err := r.ask(60, "")
	if err != nil || d.RetryAfter != 40*time.Minute {
		t.Errorf("got %+v, %v; want a denial until the first leaves, in 40 min", d, err)
	}
	r.clock.Add(40 * time.Minute)
	r.used(40)
}

func TestRestAfterALoss(t *testing.T) {
	r := beginRestoring(t)
	record := r.granted(30, "")
	r.flush()
	r.restore(time.Hour, record)
	if _, _, err := r.ask(1, ""); !errors.Is(err, quota.ErrRecovering) {
		t.Fatalf("got %v right after a loss, want ErrRecovering", err)
	}
	r.clock.Add(59 * time.Minute) // Redis' clock was set
	if _, _, err := r.ask(1, ""); !errors.Is(err, quota.ErrRecovering) {
		t.Fatalf("got %v before the rest is over, want ErrRecovering", err)
	}
	const short = 30 * time.Millisecond
	begun := time.Now()
	r.restore(short, record) // by another daemon
	for err := quota.ErrRecovering; errors.Is(err, quota.ErrRecovering); {
		_, _, err = r.ask(30, "")
	}
	if lasted := time.Since(begun); lasted < short {
		t.Errorf("the rest lasted %v, want %v", lasted, short)
	}
	r.used(60)
}

func TestRestoreBehindItsPlace(t *testing.T) {
	r := beginRestoring(t)
	r.c.Limits[0].Units = 1000
	early := r.granted(30, "early")
	r.clock.Add(20 * time.Minute)
	late := r.granted(40, "")
	r.flush()
	// Another daemon puts the later one back first: there is no place before it.
	r.restore(0, late)
	r.used(40)
	r.restore(0, early)
	r.restore(0, early)
	r.used(70)
	page, err := r.ledger.Log(context.Background(), r.c, quota.LogQuery{Most: 10})
	if err != nil || len(page.Entries) != 2 {
		t.Fatalf("%+v, %v; want two entries", page, err)
	}
	if at := page.Entries[1].At; !at.Equal(early.ID.Time()) {
		t.Errorf("the log says %v, want the time of the grant, %v", at, early.ID.Time())
	}
	// It counts longer than it had to, never shorter, and is still found by its id.
	d, err := r.ledger.Settle(context.Background(), r.c, quota.Settlement{Grant: early.ID, Units: 10})
	if err != nil || d.Reason != "" {
		t.Errorf("got %+v, %v; want it settled", d, err)
	}
	r.used(50)
	r.clock.Add(time.Hour)
	r.used(0)
	r.many(200)
	r.clock.Add(time.Hour)
	r.many(100) // trims the log
	if n, err := r.ledger.client.HLen(t.Context(), r.key("requests")).Result(); err != nil || n != 0 {
		t.Errorf("%d names of entries are kept that have left, %v", n, err)
	}
}

func TestNothingIsLostThatHadExpired(t *testing.T) {
	r := beginRestoring(t)
	r.granted(100, "")
	r.clock.Add(time.Hour)
	r.flush() // as Redis does with the keys of a credential that nobody uses
	r.granted(100, "")
}

func TestAnotherDaemonsLogIsNoticed(t *testing.T) {
	r := beginRestoring(t)
	r.granted(60, "")
	mark := r.known()
	r.flush()
	r.expect(position{}) // as a daemon that knows nothing
	r.granted(60, "")
	r.expect(mark)
	r.lost()
}

func TestOlderCopy(t *testing.T) {
	r := beginRestoring(t)
	first := r.granted(10, "")
	mark := r.known()
	mark.newest.Ms += 5 // an entry that this copy does not have
	r.expect(mark)
	r.lost()
	missing := first
	missing.ID = mark.newest
	r.restore(0, first, missing)
	r.used(20)
}

// A daemon that is only denied hears how far the log goes, as one that is granted does.
func TestDeniedDaemonsKnowTheLog(t *testing.T) {
	a, b := beginTwo(t)
	a.granted(100, "")
	if _, d, err := b.ask(1, ""); err != nil || d.Granted() {
		t.Fatalf("got %+v, %v; want a denial", d, err)
	}
	if got, want := b.known(), a.known(); got != want {
		t.Errorf("got the position %+v, want %+v", got, want)
	}
}

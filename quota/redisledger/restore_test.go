package redisledger

import (
	"context"
	"errors"
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

func (r *restoring) flush() {
	r.Helper()
	if err := r.ledger.client.Del(context.Background(), r.ledger.keys("youtube")...).Err(); err != nil {
		r.Fatal(err)
	}
}

func (r *restoring) restore(rest time.Duration, records ...quota.Entry) {
	r.Helper()
	if err := r.ledger.Restore(context.Background(), r.c, records, rest); err != nil {
		r.Fatal(err)
	}
}

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
	if n, err := r.ledger.client.HLen(t.Context(), r.key("keys")).Result(); err != nil || n != 0 {
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
	mark := r.ledger.Known("youtube")
	r.flush()
	r.ledger.Expect("youtube", quota.Mark{}) // as a daemon that knows nothing
	r.granted(60, "")
	r.ledger.Expect("youtube", mark)
	r.lost()
}

func TestOlderCopy(t *testing.T) {
	r := beginRestoring(t)
	first := r.granted(10, "")
	mark := r.ledger.Known("youtube")
	mark.Newest.Ms += 5 // an entry that this copy does not have
	r.ledger.Expect("youtube", mark)
	r.lost()
	missing := first
	missing.ID = mark.Newest
	r.restore(0, first, missing)
	r.used(20)
}

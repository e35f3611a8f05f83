package quota_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
)

var nine = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)

func youtube() *quota.Credential {
	return &quota.Credential{
		Name:   "youtube",
		Limits: []quota.Limit{{Name: "daily", Units: 1000, Reserve: 50, Window: quota.Sliding(24 * time.Hour)}},
		Operations: map[string]quota.Cost{
			"search.list": {Every: 100},
			"videos.list": {Every: 1},
		},
	}
}

// counting counts the calls that reach a ledger.
type counting struct {
	*ledgertest.Model
	calls int
	away  bool // the ledger cannot be reached
}

func (c *counting) Acquire(ctx context.Context, credential *quota.Credential, ask quota.Ask) (quota.Decision, error) {
	c.calls++
	if c.away {
		return quota.Decision{}, quota.ErrUnavailable
	}
	return c.Model.Acquire(ctx, credential, ask)
}

func service(t *testing.T) (*quota.Service, *counting) {
	t.Helper()
	ledger := &counting{Model: ledgertest.NewModel(time.Now)}
	k, err := quota.NewService(ledger, []*quota.Credential{youtube()}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return k, ledger
}

func acquire(t *testing.T, k *quota.Service, operation string, count quota.Units) quota.Decision {
	t.Helper()
	d, err := k.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: operation, Count: count})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestServiceRefusesWhatNoLedgerNeedsToDecide(t *testing.T) {
	k, ledger := service(t)
	for _, test := range []struct {
		name    string
		request quota.Request
		want    quota.Reason
	}{
		{"unknown credential", quota.Request{Credential: "vimeo", Operation: "videos.list", Count: 1}, quota.UnknownCredential},
		{"unknown operation", quota.Request{Credential: "youtube", Operation: "video.list", Count: 1}, quota.UnknownOperation},
		{"no operation", quota.Request{Credential: "youtube", Count: 1}, quota.BadRequest},
		{"no count", quota.Request{Credential: "youtube", Operation: "videos.list"}, quota.BadRequest},
		{"negative count", quota.Request{Credential: "youtube", Operation: "videos.list", Count: -1}, quota.BadRequest},
		{"overflowing cost", quota.Request{Credential: "youtube", Operation: "search.list", Count: quota.MaxUnits}, quota.BadRequest},
		{"unprintable id", quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1, RequestID: "a\nb"}, quota.BadRequest},
		{"id that is not UTF-8", quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1, RequestID: "a\uFFFD"}, quota.BadRequest},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := k.Acquire(t.Context(), test.request)
			if err != nil || d.Reason != test.want || d.Detail == "" {
				t.Errorf("got %+v, %v; want %s with a detail", d, err, test.want)
			}
		})
	}
	if n := ledger.calls; n != 0 {
		t.Errorf("the ledger was asked %d times", n)
	}
}

// With and without the ledger.
func TestServiceRefusesWhatNeverFits(t *testing.T) {
	for _, away := range []bool{false, true} {
		k, ledger := service(t) // which remembers no refusal
		ledger.away = away
		for name, request := range map[string]quota.Request{
			"cost that reaches the reserve": {Credential: "youtube", Operation: "videos.list", Count: 951},
			"cost above units":              {Credential: "youtube", Operation: "videos.list", Count: 1001, UseReserve: true},
		} {
			if d, err := k.Acquire(t.Context(), request); err != nil || d.Reason != quota.CostExceedsLimit || d.Detail == "" || !d.RetryAt.IsZero() {
				t.Errorf("%s: got %+v, %v; want cost_exceeds_limit with a detail", name, d, err)
			}
		}
		_, err := k.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1})
		if errors.Is(err, quota.ErrUnavailable) != away {
			t.Errorf("a request that fits: got %v, the ledger is away: %v", err, away)
		}
	}
}

// A request id belongs to one pass: to its attempt in the run, and to its region, whatever that is called.
func TestRequestIDOfAPass(t *testing.T) {
	known := map[string]quota.Caller{}
	for _, caller := range []quota.Caller{
		{}, {Run: "r", Region: "US"}, {Run: "r", Region: "US", Attempt: 1}, {Run: "r", Region: "US", Attempt: 2}, {Run: "s", Region: "US"},
		{Run: "r", Region: "US/b"}, {Run: "r", Region: "US%2Fb"}, {Run: "r", Region: "c++ 1/2"},
	} {
		for _, id := range []string{"a", "b/a"} {
			key := quota.Request{RequestID: id, Caller: caller}.Key()
			if other, taken := known[key]; taken {
				t.Errorf("%+v and %+v share %q", caller, other, key)
			}
			known[key] = caller
		}
	}
	if got := (quota.Request{RequestID: "a", Caller: quota.Caller{Run: "r", Region: "US"}}).Key(); got != "r/US/a" {
		t.Errorf("got %q, want r/US/a", got)
	}
}

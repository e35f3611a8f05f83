package quota_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
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
	must(t, err)
	return k, ledger
}

func acquire(t *testing.T, k *quota.Service, operation string, count quota.Units) quota.Decision {
	t.Helper()
	d, err := k.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: operation, Count: count})
	must(t, err)
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
		{Remote: "shop"}, {Remote: "blog"}, {Job: "shop", Run: "shop-1"},
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

// A denial says what is left of the limit that denied, not of another one that has less.
func TestWhatADenialSays(t *testing.T) {
	day := quota.Limit{Name: "daily", Units: 1000, Reserve: 100, Window: quota.Sliding(24 * time.Hour)}
	spent := quota.LimitState{Limit: quota.Limit{Name: "hourly", Units: 50, Window: quota.Sliding(time.Hour)}, Used: 50}
	tomorrow := nine.Add(24 * time.Hour)
	for _, row := range []struct {
		reason     quota.Reason
		useReserve bool
		state      quota.LimitState
		want       string
	}{
		{quota.LimitExceeded, false, quota.LimitState{Limit: day, Cost: 1, Used: 900}, "no room for 1 unit in limit daily, which has 0 left"},
		{quota.LimitExceeded, true, quota.LimitState{Limit: day, Cost: 80, Used: 960}, "no room for 80 units in limit daily, which has 40 left"},
		{quota.LimitExceeded, false, quota.LimitState{Limit: day, Cost: 4000}, "no room for 4,000 units in limit daily, which has 900 left"},
		{quota.LimitClosed, false, quota.LimitState{Limit: day, Cost: 4, Closed: quota.Closed{Until: tomorrow, Says: "Quota exceeded"}}, "limit daily is closed: Quota exceeded"},
		{"", false, quota.LimitState{Limit: day, Cost: 1}, ""},
	} {
		d := quota.Decision{Reason: row.reason, Limit: "daily", Limits: []quota.LimitState{spent, row.state}}
		if got := d.Detailed(row.useReserve).Detail; got != row.want {
			t.Errorf("got  %q\nwant %q", got, row.want)
		}
	}
}

// What a dry run says is so: what is missing, how many calls fit, and when all of them do.
func TestDryRun(t *testing.T) {
	k, _ := service(t)
	acquire(t, k, "videos.list", 940)
	r := quota.Request{Credential: "youtube", Operation: "videos.list", Count: 45}
	d, err := k.DryRun(t.Context(), r)
	short := d.Short(false)
	if err != nil || d.Reason != quota.LimitExceeded || d.GrantID != "" || len(short) != 1 || short[0].Missing != 35 || d.Fits(45, false) != 10 {
		t.Errorf("got %+v, %v, want 35 units missing, and room for 10 calls", d, err)
	}
	if fits := acquire(t, k, "videos.list", 11); fits.Granted() {
		t.Errorf("got %+v, want the eleventh denied", fits)
	}
	two := quota.Decision{Limits: []quota.LimitState{
		{Limit: quota.Limit{Units: 10}, Cost: 1}, {Limit: quota.Limit{Units: 50}, Cost: 1}}}
	if fits := two.Fits(1, false); fits != 10 {
		t.Errorf("%d calls fit, want those of the limit with the least room", fits)
	}
	r.UseReserve = true
	if d, err := k.DryRun(t.Context(), r); err != nil || !d.Granted() || d.Short(true) != nil || d.Fits(45, true) != 60 {
		t.Errorf("got %+v, %v, want the reserve to have room", d, err)
	}
	for operation, want := range map[string]quota.Reason{"video.list": quota.UnknownOperation, "": quota.BadRequest} {
		if d, _ := k.DryRun(t.Context(), quota.Request{Credential: "youtube", Operation: operation, Count: 1}); d.Reason != want {
			t.Errorf("%q: got %+v, want %s", operation, d, want)
		}
	}
	if usage, err := k.Usage(t.Context(), "youtube"); err != nil || usage.Limits[0].Used != 940 {
		t.Errorf("got %+v, %v: a dry run moved something", usage, err)
	}
}

// A limit that is not enforced counts and says what it would have refused. It refuses nothing, whether the
// ledger can be reached or not, and what is left is that of the limits that refuse.
func TestALimitThatOnlyObserves(t *testing.T) {
	k, ledger := service(t)
	c := youtube()
	c.Limits = append(c.Limits, quota.Limit{Name: "trial", Units: 10, Window: quota.Sliding(time.Hour), DryRun: true})
	must(t, k.SetCredentials([]*quota.Credential{c}))
	d := acquire(t, k, "videos.list", 14)
	if would := d.WouldDeny(false); !d.Granted() || d.Remaining() != 936 || len(would) != 1 || would[0] != (quota.Shortage{Limit: "trial", Missing: 4}) {
		t.Errorf("got %+v, %d left, would deny %+v, want a grant that trial would have denied", d, d.Remaining(), would)
	}
	ledger.away = true
	if d, err := k.Acquire(t.Context(), quota.Request{Credential: "youtube", Operation: "videos.list", Count: 14}); !errors.Is(err, quota.ErrUnavailable) {
		t.Errorf("without the ledger: got %+v, %v, want that nobody decides", d, err)
	}
}

// A closing ends at its time.
func TestClosed(t *testing.T) {
	c := quota.Closed{Until: nine}
	if c.At(nine.Add(-time.Millisecond)).IsZero() || !c.At(nine).IsZero() {
		t.Error("a closing does not end at its time")
	}
}

// A call that costs nothing is granted while its limit is exhausted, closed, and while the ledger
// is away; no ledger is asked.
func TestAFreeOperationAsksNoLedger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k, ledger := service(t)
		c := youtube()
		c.Operations["quota.get"] = quota.Cost{}
		c.Operations["i18n.list"] = quota.Cost{Per: map[string]quota.Units{"daily": 0}}
		must(t, k.SetCredentials([]*quota.Credential{c}))
		acquire(t, k, "videos.list", 950)
		if d := acquire(t, k, "videos.list", 1); d.Reason != quota.LimitExceeded {
			t.Fatalf("got %+v, want a denial of what costs a unit", d)
		}
		closing := quota.Change{Kind: quota.KindClosing, Limit: "daily", Until: time.Now().Add(time.Hour), Note: "gone"}
		if _, changed, err := k.ChangeLimit(t.Context(), "youtube", closing); !changed || err != nil {
			t.Fatal(changed, err)
		}
		ledger.away = true
		before := ledger.calls
		free := func(operation string, count quota.Units) {
			t.Helper()
			r := quota.Request{Credential: "youtube", Operation: operation, Count: count,
				Caller: quota.Caller{Job: "trending", Region: "US", Run: "1"}}
			d, err := k.Acquire(t.Context(), r)
			if err != nil || !d.Granted() || d.Units != 0 || d.GrantID != "" {
				t.Fatalf("%s: got %+v, %v, want it free", operation, d, err)
			}
		}
		free("quota.get", 1)
		free("quota.get", 3)
		free("i18n.list", 7)
		if asked := ledger.calls - before; asked != 0 {
			t.Errorf("the ledger was asked %d times, want never", asked)
		}
	})
}

var must = ledgertest.Must

package quota_test

import (
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
)

// A pool of which backfill and a remote caller may have ten units, and all but that and trending sixty.
func shares(t *testing.T) *quota.Service {
	t.Helper()
	day := quota.Sliding(24 * time.Hour)
	c := &quota.Credential{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 100, Window: day},
			{Name: "cap", Units: 10, Window: day, Jobs: []string{"backfill", "remote/shop"}},
			{Name: "others", Units: 60, Window: day, ExceptJobs: []string{"trending", "remote/shop"}},
		},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}, "search.list": {Every: 20}},
	}
	k, err := quota.NewService(ledgertest.NewModel(time.Now), []*quota.Credential{c}, time.Minute)
	must(t, err)
	return k
}

func videos(job string, count quota.Units) quota.Request {
	return quota.Request{Credential: "youtube", Operation: "videos.list", Count: count, Caller: quota.Caller{Job: job, Run: "r", UID: -1}}
}

func decide(t *testing.T, k *quota.Service, r quota.Request) quota.Decision {
	t.Helper()
	d, err := k.Acquire(t.Context(), r)
	must(t, err)
	return d
}

// A remote caller is counted by its own name: a job of the same name is another.
func TestRemoteCallersHaveShares(t *testing.T) {
	k := shares(t)
	shop := videos("", 1)
	shop.Caller = quota.Caller{Remote: "shop", UID: -1}
	for _, row := range []struct {
		name   string
		r      quota.Request
		count  quota.Units
		limits int // that count it
		denied string
	}{
		{"the caller", shop, 6, 2, ""},
		{"the job beside it", videos("backfill", 1), 4, 3, ""},
		{"the caller, once more", shop, 1, 2, "cap"},
		{"the job of its name", videos("shop", 1), 20, 2, ""},
		{"a user", videos("", 1), 20, 2, ""},
	} {
		row.r.Count = row.count
		if d := decide(t, k, row.r); d.Limit != row.denied || len(d.Limits) != row.limits {
			t.Errorf("%s: got %+v, want it denied by %q, in %d limits", row.name, d, row.denied, row.limits)
		}
	}
}

// The gate minds what others are about to spend only in limits that count its own calls.
func TestPeekBehindOtherJobs(t *testing.T) {
	calls := func(job string, count quota.Units) quota.Calls {
		return quota.Calls{Job: job, Count: map[string]quota.Units{"videos.list": count}}
	}
	for _, test := range []struct {
		name   string
		own    quota.Calls
		others []quota.Calls
		limit  string // that refuses
	}{
		{"a full cap is none of trending's business", calls("trending", 4), []quota.Calls{calls("backfill", 11)}, ""},
		{"but a full pool is", calls("trending", 4), []quota.Calls{calls("backfill", 90), calls("charts", 7)}, "daily"},
		{"its own passes under way count in a cap", calls("backfill", 4), []quota.Calls{calls("backfill", 7)}, "cap"},
		{"others do not", calls("backfill", 4), []quota.Calls{calls("charts", 50)}, ""},
		{"what others may not have, they share", calls("backfill", 4), []quota.Calls{calls("charts", 57)}, "others"},
		{"trending is not among them", calls("backfill", 4), []quota.Calls{calls("trending", 90)}, ""},
		{"a pass that may wait a window needs no more at once than the limit has",
			quota.Calls{Job: "trending", Count: map[string]quota.Units{"videos.list": 250}, Pace: 24 * time.Hour}, nil, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			d, err := shares(t).Peek(t.Context(), "youtube", test.own, test.others, false)
			if err != nil || d.Limit != test.limit || d.Granted() != (test.limit == "") {
				t.Errorf("got %+v, %v, want it refused by %q", d, err, test.limit)
			}
		})
	}
}

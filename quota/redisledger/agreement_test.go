package redisledger

import (
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/redisledger/redistest"
)

// Hosts that count a credential differently are told so, each what the other one counts,
// until they agree or the other one is not heard of any more.
func TestHostsThatDisagreeAreTold(t *testing.T) {
	server := redistest.Start(t)
	join := func(daemon, host string) *Ledger {
		return openAt(t, Config{Addrs: []string{server.Addr}, Daemon: daemon, Host: host})
	}
	a, b := join("one", "alpha"), join("two", "beta")
	ours, theirs := hundred(), hundred()
	theirs.Limits[0].Units, theirs.Limits[0].Reserve = 9000, 500
	theirs.Limits = append(theirs.Limits, quota.Limit{Name: "search", Units: 10, Window: quota.Sliding(10 * time.Minute), Only: []string{"ten"}})
	theirs.Operations["list"] = quota.Cost{Per: map[string]quota.Units{"daily": 2, "search": 1}}
	theirs.Operations["more"] = quota.Cost{Every: 3}
	say := func(l *Ledger, c *quota.Credential) {
		t.Helper()
		if err := l.account("one").agree(t.Context(), c); err != nil {
			t.Fatal(err)
		}
	}
	told := func(l *Ledger, want ...string) {
		t.Helper()
		var got []string
		for _, warning := range l.Health(t.Context()).Warnings {
			if strings.Contains(warning, "counts otherwise") {
				got = append(got, warning)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("got the warnings %q, want %q", got, want)
		}
	}

	say(a, ours)
	told(a)
	say(b, theirs)
	told(b, "one: host alpha shares the ledger and counts otherwise: limit daily: 100 units per 24h, "+
		"here 9,000 units per 24h with 500 in reserve; no limit search, here 10 units per 10m0s of ten; "+
		"operation list: 1 unit, here 2 units of daily, 1 unit of search; and 1 more")
	say(a, ours)
	told(a, "one: host beta shares the ledger and counts otherwise: limit daily: 9,000 units per 24h with 500 in reserve, "+
		"here 100 units per 24h; limit search: 10 units per 10m0s of ten, here none; "+
		"operation list: 2 units of daily, 1 unit of search, here 1 unit; and 1 more")

	say(b, ours)
	say(a, ours)
	told(a)
	say(b, theirs)
	a.account("one").skew += heardTime + time.Minute
	say(a, ours)
	told(a)
}

package jobs

import (
	"testing"
	"time"

	"quotad/quota"
)

func TestToken(t *testing.T) {
	var tokens Tokens
	caller := quota.Caller{Job: "trending", Region: "BR", Run: "R", UID: -1}
	token, other := tokens.Issue(caller, "youtube"), tokens.Issue(quota.Caller{Job: "other"}, "maps")
	if token == other || len(token) < 26 {
		t.Fatalf("tokens %q and %q: want two, of at least 128 bits", token, other)
	}
	if got, credential, live := tokens.Holder(token); got != caller || credential != "youtube" || !live {
		t.Errorf("got %+v, %q, %v", got, credential, live)
	}
	for _, wrong := range []string{"", "x", token + "x", token[:25]} {
		if _, _, live := tokens.Holder(wrong); live {
			t.Errorf("token %q is known", wrong)
		}
	}
	tokens.Revoke(token)
	if _, _, live := tokens.Holder(token); live {
		t.Error("the token outlived its pass")
	}
	if _, _, live := tokens.Holder(other); !live {
		t.Error("another token died with it")
	}
}

func TestTokenRecord(t *testing.T) {
	retry := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	var tokens Tokens
	token, other := tokens.Issue(quota.Caller{}, "youtube"), tokens.Issue(quota.Caller{}, "youtube")
	decided := func(d quota.Decision) { tokens.Decided(token, quota.Request{}, d) }

	decided(quota.Decision{GrantID: "youtube:1-0", Units: 100})
	decided(quota.Decision{GrantID: "youtube:1-0", Units: 100, Replayed: true}) // a lost reply, asked again
	decided(quota.Decision{GrantID: "youtube:2-0", Units: 1})
	decided(quota.Decision{Reason: quota.CostExceedsLimit})
	decided(quota.Decision{Reason: quota.UnknownOperation})
	tokens.Settled(token, "youtube:1-0", 30)
	tokens.Settled(token, "youtube:1-0", 30)
	tokens.Settled(token, "youtube:9-0", 500) // not its own
	tokens.Settled(other, "youtube:2-0", 0)   // not that one's
	if !tokens.Owns(token, "youtube:1-0") || tokens.Owns(other, "youtube:1-0") || tokens.Owns("", "youtube:1-0") {
		t.Error("a grant belongs to the pass it was given to, and to no other")
	}
	decided(quota.Decision{Reason: quota.LimitExceeded, Limit: "daily", RetryAt: retry})

	want := Record{Denied: true, Limit: "daily", RetryAt: retry, Units: 31, Calls: 2}
	if got := tokens.Revoke(token); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := tokens.Revoke(other); got != (Record{}) {
		t.Errorf("the other pass: got %+v, want nothing", got)
	}
}

// What could never be granted is the pass's own fault: if it counted as a denial,
// the region would keep its turn for ever.
func TestOnlyWantOfBudgetIsADenial(t *testing.T) {
	for _, reason := range []quota.Reason{
		quota.CostExceedsLimit, quota.UnknownOperation, quota.UnknownCredential, quota.RequestIDConflict, quota.BadRequest, quota.Forbidden,
	} {
		var tokens Tokens
		token := tokens.Issue(quota.Caller{}, "youtube")
		tokens.Decided(token, quota.Request{}, quota.Decision{Reason: reason})
		if got := tokens.Revoke(token); got.Denied {
			t.Errorf("%s counts as a denial", reason)
		}
	}
}

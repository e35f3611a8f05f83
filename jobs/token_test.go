package jobs

import (
	"context"
	"reflect"
	"testing"
	"time"

	"quotad/quota"
)

func TestToken(t *testing.T) {
	var tokens Tokens
	caller := quota.Caller{Job: "trending", Region: "BR", Run: "R", UID: -1}
	bearer := quota.Bearer{Caller: caller, Credential: "youtube", UseReserve: true}
	token, other := tokens.issue(bearer, &lacking{}), tokens.issue(quota.Bearer{Credential: "maps"}, &lacking{})
	if token == other || len(token) < 26 {
		t.Fatalf("tokens %q and %q: want two, of at least 128 bits", token, other)
	}
	if got, live := tokens.Bearer(token); got != bearer || !live {
		t.Errorf("got %+v, %v", got, live)
	}
	for _, wrong := range []string{"", "x", token + "x", token[:25]} {
		if _, live := tokens.Bearer(wrong); live {
			t.Errorf("token %q is known", wrong)
		}
	}
	tokens.revoke(token)
	if _, live := tokens.Bearer(token); live {
		t.Error("the token outlived its pass")
	}
	if _, live := tokens.Bearer(other); !live {
		t.Error("another token died with it")
	}
}

func TestTokenRecord(t *testing.T) {
	retry := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	var tokens Tokens
	token, other := tokens.issue(quota.Bearer{}, &lacking{}), tokens.issue(quota.Bearer{}, &lacking{})
	decided := func(d quota.Decision) { tokens.Decided(token, quota.Request{}, d, nil) }

	decided(quota.Decision{GrantID: "youtube:1-0", Units: 100})
	decided(quota.Decision{GrantID: "youtube:1-0", Units: 100, Replayed: true}) // a lost reply, asked again
	decided(quota.Decision{GrantID: "youtube:2-0", Units: 1})
	decided(quota.Decision{Reason: quota.CostExceedsLimit, Detail: "100 units can never fit"})
	decided(quota.Decision{Reason: quota.UnknownOperation})
	tokens.Settled(token, "youtube:1-0", 30, nil)
	tokens.Settled(token, "youtube:1-0", 30, nil)
	tokens.Settled(token, "youtube:9-0", 500, nil) // not its own
	tokens.Settled(other, "youtube:2-0", 0, nil)   // not that one's
	if !tokens.Owns(token, "youtube:1-0") || tokens.Owns(other, "youtube:1-0") || tokens.Owns("", "youtube:1-0") {
		t.Error("a grant belongs to the pass it was given to, and to no other")
	}
	tokens.Decided(token, quota.Request{Proxied: true}, quota.Decision{GrantID: "youtube:3-0", Units: 50}, nil)
	if tokens.Owns(token, "youtube:3-0") {
		t.Error("a pass may settle the grant of a call that the proxy sends")
	}
	tokens.Settled(token, "youtube:3-0", 0, nil) // the proxy did
	decided(quota.Decision{Reason: quota.LimitExceeded, Limit: "daily", RetryAt: retry})

	want := passCalls{Denied: true, Limit: "daily", RetryAt: retry, Units: 31, Calls: 3,
		Refused: 2, Why: "100 units can never fit", Served: true}
	got := tokens.revoke(token)
	if got.Made, got.Refusals = nil, nil; !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := tokens.revoke(other); !reflect.DeepEqual(got, passCalls{Made: Made{}}) {
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
		token := tokens.issue(quota.Bearer{}, &lacking{})
		tokens.Decided(token, quota.Request{}, quota.Decision{Reason: reason}, nil)
		if got := tokens.revoke(token); got.Denied {
			t.Errorf("%s counts as a denial", reason)
		}
	}
}

// What was not made of a pass's calls is counted with the first reason, by every way in. Calls
// without a token count for a pass that made none with it.
func TestRefusedCallsAreCounted(t *testing.T) {
	const missing = "the run token is missing"
	asked := func(d quota.Decision, err error) func(*Tokens, string) {
		return func(tokens *Tokens, token string) { tokens.Decided(token, quota.Request{}, d, err) }
	}
	proxied := func(tokens *Tokens, token string) {
		tokens.Decided(token, quota.Request{Proxied: true}, quota.Decision{GrantID: "youtube:1-0"}, nil)
	}
	refused := func(why string) func(*Tokens, string) {
		return func(tokens *Tokens, token string) { tokens.Refused(token, why) }
	}
	tokenless := func(credential string) func(*Tokens, string) {
		return func(tokens *Tokens, _ string) { tokens.Tokenless(credential, missing) }
	}
	unknown := quota.Decision{Reason: quota.UnknownOperation, Detail: "not listed"}
	for name, row := range map[string]struct {
		calls   []func(*Tokens, string)
		refused int64
		why     string
		served  bool
	}{
		"none":                             {nil, 0, "", false},
		"on the socket":                    {[]func(*Tokens, string){asked(unknown, nil), refused("second")}, 2, "not listed", false},
		"free on the socket":               {[]func(*Tokens, string){asked(quota.Decision{}, nil), asked(quota.Decision{}, nil)}, 0, "", true},
		"the ledger is away":               {[]func(*Tokens, string){asked(quota.Decision{}, quota.ErrUnavailable)}, 1, "ledger unavailable", false},
		"the outcome is unknown":           {[]func(*Tokens, string){asked(quota.Decision{}, quota.ErrOutcomeUnknown)}, 0, "", false},
		"the caller has gone":              {[]func(*Tokens, string){asked(quota.Decision{}, context.Canceled)}, 0, "", false},
		"sent, without an answer":          {[]func(*Tokens, string){proxied, refused("no answer")}, 1, "no answer", false},
		"answered, then not":               {[]func(*Tokens, string){proxied, func(tokens *Tokens, token string) { tokens.Observed(token, quota.Word{}) }, refused("no answer")}, 1, "no answer", true},
		"without a token":                  {[]func(*Tokens, string){tokenless("youtube"), tokenless("youtube")}, 2, missing, false},
		"of another credential":            {[]func(*Tokens, string){tokenless("other")}, 0, "", false},
		"without a token, and then with":   {[]func(*Tokens, string){tokenless("youtube"), proxied}, 0, "", false},
		"without a token, and one refused": {[]func(*Tokens, string){tokenless("youtube"), refused("no route")}, 1, "no route", false},
	} {
		t.Run(name, func(t *testing.T) {
			var tokens Tokens
			token := tokens.issue(quota.Bearer{Credential: "youtube"}, &lacking{})
			for _, call := range row.calls {
				call(&tokens, token)
			}
			got := tokens.revoke(token)
			if got.Refused != row.refused || got.Why != row.why || got.Served != row.served {
				t.Errorf("got %+v, want %+v", got, row)
			}
			if got.Unanswered != "" && row.why == "no answer" {
				t.Errorf("got %+v: an exit code would be taken for an answer that there was not", got)
			}
		})
	}
}

// The last answer for an operation counts, whoever gave it: a pass that waited until it was
// served lacks nothing.
func TestLastAnswerCounts(t *testing.T) {
	denied := quota.Decision{Reason: quota.LimitExceeded, Limit: "daily"}
	dear := quota.Decision{Reason: quota.LimitExceeded, Limit: "uploads", Units: 100, Limits: []quota.LimitState{
		{Limit: quota.Limit{Name: "daily"}, Cost: 100}, {Limit: quota.Limit{Name: "uploads"}, Cost: 1},
	}}
	granted := quota.Decision{GrantID: "youtube:1-0", Units: 1}
	until := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	asked := func(operation string, proxied bool, d quota.Decision) func(*Tokens, string) {
		return func(tokens *Tokens, token string) {
			tokens.Decided(token, quota.Request{Operation: operation, Proxied: proxied}, d, nil)
		}
	}
	heard := func(word quota.Word) func(*Tokens, string) {
		return func(tokens *Tokens, token string) { tokens.Observed(token, word) }
	}
	gone, served := heard(quota.Word{Operation: "list", Limit: "daily", Until: until}), heard(quota.Word{Operation: "list"})
	for name, row := range map[string]struct {
		answers []func(*Tokens, string)
		want    passCalls
	}{
		"denied":                             {[]func(*Tokens, string){asked("list", false, denied)}, passCalls{Denied: true, Limit: "daily"}},
		"denied in the cheaper limit":        {[]func(*Tokens, string){asked("list", false, dear)}, passCalls{Denied: true, Limit: "uploads", Needs: 1}},
		"denied, then granted":               {[]func(*Tokens, string){asked("list", false, denied), asked("list", false, granted)}, passCalls{}},
		"denied, then another one granted":   {[]func(*Tokens, string){asked("search", false, denied), asked("list", false, granted)}, passCalls{Denied: true, Limit: "daily"}},
		"granted, then denied":               {[]func(*Tokens, string){asked("list", false, granted), asked("list", false, denied)}, passCalls{Denied: true, Limit: "daily"}},
		"the upstream's quota is gone":       {[]func(*Tokens, string){asked("list", true, granted), gone}, passCalls{Closed: "daily", RetryAt: until}},
		"gone, then served":                  {[]func(*Tokens, string){gone, asked("list", true, granted), served}, passCalls{}},
		"gone, then let through, no answer":  {[]func(*Tokens, string){gone, asked("list", true, granted)}, passCalls{Closed: "daily", RetryAt: until}},
		"denied, then served":                {[]func(*Tokens, string){asked("list", true, denied), asked("list", true, granted), served}, passCalls{}},
		"a bad key":                          {[]func(*Tokens, string){heard(quota.Word{Operation: "list", Refuses: "bad key"})}, passCalls{Refuses: "bad key"}},
		"a bad key, then another one served": {[]func(*Tokens, string){heard(quota.Word{Operation: "list", Refuses: "bad key"}), served}, passCalls{}},
	} {
		t.Run(name, func(t *testing.T) {
			var tokens Tokens
			token := tokens.issue(quota.Bearer{}, &lacking{})
			for _, answer := range row.answers {
				answer(&tokens, token)
			}
			got := tokens.revoke(token)
			got.Units, got.Calls, got.Unanswered, got.Served, got.Made, got.Refusals = 0, 0, "", false, nil, nil
			if !reflect.DeepEqual(got, row.want) {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

// A pass goes on without what it called optional.
func TestOptionalCallIsNoDenial(t *testing.T) {
	var tokens Tokens
	token := tokens.issue(quota.Bearer{}, &lacking{})
	optional := quota.Request{Optional: true}
	tokens.Decided(token, optional, quota.Decision{Reason: quota.LimitExceeded, Limit: "daily"}, nil)
	if got := tokens.revoke(token); !reflect.DeepEqual(got, passCalls{Made: Made{}}) {
		t.Errorf("got %+v, want nothing on record", got)
	}
}

// What a pass settles to more than it was granted is counted, and ends its run where that is
// more than a limit may have.
func TestSettledPast(t *testing.T) {
	state := func(name string, units, used quota.Units, observe bool) quota.LimitState {
		return quota.LimitState{Limit: quota.Limit{Name: name, Units: units, Reserve: 10, DryRun: observe}, Used: used}
	}
	for _, row := range []struct {
		name       string
		useReserve bool
		units      quota.Units
		limits     []quota.LimitState
		past       string
	}{
		{"what fits", false, 50, []quota.LimitState{state("daily", 100, 90, false)}, ""},
		{"a limit", false, 51, []quota.LimitState{state("daily", 100, 90, false), state("share", 60, 51, false)}, `limit "share" by 1 unit`},
		{"the reserve, which it may use", true, 51, []quota.LimitState{state("share", 60, 51, false)}, ""},
		{"a limit that is not enforced", false, 51, []quota.LimitState{state("share", 60, 51, true)}, ""},
		{"less than before", false, 19, []quota.LimitState{state("share", 60, 99, false)}, ""},
		{"as much as before", false, 20, []quota.LimitState{state("share", 60, 99, false)}, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			var tokens Tokens
			token := tokens.issue(quota.Bearer{UseReserve: row.useReserve}, &lacking{})
			tokens.Decided(token, quota.Request{}, quota.Decision{GrantID: "a", Units: 20}, nil)
			if past := tokens.Settled(token, "a", row.units, row.limits); past != row.past {
				t.Errorf("past %q, want %q", past, row.past)
			}
			got := tokens.revoke(token)
			if got.Units != row.units || got.Denied != (row.past != "") || got.Past != row.past {
				t.Errorf("got %+v", got)
			}
		})
	}
}

// A call whose grant is released was not sent, and counts as none: a plan measures passes by
// what they made.
func TestReleasedCallWasNotMade(t *testing.T) {
	var tokens Tokens
	token := tokens.issue(quota.Bearer{}, &lacking{})
	for _, id := range []string{"a", "b"} {
		r := quota.Request{Operation: "list", Count: 3}
		tokens.Decided(token, r, quota.Decision{GrantID: id, Units: 6}, nil)
	}
	for _, row := range []struct {
		name  string
		units quota.Units
		want  quota.Units
	}{
		{"released", 0, 3},
		{"released again", 0, 3},
		{"settled after all", 4, 6},
		{"settled", 5, 6},
	} {
		tokens.Settled(token, "a", row.units, nil)
		if made := tokens.spent(token).Made["list"]; made != row.want {
			t.Errorf("%s: it made %v, want %d calls", row.name, made, row.want)
		}
	}
}

// What the passes under way are expected to make still counts at the gate: those of the same credential, without
// the pass itself and without what they have made.
func TestReserve(t *testing.T) {
	var tokens Tokens
	expects := func(n quota.Units) quota.Calls {
		return quota.Calls{Job: "trending", Count: map[string]quota.Units{"list": n}}
	}
	begin := func(credential string, expected quota.Units) string {
		token := tokens.issue(quota.Bearer{Credential: credential}, &lacking{})
		tokens.reserve(token, expects(expected))
		return token
	}
	first := begin("youtube", 4)
	tokens.Decided(first, quota.Request{Operation: "list", Count: 1}, quota.Decision{GrantID: "a", Units: 1}, nil)
	spent := begin("youtube", 1)
	tokens.Decided(spent, quota.Request{Operation: "list", Count: 1}, quota.Decision{GrantID: "b", Units: 1}, nil)
	begin("maps", 8)
	at := begin("youtube", 2)
	if got := tokens.reserve(at, expects(2)); len(got) != 1 || got[0].Count["list"] != 3 {
		t.Errorf("got %+v, want the three calls that the first pass is expected to make still", got)
	}
	tokens.revoke(first)
	if got := tokens.reserve(at, expects(2)); len(got) != 0 {
		t.Errorf("got %+v, want nothing: the first pass is over", got)
	}
}

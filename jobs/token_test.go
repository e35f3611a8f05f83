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
	token, other := tokens.issue(bearer), tokens.issue(quota.Bearer{Credential: "maps"})
	if token == other || len(token) < 26 {
		t.Fatalf("tokens %q and %q: want two, of at least 128 bits", token, other)
	}
	if got, live := tokens.Bearer(token); got != bearer || !live {
		t.Errorf("got %+v, %v", got, live)
	}
	tokens.revoke(token)
	for _, wrong := range []string{"", other + "x", other[:25], token} {
		if _, live := tokens.Bearer(wrong); live {
			t.Errorf("token %q is known", wrong)
		}
	}
	if _, live := tokens.Bearer(other); !live {
		t.Error("another token died with it")
	}
}

// A told is a fact about a pass that reaches its token.
type told func(tokens *Tokens, token string)

func asked(r quota.Request, d quota.Decision, err error) told {
	return func(tokens *Tokens, token string) { tokens.Decided(token, r, d, err) }
}

func grants(id string, units quota.Units) told {
	return asked(quota.Request{Operation: "list", Count: units}, quota.Decision{GrantID: id, Units: units}, nil)
}

func proxied(d quota.Decision) told {
	return asked(quota.Request{Operation: "list", Count: 1, Proxied: true}, d, nil)
}

func denies(operation string) told {
	return asked(quota.Request{Operation: operation}, quota.Decision{Reason: quota.LimitExceeded, Limit: "daily"}, nil)
}

func refuses(reason quota.Reason) told {
	return asked(quota.Request{}, quota.Decision{Reason: reason, Detail: string(reason)}, nil)
}

func fails(err error) told { return asked(quota.Request{}, quota.Decision{}, err) }

func settles(id string, units quota.Units) told {
	return func(tokens *Tokens, token string) { tokens.Settled(token, id, units, nil) }
}

func hears(word quota.Word) told {
	return func(tokens *Tokens, token string) { tokens.Observed(token, word) }
}

func unanswered(why string) told {
	return func(tokens *Tokens, token string) { tokens.Refused(token, why) }
}

// What a pass was granted, and what it lacks in the end: the last answer for an operation counts, whoever gave it. Only
// want of budget is a denial: what could never be granted is the pass's own fault.
func TestWhatIsKnownOfAPass(t *testing.T) {
	until := time.Date(2026, 3, 1, 11, 0, 0, 0, time.UTC)
	dear := quota.Decision{Reason: quota.LimitExceeded, Limit: "uploads", Units: 100, Limits: []quota.LimitState{
		{Limit: quota.Limit{Name: "daily"}, Cost: 100}, {Limit: quota.Limit{Name: "uploads"}, Cost: 1},
	}}
	denied := &Stop{Reason: BudgetGone, Detail: `denied by limit "daily"`, Limit: "daily"}
	closed := &Stop{Reason: Closed, Detail: `the upstream says that limit "daily" is exhausted`, Limit: "daily", RetryAt: until}
	gone, served := hears(quota.Word{Operation: "list", Limit: "daily", Until: until}), hears(quota.Word{Operation: "list"})
	let := proxied(quota.Decision{GrantID: "p", Units: 1})
	one := Spent{Units: 1, Calls: 1, Made: Made{"list": 1}}
	for name, row := range map[string]struct {
		told []told
		want passCalls
	}{
		"nothing":                      {nil, passCalls{}},
		"a replay counts once":         {[]told{grants("a", 3), grants("a", 3)}, passCalls{Spent: Spent{Units: 3, Calls: 1, Made: Made{"list": 3}}, Served: true}},
		"settled to less, twice":       {[]told{grants("a", 3), settles("a", 1), settles("a", 1)}, passCalls{Spent: Spent{Units: 1, Calls: 1, Made: Made{"list": 3}}, Served: true}},
		"released":                     {[]told{grants("a", 3), settles("a", 0), settles("a", 0)}, passCalls{Spent: Spent{Calls: 1, Made: Made{"list": 0}}, Served: true}},
		"released, and settled":        {[]told{grants("a", 3), settles("a", 0), settles("a", 2)}, passCalls{Spent: Spent{Units: 2, Calls: 1, Made: Made{"list": 3}}, Served: true}},
		"another's grant":              {[]told{grants("a", 1), settles("b", 500)}, passCalls{Spent: one, Served: true}},
		"free":                         {[]told{grants("", 0), grants("", 0)}, passCalls{Spent: Spent{Calls: 2, Made: Made{"list": 0}}, Served: true}},
		"never granted":                {[]told{refuses(quota.CostExceedsLimit), refuses(quota.Forbidden)}, passCalls{Refused: 2, Why: "cost_exceeds_limit"}},
		"the ledger is away":           {[]told{fails(quota.ErrUnavailable)}, passCalls{Refused: 1, Why: "ledger unavailable"}},
		"the outcome is unknown":       {[]told{fails(quota.ErrOutcomeUnknown)}, passCalls{}},
		"the caller has gone":          {[]told{fails(context.Canceled)}, passCalls{}},
		"sent, without an answer":      {[]told{let, unanswered("no answer")}, passCalls{Spent: one, Refused: 1, Why: "no answer"}},
		"answered, then not":           {[]told{let, served, unanswered("no answer")}, passCalls{Spent: one, Refused: 1, Why: "no answer", Served: true}},
		"denied":                       {[]told{denies("list")}, passCalls{Spent: Spent{Denied: true}, Lacks: denied}},
		"denied what is optional":      {[]told{asked(quota.Request{Optional: true}, dear, nil)}, passCalls{}},
		"denied in the cheaper limit":  {[]told{asked(quota.Request{}, dear, nil)}, passCalls{Spent: Spent{Denied: true}, Lacks: &Stop{BudgetGone, `denied by limit "uploads"`, "uploads", 1, time.Time{}}}},
		"denied, then granted":         {[]told{denies("list"), grants("a", 1)}, passCalls{Spent: one, Served: true}},
		"denied, then another granted": {[]told{denies("search"), grants("a", 1)}, passCalls{Spent: Spent{Units: 1, Calls: 1, Made: one.Made, Denied: true}, Lacks: denied, Served: true}},
		"gone":                         {[]told{let, gone}, passCalls{Spent: one, Lacks: closed, Served: true}},
		"gone, then served":            {[]told{gone, let, served}, passCalls{Spent: one, Served: true}},
		"gone, then let through":       {[]told{gone, let}, passCalls{Spent: one, Lacks: closed, Served: true}},
		"a bad key":                    {[]told{hears(quota.Word{Operation: "list", Refuses: "bad key"})}, passCalls{Refuses: "bad key", Served: true}},
		"a bad key, then unclear":      {[]told{hears(quota.Word{Refuses: "bad key"}), hears(quota.Word{Unclear: true})}, passCalls{Refuses: "bad key", Served: true}},
		"a bad key, then served":       {[]told{hears(quota.Word{Refuses: "bad key"}), served}, passCalls{Served: true}},
	} {
		t.Run(name, func(t *testing.T) {
			var tokens Tokens
			token := tokens.issue(quota.Bearer{Credential: "youtube"})
			for _, tell := range row.told {
				tell(&tokens, token)
			}
			got := tokens.revoke(token)
			if row.want.Made == nil {
				row.want.Made = Made{}
			}
			if got.Refusals = nil; !reflect.DeepEqual(got, row.want) {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

// Of what a pass was refused the last ten are kept.
func TestRefusalsAreBounded(t *testing.T) {
	var tokens Tokens
	token := tokens.issue(quota.Bearer{})
	for range 3 * maxRefusals {
		denies("list")(&tokens, token)
	}
	if got := tokens.revoke(token).Refusals; len(got) != maxRefusals {
		t.Errorf("%d refusals are kept, want %d", len(got), maxRefusals)
	}
}

// What a pass settles to more than it was granted is counted, and ends its run where that is more than a limit may have.
// Of a call through the proxy only the proxy settles.
func TestSettledPast(t *testing.T) {
	state := func(name string, units, used quota.Units, observe bool) quota.LimitState {
		return quota.LimitState{Limit: quota.Limit{Name: name, Units: units, Reserve: 10, DryRun: observe}, Used: used}
	}
	for name, row := range map[string]struct {
		useReserve bool
		units      quota.Units
		limits     []quota.LimitState
		past       string
	}{
		"what fits":                     {false, 50, []quota.LimitState{state("daily", 100, 90, false)}, ""},
		"a limit":                       {false, 51, []quota.LimitState{state("daily", 100, 90, false), state("share", 60, 51, false)}, `limit "share" by 1 unit`},
		"the reserve, which it may use": {true, 51, []quota.LimitState{state("share", 60, 51, false)}, ""},
		"a limit that is not enforced":  {false, 51, []quota.LimitState{state("share", 60, 51, true)}, ""},
		"less than before, or as much":  {false, 20, []quota.LimitState{state("share", 60, 99, false)}, ""},
	} {
		var tokens Tokens
		token, other := tokens.issue(quota.Bearer{UseReserve: row.useReserve}), tokens.issue(quota.Bearer{})
		grants("a", 20)(&tokens, token)
		proxied(quota.Decision{GrantID: "p"})(&tokens, token)
		if !tokens.Owns(token, "a") || tokens.Owns(other, "a") || tokens.Owns(token, "p") {
			t.Error("a grant belongs to the pass it was given to, and that of a call that the proxy sends to none")
		}
		if past := tokens.Settled(token, "a", row.units, row.limits); past != row.past {
			t.Errorf("%s: past %q, want %q", name, past, row.past)
		}
		if got := tokens.revoke(token); got.Units != row.units || got.Denied != (row.past != "") || (got.Lacks != nil) != got.Denied {
			t.Errorf("%s: got %+v", name, got)
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
		token := tokens.issue(quota.Bearer{Credential: credential})
		tokens.reserve(token, expects(expected))
		return token
	}
	first, spent := begin("youtube", 4), begin("youtube", 1)
	grants("a", 1)(&tokens, first)
	grants("b", 1)(&tokens, spent)
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

package upstream

//ci:norace

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
)

// A scene is a service of YouTube's limits of 2026 on a clock that is set, and what its
// observer told of.
type scene struct {
	*testing.T
	clock    *ledgertest.Clock
	service  *quota.Service
	observer *Observer
	told     []Outcome
}

func newScene(t *testing.T) *scene {
	day := pacific(t)
	s := &scene{T: t, clock: ledgertest.NewClock(now)}
	ledger := ledgertest.NewModel(s.clock.Now)
	service, err := quota.NewService(ledger, []*quota.Credential{{
		Name: "youtube",
		Limits: []quota.Limit{
			{Name: "daily", Units: 10_000, Window: quota.Sliding(25 * time.Hour), Only: []string{"videos.list", "captions.list", "comments.list"}},
			{Name: "burst", Units: 60, Window: quota.Sliding(time.Minute), Only: []string{"comments.list"}},
			{Name: "search", Units: 100, Window: day, Only: []string{"search.list"}},
		},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}, "search.list": {Every: 1}, "captions.list": {Every: 50}, "comments.list": {Every: 1}},
	}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	s.service = service
	s.observer = NewObserver(service, map[string]Profile{"youtube": {
		Format: Format{Day: day, Headers: github.Headers},
		Limits: map[string]Counterpart{
			"daily":  {Names: []string{"defaultPerDayPerProject", "core"}, Resets: day},
			"search": {Names: []string{"defaultSearchListPerDayPerProject", "Search Queries per day"}, Resets: day},
		},
	}}, func(out Outcome) { s.told = append(s.told, out) })
	return s
}

func (s *scene) observe(heard Observation) Outcome {
	s.Helper()
	heard.Credential = "youtube"
	heard.Caller = quota.Caller{Job: "trending", Region: "US"}
	out, err := s.observer.Observe(context.Background(), heard)
	if err != nil {
		s.Fatal(err)
	}
	return out
}

// add adds a limit of our own, before the others.
func (s *scene) add(own quota.Limit) {
	s.Helper()
	c, _ := s.service.Credential("youtube")
	more := quota.Credential{Name: c.Name, Operations: c.Operations, Limits: append([]quota.Limit{own}, c.Limits...)}
	if err := s.service.SetCredentials([]*quota.Credential{&more}); err != nil {
		s.Fatal(err)
	}
}

// closed expects for how long which limits are closed: "search 15h40m0s".
func (s *scene) closed(want ...string) {
	s.Helper()
	usage, err := s.service.Usage(context.Background(), "youtube")
	if err != nil {
		s.Fatal(err)
	}
	var got []string
	for _, limit := range usage.Limits {
		if !limit.Closed.IsZero() {
			got = append(got, fmt.Sprint(limit.Name, " ", limit.Closed.Until.Sub(s.clock.Now())))
		}
	}
	if !reflect.DeepEqual(got, want) {
		s.Fatalf("closed are %q, want %q", got, want)
	}
}

func (s *scene) acquire(operation string) quota.Decision {
	s.Helper()
	d, err := s.service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: operation, Count: 1})
	if err != nil {
		s.Fatal(err)
	}
	return d
}

// The day's searches are gone: nothing else is, and they come back at midnight in
// California.
func TestADayIsClosedUntilItsReset(t *testing.T) {
	s := newScene(t)
	out := s.observe(Observation{Operation: "search.list", Answer: Answer{429, nil, []byte(searches2026)}})
	if out.Class != Day || out.Limit != "search" || !out.Changed || len(s.told) != 1 {
		t.Errorf("got %+v", out)
	}
	s.closed("search 15h40m0s")
	d := s.acquire("search.list")
	if d.Reason != quota.LimitClosed || !strings.HasPrefix(d.State().Closed.Says, "Quota exceeded for quota metric 'Search Queries'") {
		t.Errorf("got %+v", d)
	}
	if d := s.acquire("videos.list"); !d.Granted() {
		t.Errorf("got %+v, want a grant: reads are another limit", d)
	}
	// Calls that were in flight hear the same, and change nothing.
	if out := s.observe(Observation{Operation: "search.list", Answer: Answer{429, nil, []byte(searches2026)}}); out.Changed || out.Limit != "search" {
		t.Errorf("got %+v, want that nothing changed", out)
	}
	s.clock.Set(d.RetryAt)
	if d := s.acquire("search.list"); !d.Granted() {
		t.Errorf("got %+v at the reset, want a grant", d)
	}
}

func TestWhichLimitIsClosedAndForHowLong(t *testing.T) {
	legacy := []byte(`{"error":{"errors":[{"domain":"usageLimits","reason":"dailyLimitExceeded"}],"code":403}}`)
	for _, row := range []struct {
		name  string
		heard Observation
		want  []string
	}{
		{"a day without a name: the narrowest of an hour or more", Observation{Operation: "comments.list", Answer: Answer{403, nil, legacy}}, []string{"daily 15h40m0s"}},
		{"a minute without a name: the narrowest", Observation{Operation: "comments.list", Answer: Answer{429, header("Retry-After: 7"), nil}}, []string{"burst 7s"}},
		{"nobody knows for how long: the narrowest", Observation{Operation: "comments.list", Answer: Answer{Status: 429}},
			[]string{"burst 1m0s"}},
		{"a minute that does not say for how long", Observation{Operation: "videos.list", Answer: Answer{429, nil, []byte(perMinute2022)}}, []string{"daily 1m0s"}},
		{"a minute that ends now", Observation{Operation: "videos.list", Answer: Answer{429, nil, []byte(`{"error":{"details":[{"reason":"RATE_LIMIT_EXCEEDED","metadata":{"quotaResetDelay":"0s"}}]}}`)}}, []string{"daily 1m0s"}},
		{"a wait of a day is kept, though it is a rate's", Observation{Operation: "videos.list", Answer: Answer{429, header("Retry-After: 79892"), nil}}, []string{"daily 22h11m32s"}},
		{"named by another operation", Observation{Operation: "videos.list", Answer: Answer{429, nil, []byte(searches2026)}}, []string{"search 15h40m0s"}},
		{"nothing left, says a header", Observation{Operation: "videos.list", Answer: Answer{403, header("X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 1790350200", "X-Ratelimit-Resource: core"), nil}}, []string{"daily 10m0s"}},
		{"no money", Observation{Operation: "videos.list", Answer: Answer{402, nil, nil}}, []string{"daily 15h40m0s"}},
		{"a key that is not known closes nothing", Observation{Operation: "videos.list", Answer: Answer{401, nil, nil}}, nil},
		{"a server in trouble closes nothing", Observation{Operation: "videos.list", Answer: Answer{503, header("Retry-After: 9"), nil}}, nil},
		{"an ordinary answer", Observation{Operation: "videos.list", Answer: Answer{200, nil, []byte(`{"items":[]}`)}}, nil},
		{"it is given back this moment", Observation{Operation: "videos.list", Answer: Answer{403, header("X-Ratelimit-Remaining: 0", fmt.Sprintf("X-Ratelimit-Reset: %d", now.Unix()-30)), nil}}, nil},
		{"a reset in 31 days", Observation{Operation: "videos.list", Answer: resets(31 * 24 * time.Hour)}, []string{"daily 744h0m0s"}},
		{"a reset that no quota has", Observation{Operation: "search.list", Answer: resets(33 * 24 * time.Hour)}, []string{"search 15h40m0s"}},
		{"a reset after the limit's own", Observation{Operation: "search.list", Answer: resets(20 * time.Hour)}, []string{"search 20h0m0s"}},
		{"a minute that is longer than the limit's own", Observation{Operation: "comments.list", Answer: Answer{429, header("Retry-After: 300"), nil}}, []string{"burst 5m0s"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t)
			s.observe(row.heard)
			s.closed(row.want...)
		})
	}
}

// away is a ledger that cannot be asked.
type away struct{ quota.Ledger }

func (away) Usage(context.Context, *quota.Credential) (quota.Usage, error) {
	return quota.Usage{}, quota.ErrUnavailable
}

// What the upstream says is not taken for said while the ledger is away: the caller reports it again.
func TestALedgerThatIsAway(t *testing.T) {
	service, err := quota.NewService(away{}, []*quota.Credential{{
		Name: "youtube", Limits: []quota.Limit{{Name: "daily", Units: 100, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}},
	}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	told := false
	o := NewObserver(service, nil, func(Outcome) { told = true })
	heard := Observation{Credential: "youtube", Operation: "videos.list", Answer: Answer{Status: 429}}
	if out, err := o.Observe(t.Context(), heard); !errors.Is(err, quota.ErrUnavailable) || told {
		t.Errorf("got %+v, %v, want that the ledger is unavailable", out, err)
	}
}

// resets is an answer that refuses for so long.
func resets(after time.Duration) Answer {
	return Answer{403, header("X-Ratelimit-Remaining: 0", fmt.Sprintf("X-Ratelimit-Reset: %d", now.Add(after).Unix())), nil}
}

// A limit of an hour is open again within one, where the answer names no time.
func TestADailyOfOneHour(t *testing.T) {
	s := newScene(t)
	if err := s.service.SetCredentials([]*quota.Credential{{
		Name: "youtube", Limits: []quota.Limit{{Name: "daily", Units: 10_000, Window: quota.Sliding(time.Hour)}},
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}},
	}}); err != nil {
		t.Fatal(err)
	}
	for _, answer := range []Answer{
		{403, nil, []byte(unnamed)},
	} {
		s.observe(Observation{Operation: "videos.list", Answer: answer})
		s.closed("daily 1h0m0s")
		s.clock.Add(time.Hour)
	}
}

// unnamed says that a quota is gone, and not which.
const unnamed = `{"error":{"errors":[{"domain":"youtube.quota","reason":"quotaExceeded"}],"code":403}}`

// An answer that names no limit is about one that the upstream has, and not about a
// narrower cap of ours.
func TestACapOfOursIsNotTheUpstreams(t *testing.T) {
	for _, row := range []struct {
		name   string
		answer Answer
		want   string
	}{
		{"a day", Answer{403, nil, []byte(unnamed)}, "daily 15h40m0s"},
		{"no money", Answer{402, nil, nil}, "daily 15h40m0s"},
		{"a minute", Answer{429, header("Retry-After: 7"), nil}, "daily 7s"},
		{"nobody knows for how long", Answer{Status: 429}, "daily 1m0s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t)
			s.add(quota.Limit{Name: "cap", Units: 40, Window: quota.Sliding(24 * time.Hour), Only: []string{"videos.list"}})
			s.observe(Observation{Operation: "videos.list", Answer: row.answer})
			s.closed(row.want)
		})
	}
}

// Of the limits that the upstream has, an answer without a name is about the one for the fewest operations: of an
// hour or more where it is about a day. It is about no share.
func TestWhichOfTheUpstreamsLimits(t *testing.T) {
	const day = 24 * time.Hour
	for _, row := range []struct {
		name  string
		known bool // the upstream has the limit
		own   quota.Limit
		want  string
	}{
		{"for fewer operations", true, quota.Limit{Units: 50_000, Window: quota.Sliding(day)}, "own 1h0m0s"},
		{"a day, beside a limit of a minute", true, quota.Limit{Units: 60, Window: quota.Sliding(time.Minute)}, "daily 15h40m0s"},
		{"a share", false, quota.Limit{Units: 40, Window: quota.Sliding(day), Jobs: []string{"trending"}}, "daily 1h0m0s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t)
			row.own.Name, row.own.Only = "own", []string{"videos.list"}
			s.add(row.own)
			profile := s.observer.profiles["youtube"]
			if row.known {
				profile.Limits["own"] = Counterpart{}
			} else {
				profile = Profile{}
			}
			s.observer.SetProfiles(map[string]Profile{"youtube": profile})
			s.observe(Observation{Operation: "videos.list", Answer: Answer{403, nil, []byte(unnamed)}})
			s.closed(row.want)
		})
	}
}

// learned is what a pass learns of an answer.
type learned quota.Word

func (l *learned) Observed(_ string, word quota.Word) { *l = learned(word) }

// A pass learns which limit is closed, and until when; or why its key is refused, which ends its run.
func TestWhatAPassLearns(t *testing.T) {
	for _, row := range []struct {
		name  string
		heard Observation
		want  learned
	}{
		{"an answer", Observation{Operation: "videos.list", Answer: Answer{Status: 200}}, learned{Operation: "videos.list"}},
		{"a day that is over", Observation{Operation: "search.list", Answer: Answer{429, nil, []byte(searches2026)}}, learned{Operation: "search.list", Limit: "search", Until: now.Add(15*time.Hour + 40*time.Minute)}},
		{"a key that is not valid", Observation{Operation: "videos.list", Answer: Answer{400, nil, []byte(`{"error":{"message":"Renew it.","details":[{"reason":"API_KEY_INVALID"}]}}`)}}, learned{Operation: "videos.list", Refuses: "Renew it."}},
		{"a key that is refused without a word", Observation{Operation: "videos.list", Answer: Answer{Status: 401}}, learned{Operation: "videos.list", Refuses: "401 Unauthorized"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got learned
			out := newScene(t).observe(row.heard)
			out.Report("token", &got)
			if !got.Until.Equal(row.want.Until) {
				t.Errorf("until %v, want %v", got.Until, row.want.Until)
			}
			if got.Until = row.want.Until; got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
}

// What an operator has closed stays closed for as long as he said, with his reason.
func TestAnOperatorsClosingStays(t *testing.T) {
	s := newScene(t)
	for _, limit := range []string{"search", "daily"} {
		k := quota.Change{Kind: quota.KindClosing, Limit: limit, Until: now.Add(72 * time.Hour), Note: "kept for the demo"}
		if d, changed, err := s.service.ChangeLimit(t.Context(), "youtube", k); err != nil || d.Reason != "" || !changed {
			t.Fatalf("got %+v, %v, %v", d, changed, err)
		}
	}
	for _, heard := range []Observation{
		{Operation: "search.list", Answer: Answer{429, nil, []byte(searches2026)}},
		{Operation: "search.list", Answer: resets(20 * time.Hour)},
		{Operation: "videos.list", Answer: Answer{429, header("Retry-After: 7"), nil}},
		{Operation: "videos.list", Answer: Answer{Status: 429}},
	} {
		if out := s.observe(heard); out.Changed || out.Closed.Says != "kept for the demo" {
			t.Errorf("got %+v, want that it stays as it was", out)
		}
		s.closed("daily 72h0m0s", "search 72h0m0s")
	}
}

// A refusal that nothing explains closes for a minute, and twice as long each time, up to an hour, until an answer is good;
// answers to calls that were in flight do not make that longer.
func TestWithoutDetails(t *testing.T) {
	for name, heard := range map[string]Observation{
		"a bare 429":        {Operation: "videos.list", Answer: Answer{Status: 429}},
		"a job that stops":  {Operation: "videos.list", Silent: true},
		"a proxy's own 429": {Operation: "videos.list", Answer: Answer{429, nil, []byte("<html>")}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			for _, minutes := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
				for range 3 {
					s.observe(heard)
				}
				wait := time.Duration(minutes) * time.Minute
				s.closed("daily " + wait.String())
				s.clock.Add(wait - 10*time.Second)
				s.observe(heard)
				s.closed("daily 10s")
				s.clock.Add(10 * time.Second)
				s.closed()
				s.observe(Observation{Operation: "search.list", Answer: Answer{Status: 200}}) // is about another limit
			}
			s.observe(Observation{Operation: "captions.list", Answer: Answer{Status: 200}})
			s.observe(heard)
			s.closed("daily 1m0s")
		})
	}
}

// A rate without a time closes until the end of a period that is known, if that is shorter than an hour.
func TestARateToTheEndOfItsPeriod(t *testing.T) {
	s := newScene(t)
	quarter := quota.Anchored(15*time.Minute, now.Add(-4*time.Minute))
	s.add(quota.Limit{Name: "quarter", Units: 100, Window: quarter, Only: []string{"videos.list"}})
	rate := []byte(`{"error":{"errors":[{"reason":"rateLimitExceeded"}]}}`)
	s.observe(Observation{Operation: "videos.list", Answer: Answer{429, nil, rate}})
	s.closed("quarter 11m0s")
	s.observe(Observation{Operation: "search.list", Answer: Answer{429, nil, rate}})
	s.closed("quarter 11m0s", "search 1m0s")
}

// Of several limits in one field, the one that is used up is closed, by its size.
func TestSeveralLimitsInOneField(t *testing.T) {
	for _, row := range []struct{ usage, want string }{
		{"100,200", "quarter 11m0s"}, {"12,1000", "day 15h40m0s"}, {"100,1000", "day 15h40m0s"},
	} {
		s := newScene(t)
		s.add(quota.Limit{Name: "day", Units: 1000, Window: pacific(t), Only: []string{"videos.list"}})
		s.add(quota.Limit{Name: "quarter", Units: 100, Window: quota.Anchored(15*time.Minute, now.Add(-4*time.Minute)), Only: []string{"videos.list"}})
		s.observer.SetProfiles(map[string]Profile{"youtube": {Format: Format{Headers: Headers{Limit: "X-Ratelimit-Limit", Used: "X-Ratelimit-Usage"}}}})
		s.observe(Observation{Operation: "videos.list", Answer: Answer{429, header("X-Ratelimit-Limit: 100,1000", "X-Ratelimit-Usage: "+row.usage), nil}})
		s.closed(row.want)
	}
}

// The field RateLimit says which limit is used up, and for how long, without a word of configuration.
func TestRateLimitField(t *testing.T) {
	s := newScene(t)
	s.observe(Observation{Operation: "videos.list", Answer: Answer{429, header(`RateLimit: "burst";r=50;t=9, "core";r=0;t=4000`), nil}})
	s.closed("daily 1h6m40s")
}

// A remote caller closes no limit for longer than what it spent counts, whatever it says that the upstream said.
func TestStrangers(t *testing.T) {
	s := newScene(t)
	caller := quota.Caller{Remote: "shop"}
	_, err := s.observer.Observe(t.Context(), Observation{Credential: "youtube", Operation: "videos.list", Answer: resets(31 * 24 * time.Hour), Caller: caller})
	if err != nil {
		t.Fatal(err)
	}
	s.closed("daily 25h0m0s")
}

// What others had spent on the first day of a log is booked once, when the upstream first says its count.
func TestBeforeQuotad(t *testing.T) {
	count := func(s *scene, remaining int) Outcome {
		s.clock.Add(time.Minute)
		return s.observe(Observation{Operation: "videos.list", Answer: Answer{200,
			header("X-Ratelimit-Limit: 10000", fmt.Sprintf("X-Ratelimit-Remaining: %d", remaining), "X-Ratelimit-Resource: core"), nil}})
	}
	s := newScene(t)
	s.acquire("videos.list")
	if out := count(s, 9059); out.Before != "940 units of daily" {
		t.Errorf("got %+v", out)
	}
	if d := s.acquire("videos.list"); d.Limits[0].Used != 942 {
		t.Errorf("%d units used, want 942", d.Limits[0].Used)
	}
	restarted := NewObserver(s.service, s.observer.profiles, func(Outcome) {})
	for name, o := range map[string]*Observer{"said already": s.observer, "booked already": restarted} {
		s.observer = o
		if out := count(s, 8000); out.Before != "" {
			t.Errorf("%s: got %+v", name, out)
		}
	}
	if c := s.observer.Counts("youtube")["daily"]; c != (Count{Ours: 942, Theirs: Known(2000), Size: Known(10_000)}) {
		t.Errorf("got %+v", c)
	}

	s = newScene(t)
	s.acquire("videos.list")
	s.clock.Add(24 * time.Hour)
	s.acquire("videos.list")
	if out := count(s, 5000); out.Before != "" { // a caller spends without asking
		t.Errorf("got %+v of a log that is older", out)
	}
}

// A rate that names no time closes for a minute at least, and so not a limit of a second.
func TestARateWithoutATime(t *testing.T) {
	rate := []byte(`{"error":{"errors":[{"reason":"rateLimitExceeded"}]}}`)
	for _, row := range []struct {
		name   string
		answer Answer
		want   string
	}{
		{"no time", Answer{429, nil, rate}, "daily 1m0s"},
		{"a time that has passed", Answer{429, header("Retry-After: Fri, 25 Sep 2026 15:19:00 GMT"), rate}, "daily 1m0s"},
		{"a time that no quota has", Answer{429, header("Retry-After: 315360000"), rate}, "daily 1m0s"},
		{"a time", Answer{429, header("Retry-After: 1"), []byte("Too many requests")}, "second 1s"},
		{"less than nothing", Answer{429, header("Retry-After: -5"), rate}, "daily 1m0s"},
		{"a time in Google's words", Answer{403, nil, []byte(`{"error":{"errors":[{"reason":"userRateLimitExceeded","message":"User-rate limit exceeded.  Retry after 2026-09-25T15:20:45.000Z"}]}}`)}, "second 45s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t)
			s.add(quota.Limit{Name: "second", Units: 5, Window: quota.Sliding(time.Second), Only: []string{"videos.list"}})
			s.observe(Observation{Operation: "videos.list", Answer: row.answer})
			s.closed(row.want)
		})
	}
}

func TestObserveRefuses(t *testing.T) {
	for _, row := range []struct {
		name   string
		heard  Observation
		reason quota.Reason
		detail string
	}{
		{"an unknown operation", Observation{Operation: "search.lst"}, quota.UnknownOperation, `operation "search.lst" is not listed for credential "youtube", but "search.list" is`},
		{"a grant that never was", Observation{Grant: "youtube:ABCDEFGHIJKLMNOP"}, quota.UnknownGrant, `grant "youtube:ABCDEFGHIJKLMNOP" is not in the log`},
		{"10 MB", Observation{Operation: "search.list", Answer: Answer{Status: 429, Body: make([]byte, 10<<20)}}, quota.BadRequest, "the body has 10485760 bytes, at most 65536 are read"},
		{"no text", Observation{Operation: "search.list", Answer: Answer{Status: 429, Body: []byte("\xff\xfe")}}, quota.BadRequest, "the body is not UTF-8 text; a compressed one must be decompressed first"},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := newScene(t)
			out := s.observe(row.heard)
			if out.Refused.Reason != row.reason || out.Refused.Detail != row.detail || len(s.told) != 0 {
				t.Errorf("got %+v, want %s: %s", out, row.reason, row.detail)
			}
			s.closed()
		})
	}
}

// An observation by grant id is one of its operation.
func TestObserveByGrant(t *testing.T) {
	s := newScene(t)
	d := s.acquire("search.list")
	if out := s.observe(Observation{Grant: d.GrantID, Answer: Answer{Status: 429, Header: header("Retry-After: 5")}}); out.Operation != "search.list" {
		t.Errorf("got %+v", out)
	}
	s.closed("search 5s")
}

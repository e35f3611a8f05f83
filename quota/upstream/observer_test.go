package upstream

//ci:norace

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/ledgertest"
)

var github = Format{Headers: Headers{
	Limit: "x-ratelimit-limit", Used: "x-ratelimit-used", Remaining: "x-ratelimit-remaining",
	Resource: "x-ratelimit-resource", Reset: "x-ratelimit-reset", ResetIs: Epoch,
}}

// A scene is a service of YouTube's limits of 2026 on a clock that is set, and what its observer reported.
type scene struct {
	*testing.T
	clock    *ledgertest.Clock
	ledger   *ledger
	service  *quota.Service
	observer *Observer
	profile  Profile
	reported []Outcome
}

// A ledger is away for one verb.
type ledger struct {
	quota.Ledger
	away string
}

func (l *ledger) Usage(ctx context.Context, c *quota.Credential) (quota.Usage, error) {
	u, err := l.Ledger.Usage(ctx, c)
	return u, cmp.Or(l.fails("usage"), err)
}

func (l *ledger) ChangeLimit(ctx context.Context, c *quota.Credential, k quota.Change) (bool, error) {
	changed, err := l.Ledger.ChangeLimit(ctx, c, k)
	return changed, cmp.Or(l.fails("change"), err)
}

func (l *ledger) Book(ctx context.Context, c *quota.Credential, b quota.Booking) (quota.Decision, error) {
	if err := l.fails("book"); err != nil {
		return quota.Decision{}, err
	}
	return l.Ledger.Book(ctx, c, b)
}

func (l *ledger) fails(verb string) error {
	if l.away == verb {
		return quota.ErrUnavailable
	}
	return nil
}

// newScene returns a scene with a limit of our own before the others, unless it has no name.
func newScene(t *testing.T, own quota.Limit) *scene {
	day := pacific(t)
	s := &scene{T: t, clock: ledgertest.NewClock(now), profile: Profile{
		Format: Format{Day: day, Headers: github.Headers},
		Limits: map[string]Counterpart{
			"daily":  {Names: []string{"defaultPerDayPerProject", "core"}, Resets: day},
			"search": {Names: []string{"defaultSearchListPerDayPerProject", "Search Queries per day"}, Resets: day},
		},
	}}
	limits := []quota.Limit{
		{Name: "daily", Units: 10_000, Window: quota.Sliding(25 * time.Hour), Only: []string{"videos.list", "captions.list", "comments.list"}},
		{Name: "burst", Units: 60, Window: quota.Sliding(time.Minute), Only: []string{"comments.list"}},
		{Name: "search", Units: 100, Window: day, Only: []string{"search.list"}},
	}
	if own.Name != "" {
		own.Only = []string{"videos.list"}
		limits = append([]quota.Limit{own}, limits...)
		switch {
		case strings.HasPrefix(own.Name, "known"):
			s.profile.Limits[own.Name] = Counterpart{}
			if own.Name == "known-hour" { // what it counts has left before the upstream resets
				s.profile.Limits[own.Name] = Counterpart{Resets: day}
			}
		case own.Name == "share": // of an upstream that nothing is known of
			s.profile = Profile{}
		}
	}
	s.ledger = &ledger{Ledger: ledgertest.NewModel(s.clock.Now)}
	service, err := quota.NewService(s.ledger, []*quota.Credential{{Name: "youtube", Limits: limits,
		Operations: map[string]quota.Cost{"videos.list": {Every: 1}, "search.list": {Every: 1}, "captions.list": {Every: 50}, "comments.list": {Every: 1}},
	}}, time.Minute)
	s.must(err)
	s.service = service
	s.observer = NewObserver(service, map[string]Profile{"youtube": s.profile}, func(out Outcome) { s.reported = append(s.reported, out) })
	return s
}

func (s *scene) observe(seen Observation) Outcome {
	s.Helper()
	seen.Credential = "youtube"
	if seen.Caller == (quota.Caller{}) {
		seen.Caller = quota.Caller{Job: "trending", Region: "US"}
	}
	out, err := s.observer.Observe(context.Background(), seen)
	s.must(err)
	return out
}

// closed expects for how long which limits are closed: "search 15h40m0s".
func (s *scene) closed(want ...string) {
	s.Helper()
	usage, err := s.service.Usage(context.Background(), "youtube")
	s.must(err)
	var got []string
	for _, limit := range usage.Limits {
		if !limit.Closed.IsZero() {
			got = append(got, fmt.Sprint(limit.Name, " ", limit.Closed.Until.Sub(s.clock.Now())))
		}
	}
	if strings.Join(got, ", ") != strings.Join(want, ", ") {
		s.Fatalf("closed are %q, want %q", got, want)
	}
}

// must fails the test at an error.
func (s *scene) must(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

func (s *scene) acquire(operation string) quota.Decision {
	s.Helper()
	d, err := s.service.Acquire(context.Background(), quota.Request{Credential: "youtube", Operation: operation, Count: 1})
	s.must(err)
	return d
}

// searches is the whole answer of YouTube to the 101st search of a day.
func searches(t *testing.T) Answer { return answers(t, "answers.json")[0].answer() }

// Which limit an answer closes, and for how long, beside a limit of our own. The upstream has those whose names begin
// with "known".
func TestWhichLimitIsClosedAndForHowLong(t *testing.T) {
	const day = 24 * time.Hour
	owns := map[string]quota.Limit{
		"":             {},
		"remote":       {},
		"remote-share": {Units: 40, Window: quota.Sliding(day), Jobs: []string{"remote/shop"}},
		"share":        {Units: 40, Window: quota.Sliding(day), Jobs: []string{"trending"}},
		"cap":          {Units: 40, Window: quota.Sliding(day)},
		"known":        {Units: 50_000, Window: quota.Sliding(day)},
		"known-hour":   {Units: 5_000, Window: quota.Sliding(time.Hour)},
		"known-minute": {Units: 60, Window: quota.Sliding(time.Minute)},
		"quarter":      {Units: 100, Window: quota.Anchored(15*time.Minute, now.Add(-4*time.Minute))},
		"second":       {Units: 5, Window: quota.Sliding(time.Second)},
	}
	for _, row := range answers(t, "closings.json") {
		t.Run(row.Name, func(t *testing.T) {
			own, seen := owns[row.Own], Observation{Operation: row.Operation, Answer: row.answer()}
			if own.Units > 0 {
				own.Name = row.Own
			}
			if strings.HasPrefix(row.Own, "remote") {
				seen.Caller = quota.Caller{Remote: "shop"}
			}
			s := newScene(t, own)
			s.observe(seen)
			s.closed(strings.FieldsFunc(row.Closes, func(r rune) bool { return r == ',' })...)
		})
	}
}

// The day's searches are gone, and come back at midnight in California.
func TestADayIsClosedUntilItsReset(t *testing.T) {
	s := newScene(t, quota.Limit{})
	seen := Observation{Operation: "search.list", Answer: searches(t)}
	if out := s.observe(seen); out.Class != Day || out.Limit != "search" || !out.Changed || len(s.reported) != 1 {
		t.Errorf("got %+v", out)
	}
	s.closed("search 15h40m0s")
	d := s.acquire("search.list")
	if closed := d.State().Closed; d.Reason != quota.LimitClosed || closed.By != "trending" || !strings.HasPrefix(closed.Says, "Quota exceeded for ") {
		t.Errorf("got %+v", d)
	}
	// Calls that were in flight are answered the same, and change nothing.
	if out := s.observe(seen); out.Changed || out.Limit != "search" {
		t.Errorf("got %+v, want that nothing changed", out)
	}
}

// What the upstream says is not taken for said while the ledger is away: the caller reports it again.
func TestALedgerThatIsAway(t *testing.T) {
	s := newScene(t, quota.Limit{})
	seen := Observation{Credential: "youtube", Operation: "videos.list"}
	for _, row := range []struct {
		away   string
		status int
	}{{"usage", 429}, {"change", 429}, {"book", 200}} {
		s.ledger.away = row.away
		seen.Answer = Answer{row.status, header("X-Ratelimit-Limit: 10000", "X-Ratelimit-Used: 900"), nil}
		if out, err := s.observer.Observe(t.Context(), seen); !errors.Is(err, quota.ErrUnavailable) || len(s.reported) > 0 {
			t.Errorf("%s: got %+v, %v, want that the ledger is unavailable", row.away, out, err)
		}
	}
	s.ledger.away = ""
	if out := s.observe(seen); out.Before == "" {
		t.Errorf("got %+v, want that the difference is booked", out)
	}
}

// learned is what a pass learns of an answer.
type learned quota.Word

func (l *learned) Observed(_ string, word quota.Word) { *l = learned(word) }

// A pass learns which limit is closed, and until when; or why its key is refused, which ends its run.
func TestWhatAPassLearns(t *testing.T) {
	for _, row := range []struct {
		name   string
		answer Answer
		want   learned
	}{
		{"an answer", Answer{Status: 200}, learned{}},
		{"a rate", Answer{429, nil, []byte(`{"error":{"errors":[{"reason":"rateLimitExceeded"}]}}`)},
			learned{Limit: "search", Until: now.Add(time.Minute)}},
		{"a day that is over", searches(t), learned{Limit: "search", Until: now.Add(15*time.Hour + 40*time.Minute)}},
		{"a key that is not valid", Answer{400, nil, []byte(`{"error":{"message":"Renew it.","details":[{"reason":"API_KEY_INVALID"}]}}`)}, learned{Refuses: "Renew it."}},
		{"a key that is refused without a word", Answer{Status: 401}, learned{Refuses: "401 Unauthorized"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var got learned
			out := newScene(t, quota.Limit{}).observe(Observation{Operation: "search.list", Answer: row.answer})
			out.Report("token", &got)
			row.want.Operation, got.Until = "search.list", got.Until.UTC()
			if got != row.want {
				t.Errorf("got %+v, want %+v", got, row.want)
			}
		})
	}
	var got learned
	if (&Outcome{Verdict: Verdict{Class: Minute}}).Report("token", &got); got != (learned{Unclear: true}) {
		t.Errorf("got %+v of a refusal that is about no limit", got)
	}
}

// A key stays refused until an answer is good, or the file is read again. What a remote caller says of the key, and of
// what is left, counts for nobody else.
func TestRefusedUntilAGoodAnswer(t *testing.T) {
	s := newScene(t, quota.Limit{})
	for i, step := range []struct {
		remote  string
		status  int
		refused bool
	}{
		{"shop", 401, false}, {"", 401, true}, {"", 404, true}, {"", 500, true}, {"", 200, false}, {"", 402, true},
		{"shop", 200, false}, {"", 401, true},
	} {
		answer := Answer{step.status, header("X-Ratelimit-Limit: 10000", "X-Ratelimit-Remaining: 9000"), nil}
		before := len(s.reported)
		s.observe(Observation{Operation: "videos.list", Answer: answer, Caller: quota.Caller{Remote: step.remote, Job: "j"}})
		if got := s.observer.Refuses("youtube"); got != "" != step.refused {
			t.Errorf("step %d: refused by %q", i, got)
		}
		if isGood := step.status == 200 && step.remote != ""; len(s.reported) == before != isGood {
			t.Errorf("step %d: %d outcomes are reported, %d before", i, len(s.reported), before)
		}
		if i == 0 && s.observer.Count("youtube", "daily").Theirs.Known {
			t.Error("what a remote caller says is left is taken")
		}
	}
	if s.observer.SetProfiles(nil); s.observer.Refuses("youtube") != "" {
		t.Error("a key that was replaced is refused")
	}
}

// A refusal that nothing explains closes for a minute, and twice as long each time, up to an hour, until an answer is good;
// answers to calls that were in flight do not make that longer.
func TestWithoutDetails(t *testing.T) {
	seen := Observation{Operation: "videos.list", Answer: Answer{429, nil, []byte("<html>")}}
	s := newScene(t, quota.Limit{})
	for _, minutes := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		for range 3 {
			s.observe(seen)
		}
		wait := time.Duration(minutes) * time.Minute
		s.closed("daily " + wait.String())
		s.clock.Add(wait - 10*time.Second)
		s.observe(seen)
		s.closed("daily 10s")
		s.clock.Add(10 * time.Second)
		s.closed()
		s.observe(Observation{Operation: "search.list", Answer: Answer{Status: 200}}) // is about another limit
	}
	s.observe(Observation{Operation: "captions.list", Answer: Answer{Status: 404}}) // is no good answer
	s.observe(seen)
	s.closed("daily 1h0m0s")
	s.clock.Add(time.Hour)
	s.observe(Observation{Operation: "captions.list", Answer: Answer{Status: 200}})
	s.observe(seen)
	s.closed("daily 1m0s")
	s.clock.Add(time.Minute)
	s.observer.SetProfiles(map[string]Profile{"youtube": s.profile}) // which may explain it
	s.observe(seen)
	s.closed("daily 1m0s")
}

// What others had spent on the first day of a log is booked once, when the upstream first says its count.
func TestBeforeQuotad(t *testing.T) {
	count := func(s *scene, remaining int) Outcome {
		s.clock.Add(time.Minute)
		return s.observe(Observation{Operation: "videos.list", Answer: Answer{200,
			header("X-Ratelimit-Limit: 12000", fmt.Sprint("X-Ratelimit-Remaining: ", 2000+remaining), "X-Ratelimit-Resource: core"), nil}})
	}
	s := newScene(t, quota.Limit{})
	s.acquire("videos.list")
	if out := count(s, 9059); out.Before != "940 units of daily" {
		t.Errorf("got %+v", out)
	}
	if d := s.acquire("videos.list"); d.Limits[0].Used != 942 {
		t.Errorf("%d units used, want 942", d.Limits[0].Used)
	}
	restarted := NewObserver(s.service, map[string]Profile{"youtube": s.profile}, func(Outcome) {})
	for name, o := range map[string]*Observer{"said already": s.observer, "booked already": restarted} {
		s.observer = o
		if out := count(s, 8000); out.Before != "" {
			t.Errorf("%s: got %+v", name, out)
		}
	}
	if c := s.observer.Count("youtube", "daily"); c != (Count{Ours: 942, Theirs: Known(2000), Size: Known(12_000)}) {
		t.Errorf("got %+v", c)
	}

	for status, lines := range map[int][]string{ // a refusal; numbers of limits that are not known; fewer than we counted
		429: {"X-Ratelimit-Limit: 10000", "X-Ratelimit-Used: 900"}, 200: {"X-Ratelimit-Limit: 7,8", "X-Ratelimit-Used: 5,6"},
		201: {"X-Ratelimit-Limit: 10000", "X-Ratelimit-Used: 0"},
	} {
		s = newScene(t, quota.Limit{})
		s.acquire("videos.list")
		seen := Observation{Operation: "videos.list", Answer: Answer{status, header(lines...), nil}}
		if out := s.observe(seen); out.Before != "" {
			t.Errorf("got %+v", out)
		}
	}
	s = newScene(t, quota.Limit{})
	s.acquire("videos.list")
	s.clock.Add(24 * time.Hour)
	s.acquire("videos.list")
	if out := count(s, 5000); out.Before != "" { // a caller spends without asking
		t.Errorf("got %+v of a log that is older", out)
	}
}

// An observation by grant id is one of its operation.
func TestObserveByGrant(t *testing.T) {
	s := newScene(t, quota.Limit{})
	d := s.acquire("search.list")
	if out := s.observe(Observation{Grant: d.GrantID, Answer: Answer{Status: 429, Header: header("Retry-After: 5")}}); out.Operation != "search.list" {
		t.Errorf("got %+v", out)
	}
	s.closed("search 5s")
}

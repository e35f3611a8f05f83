package server

import (
	"encoding/json"
	"math/rand/v2"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// A request that fits is refused while the log does not fill a window that was
// lengthened. Whoever reads the answer is told so.
func TestDenialWhileCatchingUp(t *testing.T) {
	until := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	day := quota.Limit{Name: "daily", Units: 100, Window: quota.Sliding(24 * time.Hour)}
	w := httptest.NewRecorder()
	WriteDecision(w, quota.Decision{
		Reason: quota.LimitExceeded, Limit: "daily", Units: 1, RetryAt: until, RetryAfter: time.Hour,
		Limits: []quota.LimitState{{Limit: day, Used: 10, Cost: 1, CatchingUp: until}},
	}, false)
	for _, want := range []string{`"catching_up_until":"2026-11-21T09:00:00Z"`, "longer window than its log reaches back"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q is not in the answer %s", want, w.Body)
		}
	}
}

// A decision is written as encoding/json would write it, whatever there is to escape, and of
// a limit it tells what a status does.
func TestDecisionsAreWrittenAsJSON(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	units := func() quota.Units { return quota.Units(random.Int64N(3) * random.Int64N(int64(quota.MaxUnits)/3)) }
	text := func() string {
		return []string{"", "daily", `"Zoë" <a>&b`, "\x00\x1f\x7f\u2028\U0001F600", "line\n\ttab\\"}[random.IntN(5)]
	}
	at := func() time.Time {
		return []time.Time{{}, time.UnixMilli(random.Int64N(4e12)).In(time.FixedZone("elsewhere", 5400))}[random.IntN(2)]
	}
	closed := func() quota.Closed {
		since := time.UnixMilli(random.Int64N(4e12))
		return []quota.Closed{{}, {Since: since, Until: since.Add(time.Hour), Says: text(), By: "@" + text()}}[random.IntN(2)]
	}
	for range 2_000 {
		d := quota.Decision{Reason: []quota.Reason{"", quota.LimitExceeded, quota.LimitClosed, quota.CostExceedsLimit, quota.RunCapExceeded, quota.UnknownOperation}[random.IntN(6)],
			Detail: text(), Hint: text(), Units: units(), GrantID: text(), Replayed: random.IntN(2) == 0, Outage: random.IntN(2) == 0,
			Now: at(), Limit: "limit" + text(), RetryAt: at(), RetryAfter: time.Duration(random.Int64N(1e15))}
		for range random.IntN(3) {
			d.Limits = append(d.Limits, quota.LimitState{
				Limit: quota.Limit{Name: "limit" + text(), Units: units(), Reserve: units(), Window: quota.Sliding(24 * time.Hour)},
				Used:  units(), Cost: units(), NextAt: at(), NextUnits: units(), CatchingUp: at(), Closed: closed(),
			})
			l := &d.Limits[len(d.Limits)-1]
			l.Observe, l.Lifted, l.Lift = random.IntN(2) == 0, random.IntN(2) == 0, time.Duration(random.IntN(3))*time.Hour
			l.Jobs = [][]string{nil, {"backfill"}, {"a", "b" + text()}}[random.IntN(3)]
			l.ExceptJobs = [][]string{nil, {"trending"}}[random.IntN(2)]
		}
		useReserve := random.IntN(2) == 0
		w := httptest.NewRecorder()
		WriteDecision(w, d, useReserve)
		var got api.Decision
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
		want := api.Decision{Granted: d.Granted(), Remaining: int64(d.Remaining()), Now: timeOf(d.Now), Limits: limitsOf(d.Limits)}
		if d.Granted() {
			want.GrantID, want.Units, want.Replayed, want.Mode = d.GrantID, int64(d.Units), d.Replayed, map[bool]string{true: "outage"}[d.Outage]
			want.WouldDeny = shortagesOf(d.WouldDeny(useReserve))
		} else {
			p := ProblemOf(d)
			want.Reason, want.Limit, want.Requested = string(d.Reason), d.Limit, int64(d.Units)
			want.Type, want.Title, want.Status, want.Detail, want.Hint = p.Type, p.Title, p.Status, p.Detail, p.Hint
		}
		if d.Reason == quota.LimitClosed {
			want.UpstreamSays = d.Closed().Says
		}
		if d.Denied() {
			want.RetryAfterMs, want.RetryAt = d.RetryAfter.Milliseconds(), timeOf(d.RetryAt)
			want.Detail, want.ViolatedPolicies = got.Detail, got.ViolatedPolicies // other tests look at these
		}
		body := struct {
			api.Decision
			Remaining *int64 `json:"remaining,omitempty"`
		}{Decision: want}
		if len(d.Limits) > 0 {
			body.Remaining = &want.Remaining
		}
		if text, err := json.Marshal(body); err != nil || w.Body.String() != string(text)+"\n" {
			t.Fatalf("%v\ngot  %swant %s", err, w.Body, text)
		}
	}
}

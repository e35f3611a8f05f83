package server

import (
	"encoding/json"
	"math/rand/v2"
	"net/http/httptest"
	"reflect"
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
	writeDecision(w, quota.Decision{
		Reason: quota.LimitExceeded, Limit: "daily", Units: 1, RetryAt: until, RetryAfter: time.Hour,
		Limits: []quota.LimitState{{Limit: day, Used: 10, Cost: 1, CatchingUp: until}},
	}, false)
	for _, want := range []string{`"catching_up_until":"2026-11-21T09:00:00Z"`, "longer window than its log reaches back"} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("%q is not in the answer %s", want, w.Body)
		}
	}
}

// What is written of a decision is what a client reads, whatever there is to escape.
func TestDecisionsAreReadAsTheyAreWritten(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 1))
	units := func() quota.Units { return quota.Units(random.Int64N(3) * random.Int64N(int64(quota.MaxUnits)/3)) }
	text := func() string {
		return []string{"", "daily", `"Zoë" <a>&b`, "\x00\x1f\x7f\u2028\U0001F600", "line\n\ttab\\"}[random.IntN(5)]
	}
	at := func() time.Time {
		return []time.Time{{}, time.UnixMilli(random.Int64N(4e12)).In(time.FixedZone("elsewhere", 5400))}[random.IntN(2)]
	}
	for range 2_000 {
		d := quota.Decision{Reason: []quota.Reason{"", quota.LimitExceeded, quota.CostExceedsLimit, quota.RunCapExceeded, quota.UnknownOperation}[random.IntN(5)],
			Detail: text(), Hint: text(), Units: units(), GrantID: text(), Replayed: random.IntN(2) == 0, Outage: random.IntN(2) == 0,
			Limit: text(), RetryAt: at(), RetryAfter: time.Duration(random.Int64N(1e15))}
		for range random.IntN(3) {
			d.Limits = append(d.Limits, quota.LimitState{
				Limit: quota.Limit{Name: text(), Units: units(), Reserve: units(), Window: quota.Sliding(24 * time.Hour)},
				Used:  units(), Cost: units(), NextAt: at(), NextUnits: units(), CatchingUp: at(),
			})
		}
		w := httptest.NewRecorder()
		writeDecision(w, d, random.IntN(2) == 0)
		text := w.Body.String()
		var got api.Decision
		read := json.NewDecoder(strings.NewReader(text))
		read.DisallowUnknownFields()
		if err := read.Decode(&got); err != nil {
			t.Fatalf("%+v: %v", d, err)
		}
		want := api.Decision{Granted: d.Granted(), Remaining: int64(d.Remaining()), Limits: limitsOf(d.Limits)}
		if d.Granted() {
			want.GrantID, want.Units, want.Replayed, want.Mode = d.GrantID, int64(d.Units), d.Replayed, map[bool]string{true: "outage"}[d.Outage]
		} else {
			p := refusalOf(d)
			want.Reason, want.Limit, want.Requested = string(d.Reason), d.Limit, int64(d.Units)
			want.Type, want.Title, want.Status, want.Detail, want.Hint = p.Type, p.Title, p.Status, p.Detail, p.Hint
		}
		if d.Reason == quota.LimitExceeded {
			want.RetryAfterMs, want.RetryAt = d.RetryAfter.Milliseconds(), timeOf(d.RetryAt)
			want.Detail, want.ViolatedPolicies = got.Detail, got.ViolatedPolicies // other tests look at these
		}
		if len(want.Limits) == 0 {
			want.Limits = nil
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("%s\ngot  %+v\nwant %+v", text, got, want)
		}
	}
}

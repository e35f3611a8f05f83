package server_test

import (
	"testing"
	"time"

	"quotad/jobs"
	"quotad/jobs/plan"
	"quotad/quota"
	"quotad/quota/api"
)

// The sum is of what passes expect, and of what was measured. A job of which nothing is known is named.
func TestPlan(t *testing.T) {
	fetch := job(t, "trending", "fetch")
	fetch.Expects = map[string]quota.Units{"videos.list": 4}
	fetch.Schedule = jobs.Every{Period: 7 * time.Hour}
	h := open(t, 130, fetch, job(t, "silent", "fetch"))
	p := must[plan.Plan](t)(h.Plan(t.Context()))
	if f := p.Limits[0]; f.Demand != 4*32 || !f.Fits {
		t.Errorf("got %s, want 128 in four runs", &f)
	}
	if len(p.Unknown) != 1 || p.Unknown[0] != "silent" {
		t.Errorf("got %q left out, want the silent job", p.Unknown)
	}
}

// What callers outside the schedule spend within an hour uses a limit up.
func TestRates(t *testing.T) {
	h := open(t, 100, job(t, "trending", "fetch"))
	if got := must[plan.Rate](t)(h.rate()); got.PerHour != 0 || !got.GoneAt.IsZero() {
		t.Errorf("got %+v, want nothing spent", got)
	}
	must[api.Decision](t)(h.Acquire(t.Context(), api.AcquireRequest{Credential: "youtube", Operation: "videos.list", Count: 20}))
	var got plan.Rate
	for got.PerHour == 0 { // it may be a little old
		got = must[plan.Rate](t)(h.rate())
	}
	if left := time.Until(got.GoneAt); got.PerHour != 20 || got.Beyond != 20 || left < 3*time.Hour || left > 4*time.Hour {
		t.Errorf("got %+v, want 80 left at 20 an hour", got)
	}
}

func (h *house) rate() (plan.Rate, error) {
	s, err := h.Status(h.t.Context())
	return plan.RateOf(s.Rates, "youtube", "daily"), err
}

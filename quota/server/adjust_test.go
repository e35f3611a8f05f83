package server_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

func TestWhy(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("us", "trending", "US", "youtube")
	h.Acquire("us", api.AcquireRequest{Operation: "videos.list", Count: 5500})
	h.Clock.Add(time.Hour)
	h.Acquire("us", api.AcquireRequest{Operation: "search.list", Count: 39})

	w, err := h.Client("").Why(t.Context(), "youtube", api.WhyQuery{Operation: "search.list", Count: 2})
	if err != nil {
		t.Fatal(err)
	}
	if w.Granted || w.Reason != "limit_exceeded" || w.Limit != "search" || w.Units != 200 || w.Count != 2 ||
		!w.RetryAt.Equal(h.Clock.Now().Add(24*time.Hour)) || w.RetryAfterMs != 24*3_600_000 {
		t.Errorf("got %+v, want it refused for a day", w)
	}
	if len(w.Limits) != 2 || len(w.Obstacles) != 2 || w.FitsCount != 1 || w.ReserveAllows {
		t.Fatalf("got %+v, want both limits in the way", w)
	}
	daily := w.Obstacles[0]
	if daily.Limit != "daily" || daily.Cost != 200 || daily.Missing != 100 || daily.Held != 9400 ||
		fmt.Sprint(daily.Operations) != "[{videos.list 5500} {search.list 3900}]" || fmt.Sprint(daily.Jobs) != "[{trending 9400}]" {
		t.Errorf("got %+v, want 100 units missing and who holds the rest", daily)
	}

	w, err = h.Client("").Why(t.Context(), "youtube", api.WhyQuery{Operation: "videos.list", Count: 1})
	if err != nil || !w.Granted || w.Obstacles == nil || w.FitsCount != 100 || !w.ReserveAllows {
		t.Errorf("got %+v, %v, want that it fits", w, err)
	}
	w, err = h.Client("").Why(t.Context(), "youtube", api.WhyQuery{Operation: "videos.list", Count: 9501})
	if err != nil || w.Reason != "cost_exceeds_limit" || w.RetryAt != nil || w.Obstacles[0].Jobs == nil {
		t.Errorf("got %+v, %v, want that it never fits", w, err)
	}
	if used := h.Used("youtube"); used != 9400 {
		t.Errorf("used %d, asking why spends nothing", used)
	}
}

func TestAdjustAndReset(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("adjusting is for operators")
	}
	h := servertest.Start(t, nil)
	client := h.Client("")
	h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "search.list"})
	adjust := func(units, booked, used int64) {
		t.Helper()
		got, err := client.Adjust(t.Context(), "youtube", api.Adjustment{Limit: "daily", Units: units, Note: "by hand"})
		if err != nil || got.Limit != "daily" || got.Units != booked || got.Credential.Limits[0].Used != used {
			t.Errorf("adjust by %d: got %+v, %v, want %d booked and %d used", units, got, err, booked, used)
		}
	}
	adjust(50, 50, 150)
	adjust(-30, -30, 120)
	adjust(-500, -120, 0) // no more than was used

	got, err := client.Reset(t.Context(), "youtube", "a new project")
	if err != nil || got.Name != "youtube" || got.Limits[1].Used != 0 {
		t.Errorf("got %+v, %v, want it empty", got, err)
	}
	lines, _ := logOf(h, api.LogQuery{})
	if want := "reset 0 @0  a new project"; len(lines) != 1 || lines[0] != want {
		t.Errorf("got %q, want %q", lines, want)
	}
	var verbs []string
	for _, e := range h.Events() {
		verbs = append(verbs, fmt.Sprintf("%s %s %s", e.Verb, e.Request.Credential, e.Request.Caller.By()))
	}
	if want := "acquire youtube @0, adjust youtube @0, adjust youtube @0, adjust youtube @0, reset youtube @0"; strings.Join(verbs, ", ") != want {
		t.Errorf("observed %v, want %s", verbs, want)
	}
}

// People write +20 where -20 can be written, and curl sends the + as it is.
func TestUnitsWithASign(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("adjusting is for operators")
	}
	h := servertest.Start(t, nil)
	for _, units := range []string{"+20", "%2B20", "20"} {
		if got := h.Dial().Call("POST", "/v1/credentials/youtube/adjust", "limit=daily&units="+units, servertest.Form); got.Status != 200 || got.Text("units") != "20" {
			t.Errorf("%s: %d %s, want 20 booked", units, got.Status, got.Body)
		}
	}
	if used := h.Used("youtube"); used != 60 {
		t.Errorf("used %d, want 60", used)
	}
}

// A repair that was made is not reported as failed because the state is not to be had.
func TestRepairWithoutState(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("adjusting is for operators")
	}
	ledger := &mute{Model: ledgertest.NewModel(time.Now)}
	ledger.silent.Store(true)
	h := servertest.Start(t, func(c *server.Config) { c.Service = servertest.NewService(t, ledger, servertest.YouTube()) })
	got, err := h.Client("").Adjust(t.Context(), "youtube", api.Adjustment{Limit: "daily", Units: 5})
	if err != nil || got.Units != 5 || !strings.Contains(got.Credential.Error, "unavailable") {
		t.Errorf("got %+v, %v, want it adjusted", got, err)
	}
	if _, err := h.Client("").Usage(t.Context(), "youtube", api.UsageQuery{}); !errors.Is(err, api.ErrLedgerUnavailable) {
		t.Errorf("got %v, want that the ledger is unavailable", err)
	}
}

package server_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"quotad/quota"
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

func TestBookAndReset(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("booking is for operators")
	}
	h := servertest.Start(t, nil)
	client := h.Client("")
	h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "search.list"})
	var last string
	for i, used := range []int64{150, 200} {
		booked, err := client.Book(t.Context(), "youtube", api.Booking{Limit: "daily", Units: 50, Note: "by hand"})
		if err != nil || booked.Limit != "daily" || booked.Units != 50 || booked.Credential.Limits[0].Used != used {
			t.Errorf("booking %d: got %+v, %v, want 50 booked and %d used", i, booked, err, used)
		}
		last = booked.GrantID
	}
	if d, err := client.Settle(t.Context(), last, 20); err != nil || d.Limits[0].Used != 170 {
		t.Errorf("got %+v, %v, want the last booking corrected to 20 units", d, err)
	}
	for _, units := range []int64{0, -30} { // a grant is settled
		var p *api.Problem
		_, err := client.Book(t.Context(), "youtube", api.Booking{Limit: "daily", Units: units})
		if !errors.As(err, &p) || p.Reason != quota.BadRequest || !strings.Contains(p.Detail, "settle it") {
			t.Errorf("%d booked: %v, want that it is refused, and to settle the grant", units, err)
		}
	}

	got, err := client.Reset(t.Context(), "youtube", "a new project")
	if err != nil || got.Name != "youtube" || got.Limits[1].Used != 0 {
		t.Errorf("got %+v, %v, want it empty", got, err)
	}
	if lines, _ := logOf(h, api.LogQuery{Newest: true, Most: 1}); lines[0] != "reset 0 @0  a new project" {
		t.Errorf("got %q, want the reset", lines)
	}
	var verbs []string
	for _, e := range h.Events() {
		verbs = append(verbs, fmt.Sprintf("%s %s %s", e.Verb, e.Request.Credential, e.Request.Caller.By()))
	}
	if want := "acquire youtube @0, book youtube @0, book youtube @0, settle youtube @0, book youtube @0, book youtube @0, reset youtube @0"; strings.Join(verbs, ", ") != want {
		t.Errorf("observed %v, want %s", verbs, want)
	}
}

// People write +20, and curl sends the + as it is.
func TestUnitsWithASign(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("booking is for operators")
	}
	h := servertest.Start(t, nil)
	for _, units := range []string{"+20", "%2B20", "20"} {
		if got := h.Dial().Call("POST", "/v1/credentials/youtube/book", "limit=daily&units="+units, servertest.Form); got.Status != 200 || got.Text("units") != "20" {
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
		t.Skip("booking is for operators")
	}
	ledger := &mute{Model: ledgertest.NewModel(time.Now)}
	ledger.silent.Store(true)
	h := servertest.Start(t, func(c *server.Config) { c.Service = servertest.NewService(t, ledger, servertest.YouTube()) })
	got, err := h.Client("").Book(t.Context(), "youtube", api.Booking{Limit: "daily", Units: 5})
	if err != nil || got.Units != 5 || !strings.Contains(got.Credential.Error, "unavailable") {
		t.Errorf("got %+v, %v, want it booked", got, err)
	}
	if _, err := h.Client("").Usage(t.Context(), "youtube", api.UsageQuery{}); !errors.Is(err, api.ErrLedgerUnavailable) {
		t.Errorf("got %v, want that the ledger is unavailable", err)
	}
}

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
	"quotad/quota/server/servertest"
)

func TestDryRun(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("us", "trending", "US", "youtube")
	h.Acquire("us", api.AcquireRequest{Operation: "videos.list", Count: 5500})
	h.Clock.Add(time.Hour)
	h.Acquire("us", api.AcquireRequest{Operation: "search.list", Count: 39})

	ask := func(r api.AcquireRequest) api.Decision {
		t.Helper()
		r.Credential, r.DryRun = "youtube", true
		d, err := h.Client("").Acquire(t.Context(), r)
		if err != nil || !d.DryRun || d.GrantID != "" {
			t.Fatalf("got %+v, %v, want a dry run", d, err)
		}
		return d
	}
	d := ask(api.AcquireRequest{Operation: "search.list", Count: 2})
	if d.Granted || d.Reason != "limit_exceeded" || d.Limit != "search" || d.Fits != 1 || d.RetryAfterMs != 24*3_600_000 ||
		len(d.Missing) != 2 || d.Missing[0] != (quota.Shortage{Limit: "daily", Missing: 100}) {
		t.Errorf("got %+v, want it refused for a day, and 100 units missing in daily", d)
	}
	if d = ask(api.AcquireRequest{Operation: "videos.list", Count: 101}); d.Granted {
		t.Errorf("got %+v, want it denied", d)
	}
	if d = ask(api.AcquireRequest{Operation: "videos.list", Count: 101, UseReserve: true}); !d.Granted {
		t.Errorf("got %+v, want the reserve to have room: anybody may ask", d)
	}
	if d = ask(api.AcquireRequest{Operation: "videos.list"}); !d.Granted || d.Fits != 100 || d.KeyRefused != "" {
		t.Errorf("got %+v, want that it fits", d)
	}
	if d = ask(api.AcquireRequest{Operation: "videos.list", Count: 9501}); d.Reason != "cost_exceeds_limit" || d.RetryAt != nil {
		t.Errorf("got %+v, want that it never fits", d)
	}

	// It says what else is in the way: a key that is refused, and a limit that is closed.
	badKey := api.Observation{Operation: "videos.list", Status: 401}
	if _, err := h.Client("us").Observe(t.Context(), badKey); err != nil {
		t.Fatal(err)
	}
	if d = ask(api.AcquireRequest{Operation: "videos.list"}); !d.Granted || d.KeyRefused != "401 Unauthorized" {
		t.Errorf("got %+v, want that the key is refused", d)
	}
	gone := api.Observation{Operation: "videos.list", Status: 429, Header: "Retry-After: 90000"}
	if _, err := h.Client("us").Observe(t.Context(), gone); err != nil {
		t.Fatal(err)
	}
	if d = ask(api.AcquireRequest{Operation: "videos.list"}); d.Reason != "limit_closed" || len(d.Missing) != 1 || d.Missing[0].Closed.IsZero() {
		t.Errorf("got %+v, want that a limit is closed", d)
	}
	if _, err := h.Client("us").Acquire(t.Context(), api.AcquireRequest{Operation: "videos.list", DryRun: true, Job: "charts"}); err == nil {
		t.Error("a pass asks for another job")
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
		booked, err := client.Book(t.Context(), "youtube", quota.Booking{Limit: "daily", Units: 50, Note: "by hand"})
		if err != nil || booked.Limit != "daily" || booked.Units != 50 || booked.Credential.Limits[0].Used != used {
			t.Errorf("booking %d: got %+v, %v, want 50 booked and %d used", i, booked, err, used)
		}
		last = booked.GrantID
	}
	if d, err := client.Settle(t.Context(), last, 20); err != nil || d.Limits[0].Used != 170 {
		t.Errorf("got %+v, %v, want the last booking corrected to 20 units", d, err)
	}
	for _, units := range []quota.Units{0, -30} { // a grant is settled
		var p *api.Problem
		_, err := client.Book(t.Context(), "youtube", quota.Booking{Limit: "daily", Units: units})
		if !errors.As(err, &p) || p.Reason != quota.BadRequest || !strings.Contains(p.Detail, "settle it") {
			t.Errorf("%d booked: %v, want that it is refused, and to settle the grant", units, err)
		}
	}

	shut, err := client.CloseLimit(t.Context(), "youtube", api.Closing{Limit: "search", Until: "3h", Note: "for the demo"})
	at := h.Clock.Now().Add(3 * time.Hour)
	if err != nil || !shut.Changed || shut.Closed == nil || shut.Closed.Says != "for the demo" || !shut.Closed.Until.Equal(at) {
		t.Errorf("closed: got %+v, %v, want it closed for 3 h with its note", shut, err)
	}
	shut, err = client.CloseLimit(t.Context(), "youtube", api.Closing{Limit: "search", Open: true})
	if err != nil || !shut.Changed || shut.Closed != nil {
		t.Errorf("opened: got %+v, %v", shut, err)
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
	if want := "acquire youtube @0, book youtube @0, book youtube @0, settle youtube @0, book youtube @0, book youtube @0, close youtube @0, open youtube @0, reset youtube @0"; strings.Join(verbs, ", ") != want {
		t.Errorf("observed %v, want %s", verbs, want)
	}
}

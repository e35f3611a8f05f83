package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// The last acquires that were refused are remembered, whoever made them.
func TestDenials(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("us", "trending", "US", "youtube")
	for range 205 {
		h.Acquire("us", api.AcquireRequest{Operation: "search.list", Count: 41})
	}
	h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: strings.Repeat("x", 200)})
	h.Acquire("", api.AcquireRequest{Credential: "nobody", Operation: "list"})
	for range 2 { // granted, and replayed
		h.Acquire("us", api.AcquireRequest{Operation: "videos.list", RequestID: "page-1"})
	}
	h.Config.Denials.Record(server.Decided{Verb: "acquire", Err: context.Canceled}) // its caller went away
	all, err := h.Client("").Log(t.Context(), api.LogQuery{Denied: true})
	if err != nil || len(all.Entries) != 200 {
		t.Fatalf("got %d, %v, want the last 200", len(all.Entries), err)
	}
	first, last := all.Entries[0], all.Entries[199]
	if first.By != "trending" || first.Region != "US" || first.Reason != "cost_exceeds_limit" || first.Units != 4_100 || first.Limit != "search" || first.Kind != api.Denied {
		t.Errorf("got %+v", first)
	}
	if last.Credential != "nobody" || last.Reason != "unknown_credential" || len(all.Entries[198].Operation) != 64 {
		t.Errorf("got %+v, %+v", all.Entries[198], last)
	}
	if one, err := h.Client("").Log(t.Context(), api.LogQuery{Denied: true, Credential: "nobody"}); err != nil || len(one.Entries) != 1 {
		t.Errorf("got %+v, %v, want those of one credential", one, err)
	}
}

func TestUsage(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("us", "trending", "US", "youtube")
	h.Acquire("us", api.AcquireRequest{Operation: "search.list"})
	h.Clock.Add(90 * time.Minute)
	h.Acquire("us", api.AcquireRequest{Operation: "videos.list", Count: 3})
	h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "videos.list"})
	h.Clock.Add(time.Minute)

	u, err := h.Client("").Usage(t.Context(), "youtube", api.UsageQuery{})
	servertest.Must(t, err)
	if u.By != "job" || !u.Until.Equal(h.Clock.Now()) || u.Until.Sub(u.Since).Round(time.Millisecond) != 24*time.Hour || u.Total.Units != 104 || u.Total.Calls != 5 {
		t.Errorf("got %+v, want 104 units of the last day", u)
	}
	if len(u.Shares) != 2 || u.Shares[0].Name != "trending" || u.Shares[0].Units != 103 || u.Shares[1].Name != fmt.Sprintf("@%d", os.Getuid()) ||
		u.Shares[0].Limits["daily"] != 103 || u.Shares[0].Limits["search"] != 100 {
		t.Errorf("got %+v, want what the job spent, and the rest", u.Shares)
	}
	u, err = h.Client("").Usage(t.Context(), "youtube", api.UsageQuery{By: "day", Since: "1h"})
	if err != nil || len(u.Shares) != 1 || u.Shares[0].Name != "2026-11-21" || u.Shares[0].Units != 4 {
		t.Errorf("got %+v, %v, want the last hour", u, err)
	}
	if u, err = h.Client("").Usage(t.Context(), "other", api.UsageQuery{}); err != nil || u.Shares == nil {
		t.Errorf("got %+v, %v, want an empty list", u, err)
	}
	if _, err := h.Service.Reset(t.Context(), "youtube", quota.Caller{}, ""); err != nil {
		t.Fatal(err)
	}
	sent := h.Acquire("us", api.AcquireRequest{Operation: "videos.list"}).GrantID
	if _, err := h.Client("us").Release(t.Context(), sent); err != nil {
		t.Fatal(err)
	}
	u, err = h.Client("").Usage(t.Context(), "youtube", api.UsageQuery{})
	if err != nil || u.Total.Units != 0 || u.Total.Calls != 0 {
		t.Errorf("got %+v, %v, want neither what was before a reset, nor what was released", u, err)
	}
	u, err = h.Client("").Usage(t.Context(), "youtube", api.UsageQuery{Since: "2h"})
	if err != nil || u.Total.Units != 104 {
		t.Errorf("got %+v, %v, want with a since also what was before a reset", u, err)
	}
	_, err = h.Client("").Usage(t.Context(), "yuotube", api.UsageQuery{})
	if p := new(api.Problem); !errors.As(err, &p) || p.Reason != quota.UnknownCredential {
		t.Errorf("got %v, want that it is not configured", err)
	}
}

// Without a since, usage tells by limit what the status shows as used.
func TestUsageOfShortWindows(t *testing.T) {
	h := servertest.Start(t, nil)
	c := servertest.YouTube()
	c.Limits = append([]quota.Limit{{Name: "brief", Units: 1_000, Window: quota.Sliding(time.Minute)}}, c.Limits...)
	servertest.Must(t, h.Service.SetCredentials([]*quota.Credential{c}))
	h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "videos.list", Count: 98})
	h.Clock.Add(50 * time.Second)
	h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "videos.list", Count: 7})
	for _, brief := range []int64{105, 7, 0} {
		u, err := h.Client("").Usage(t.Context(), "youtube", api.UsageQuery{})
		if err != nil || u.Total.Limits["brief"] != brief || u.Total.Limits["daily"] != 105 || u.Total.Units != 105 || u.Total.Calls != 105 {
			t.Errorf("got %+v, %v; want %d units of brief and 105 of daily", u, err, brief)
		}
		if began := u.Until.Add(-time.Minute); u.Windows["brief"].Sub(began) != time.Microsecond || u.Until.Sub(u.Since).Round(time.Millisecond) != 24*time.Hour {
			t.Errorf("got %+v, want that brief began at %v, and the day 24 hours ago", u, began)
		}
		h.Clock.Add(50 * time.Second)
	}
	u, err := h.Client("").Usage(t.Context(), "youtube", api.UsageQuery{Since: "1h"})
	if err != nil || u.Total.Limits["brief"] != 105 || u.Windows != nil {
		t.Errorf("got %+v, %v; want the 105 units of the last hour", u, err)
	}
}

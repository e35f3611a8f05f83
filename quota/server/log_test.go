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
	for credential, want := range map[string]int{"nobody": 1, "youtube": 199} {
		q := api.LogQuery{Denied: true, Credential: credential}
		if one, err := h.Client("").Log(t.Context(), q); err != nil || len(one.Entries) != want {
			t.Errorf("got %d of %s, %v, want %d, however often they are read", len(one.Entries), credential, err, want)
		}
	}
}

// Usage says who spent what: without a since, of each limit what the status shows as used.
func TestUsage(t *testing.T) {
	h := servertest.Start(t, nil)
	youtube := servertest.YouTube()
	youtube.Limits = append([]quota.Limit{{Name: "brief", Units: 1_000, Window: quota.Sliding(time.Minute)}}, youtube.Limits...)
	servertest.Must(t, h.Service.SetCredentials([]*quota.Credential{youtube, servertest.Other()}))
	h.Tokens.Issue("us", "trending", "US", "youtube")
	own := fmt.Sprintf("@%d", os.Getuid())
	wants := func(credential string, q api.UsageQuery, want string) {
		t.Helper()
		u, err := h.Client("").Usage(t.Context(), credential, q)
		servertest.Must(t, err)
		got := fmt.Sprintf("%v by %s: %d in %d calls", u.Until.Sub(u.Since).Round(time.Millisecond), u.By, u.Total.Units, u.Total.Calls)
		for _, s := range append(u.Shares, u.Total) {
			got += fmt.Sprintf("; %s %v", strings.Replace(s.Name, own, "@", 1), s.Limits)
		}
		if got != want || u.Shares == nil {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		if began, known := u.Windows["brief"]; known != (credential == "youtube" && q.Since == "") ||
			q.By == "region" && began.Sub(h.Clock.Now().Add(-time.Minute)) != time.Microsecond {
			t.Errorf("got %+v, want that brief began a minute ago, or nothing of it", u)
		}
	}
	acquire := func(token, operation string, count int64) string {
		return h.Acquire(token, api.AcquireRequest{Credential: "youtube", Operation: operation, Count: count}).GrantID
	}
	acquire("us", "search.list", 1)
	h.Clock.Add(90 * time.Minute)
	acquire("us", "videos.list", 3)
	acquire("", "videos.list", 1)
	wants("youtube", api.UsageQuery{}, "24h0m0s by job: 104 in 5 calls; trending map[brief:3 daily:103 search:100]; @ map[brief:1 daily:1]; "+
		" map[brief:4 daily:104 search:100]")
	h.Clock.Add(50 * time.Second)
	acquire("", "videos.list", 7)
	h.Clock.Add(20 * time.Second)
	wants("youtube", api.UsageQuery{By: "region"}, "24h0m0s by region: 111 in 12 calls; US map[daily:103 search:100];  map[brief:7 daily:8]; "+
		" map[brief:7 daily:111 search:100]")
	wants("youtube", api.UsageQuery{By: "day", Since: "1h"}, "1h0m0s by day: 11 in 11 calls; 2026-11-21 map[brief:11 daily:11];  map[brief:11 daily:11 search:0]")
	wants("other", api.UsageQuery{}, "1m0s by job: 0 in 0 calls;  map[few:0]")

	_, err := h.Service.Reset(t.Context(), "youtube", quota.Caller{}, "")
	servertest.Must(t, err)
	_, err = h.Client("us").Release(t.Context(), acquire("us", "videos.list", 1))
	servertest.Must(t, err)
	wants("youtube", api.UsageQuery{}, "24h0m0s by job: 0 in 0 calls;  map[brief:0 daily:0 search:0]")
	wants("youtube", api.UsageQuery{By: "operation", Since: "2h"}, "2h0m0s by operation: 111 in 12 calls; search.list map[brief:100 daily:100 search:100]; "+
		"videos.list map[brief:11 daily:11];  map[brief:111 daily:111 search:100]")
	_, err = h.Client("").Usage(t.Context(), "yuotube", api.UsageQuery{})
	if p := new(api.Problem); !errors.As(err, &p) || p.Reason != quota.UnknownCredential {
		t.Errorf("got %v, want that it is not configured", err)
	}
}

package server_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server/servertest"
)

// logOf returns a page as "operation units by region note" lines.
func logOf(h *servertest.Server, q api.LogQuery) (lines []string, page api.LogPage) {
	h.T.Helper()
	q.Credential = "youtube"
	page, err := h.Client("").Log(context.Background(), q)
	if err != nil {
		h.T.Fatal(err)
	}
	for _, e := range page.Entries {
		lines = append(lines, fmt.Sprintf("%s %d %s %s %s", cmp.Or(e.Operation, e.Kind), e.Units, e.By, e.Region, e.Note))
	}
	return lines, page
}

// placeOf returns where a page continues behind an entry.
func placeOf(e api.Entry) string { return strconv.FormatInt(e.At.UnixMicro(), 10) }

func TestLog(t *testing.T) {
	h := servertest.Start(t, nil)
	if got := h.Dial().Call("GET", "/v1/log?credential=youtube", ""); got.Body != `{"entries":[]}`+"\n" {
		t.Errorf("of an empty log: %s", got.Body)
	}
	h.Tokens.Issue("us", "trending", "US", "youtube")
	search := h.Acquire("us", api.AcquireRequest{Operation: "search.list"}).GrantID
	h.Clock.Add(time.Hour)
	h.Acquire("us", api.AcquireRequest{Operation: "videos.list", Count: 3})
	h.Clock.Add(time.Hour)
	if _, err := h.Client("us").Settle(t.Context(), search, 40); err != nil {
		t.Fatal(err)
	}
	settled := "settlement 0 trending US "
	all := []string{"search.list 40 trending US ", "videos.list 3 trending US ", settled}

	got, page := logOf(h, api.LogQuery{})
	if !slices.Equal(got, all) || page.Next != "" {
		t.Errorf("got %q and then %q, want %q", got, page.Next, all)
	}
	first := page.Entries[0]
	if first.ID != search || first.Count != 1 || !first.At.Equal(h.Clock.Now().Add(-2*time.Hour)) {
		t.Errorf("got %+v, want the grant %s", first, search)
	}
	if want := []api.Charge{{Limit: "daily", Units: 40, Debited: 100}, {Limit: "search", Units: 40, Debited: 100}}; !slices.Equal(first.Charges, want) {
		t.Errorf("got %v, want %v", first.Charges, want)
	}
	if page.Entries[2].Charges == nil {
		t.Error("no charges are an empty list, not null")
	}
	for _, row := range []struct {
		name  string
		query api.LogQuery
		want  []string
	}{
		{"newest first", api.LogQuery{Newest: true}, []string{all[2], all[1], all[0]}},
		{"the newest", api.LogQuery{Newest: true, Most: 1}, all[2:]},
		{"behind an entry", api.LogQuery{After: placeOf(first)}, all[1:]},
		{"since an hour", api.LogQuery{Since: "61m"}, all[1:]},
		{"since a day", api.LogQuery{Since: "1d"}, all},
		{"since an instant", api.LogQuery{Since: h.Clock.Now().Format(time.RFC3339)}, all[2:]},
		{"behind the last", api.LogQuery{After: placeOf(page.Entries[2])}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			h.T = t
			if got, _ := logOf(h, row.query); !slices.Equal(got, row.want) {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
	var pages []string
	for q := (api.LogQuery{Most: 2}); ; {
		lines, page := logOf(h, q)
		pages = append(pages, lines...)
		if page.Next == "" {
			break
		}
		q.After = page.Next
	}
	if !slices.Equal(pages, all) {
		t.Errorf("in pages: got %q, want %q", pages, all)
	}
}

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
	if err != nil {
		t.Fatal(err)
	}
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
	if err := h.Service.SetCredentials([]*quota.Credential{c}); err != nil {
		t.Fatal(err)
	}
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

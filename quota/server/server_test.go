package server_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// Each decision is reported with its caller, and the record of a pass has it.
func TestEveryDecisionIsReported(t *testing.T) {
	h := servertest.Start(t, func(c *server.Config) { c.AdminGroup = servertest.OwnGroup(t) })
	h.Tokens.Issue("secret", "fetch", "US", "other")
	client, ctx := h.Client(""), t.Context()
	grant := h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "videos.list", RequestID: "a", Optional: true})
	h.Acquire("", api.AcquireRequest{Credential: "vimeo", Operation: "videos.list"})
	client.Release(ctx, grant.GrantID)
	for range 3 {
		h.Acquire("secret", api.AcquireRequest{Operation: "get"})
	}
	client.Book(ctx, "youtube", quota.Booking{Limit: "daily", Units: 5})
	client.CloseLimit(ctx, "youtube", api.Closing{Limit: "daily", Until: "3h"})
	client.CloseLimit(ctx, "youtube", api.Closing{Limit: "daily", Open: true})
	client.Reset(ctx, "youtube", "a new day")
	var got []string
	for _, e := range h.Events() {
		by := strings.Replace(e.Request.Caller.By(), fmt.Sprint("@", os.Getuid()), "@", 1)
		got = append(got, fmt.Sprint(e.Verb, " ", e.Request.Credential, " ", by, " ", e.Request.Caller.Region, " ", e.Result()))
		if e.PID != os.Getpid() {
			t.Errorf("%s is by process %d", e.Verb, e.PID)
		}
	}
	const want = `acquire youtube @  granted
acquire vimeo @  unknown_credential
release youtube @  granted
acquire other fetch US granted
acquire other fetch US granted
acquire other fetch US limit_exceeded
book youtube @  granted
close youtube @  granted
open youtube @  granted
reset youtube @  granted`
	first := h.Events()[0].Request
	if strings.Join(got, "\n") != want || first.RequestID != "a" || !first.Optional || h.Events()[2].GrantID != grant.GrantID {
		t.Errorf("got %q, want %q", got, want)
	}
	if decided := h.Tokens.Pass("secret").Decisions; len(decided) != 3 || !decided[1].Granted() || decided[2].Reason != quota.LimitExceeded {
		t.Errorf("the record has %+v, want two grants and a denial", decided)
	}
}

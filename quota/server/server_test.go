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
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A failing ledger answers everything with an error.
type failing struct {
	*ledgertest.Model
	err error
}

func (f failing) Acquire(context.Context, *quota.Credential, quota.Ask) (quota.Decision, error) {
	return quota.Decision{}, f.err
}

func (f failing) Peek(context.Context, *quota.Credential, []string, []quota.Charge, bool) (quota.Decision, error) {
	return quota.Decision{}, f.err
}

func (f failing) Settle(context.Context, *quota.Credential, quota.Settlement) (quota.Decision, error) {
	return quota.Decision{}, f.err
}

func (f failing) Book(context.Context, *quota.Credential, quota.Booking) (quota.Decision, error) {
	return quota.Decision{}, f.err
}

func (f failing) Reset(context.Context, *quota.Credential, quota.Caller, string) error {
	return f.err
}

func (f failing) Usage(context.Context, *quota.Credential) (quota.Usage, error) {
	return quota.Usage{}, f.err
}

func (f failing) Log(context.Context, *quota.Credential, quota.LogQuery) (quota.LogPage, error) {
	return quota.LogPage{}, f.err
}

func (f failing) Health(context.Context) quota.Health {
	return quota.Health{Backend: "redis", State: "unreachable"}
}

// What keeps a ledger from answering is 503 with its reason on every route, and says when to come again, from the first
// answer on.
func TestLedgerUnavailable(t *testing.T) {
	h := servertest.Start(t, func(c *server.Config) {
		lost := fmt.Errorf("%w: it was flushed", quota.ErrLost)
		c.Service = servertest.NewService(t, failing{ledgertest.NewModel(time.Now), lost}, servertest.YouTube())
		c.AdminGroup = servertest.OwnGroup(t)
	})
	for _, row := range []struct{ method, path, body, reason string }{
		{"POST", "/v1/acquire", "credential=youtube&operation=videos.list", "recovering"},
		{"POST", "/v1/grants/youtube:ABCDEFGHIJKLMNOP/settle", "units=1", "recovering"},
		{"DELETE", "/v1/grants/youtube:ABCDEFGHIJKLMNOP", "", "recovering"},
		{"GET", "/v1/log?credential=youtube", "", "recovering"},
		{"POST", "/v1/acquire", "credential=youtube&operation=videos.list&dry_run=true", "recovering"},
		{"POST", "/v1/credentials/youtube/book", "limit=daily&units=1", "recovering"},
		{"POST", "/v1/credentials/youtube/reset", "confirm=youtube", "recovering"},
		{"GET", "/readyz", "", "ledger_unavailable"}, // it says how the ledger is
	} {
		got := h.Dial().Call(row.method, row.path, row.body, servertest.Form)
		if got.Status != 503 || got.Text("reason") != row.reason || got.Header.Get("Retry-After") != "1" {
			t.Errorf("%s %s: %d, Retry-After %q, %s", row.method, row.path, got.Status, got.Header.Get("Retry-After"), got.Body)
		}
	}
	if got := h.Dial().Call("GET", "/healthz", ""); got.Status != 200 {
		t.Errorf("healthz: %d, want 200", got.Status)
	}
	status, err := h.Client("").Status(t.Context())
	if err != nil || status.Ledger.State != "unreachable" || status.Credentials[0].Error == "" {
		t.Errorf("status: %+v, %v", status, err)
	}
	_, err = h.Client("").Acquire(t.Context(), api.AcquireRequest{Credential: "youtube", Operation: "videos.list"})
	if !errors.Is(err, api.ErrLedgerUnavailable) || errors.Is(err, api.ErrUnreachable) {
		t.Errorf("the client says %v, want ErrLedgerUnavailable", err)
	}
}

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

package server_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/clientlimit"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A clientScene is a server with the clients public, with 3 units a minute and 5 an hour,
// and closed, which are refused while the ledger is away.
type clientScene struct {
	*servertest.Server
	ledger  *ledgertest.ClientStore
	service *clientlimit.Service
}

func clientsServed(t *testing.T, edit func(*server.Config)) *clientScene {
	t.Helper()
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	s := &clientScene{ledger: ledgertest.NewClientStore(clock.Now)}
	s.service = clientlimit.NewService(nil)
	if err := s.service.SetClients(s.ledger, "", []*clientlimit.Clients{
		{Name: "public", Algorithm: clientlimit.Log, OpenOnOutage: true, Operations: map[string]quota.Units{"search": 2}, Limits: []quota.Limit{
			{Name: "minute", Units: 3, Window: quota.Sliding(time.Minute)},
			{Name: "hour", Units: 5, Window: quota.Sliding(time.Hour)},
			{Name: "watched", Units: 2, Window: quota.Sliding(2 * time.Hour), DryRun: true},
		}},
		{Name: "closed", Algorithm: clientlimit.Counter, Limits: []quota.Limit{{Name: "default", Units: 3, Window: quota.Sliding(time.Minute)}}},
	}); err != nil {
		t.Fatal(err)
	}
	s.Server = servertest.Start(t, func(c *server.Config) {
		c.Clients = s.service
		if edit != nil {
			edit(c)
		}
	})
	s.Clock = clock
	return s
}

// Both kinds of answers have the RateLimit fields. A denial says when the call fits.
func TestClientAnswers(t *testing.T) {
	h := clientsServed(t, nil)
	wire := h.Dial()
	wire.Call("POST", "/v1/clients/public/acquire", "subject=alice&operation=search", servertest.Form)
	h.Clock.Add(20*time.Second + 500*time.Millisecond)
	got := wire.Call("POST", "/v1/clients/public/acquire", `{"subject":"alice","count":1}`, servertest.JSON)
	answers(t, got, map[string]string{"granted": "true", "units": "1", "remaining": "0", "now": "2026-11-21T09:00:20.5Z", "would_deny": "[map[limit:watched missing:1]]"}, map[string]string{
		"RateLimit-Policy": `"minute";q=3;w=60, "hour";q=5;w=3600`,
		"RateLimit":        `"minute";r=0;t=40, "hour";r=2;t=3580`, // half a second less, rounded up
		"Retry-After":      "",
	})
	if _, has := got.Fields["grant_id"]; has || got.Status != 200 {
		t.Errorf("got %d %s, want no grant id", got.Status, got.Body)
	}
	got = wire.Call("POST", "/v1/clients/public/acquire", "subject=alice&operation=search", servertest.Form)
	answers(t, got, map[string]string{
		"status": "429", "type": "https://iana.org/assignments/http-problem-types#quota-exceeded", "granted": "false", "reason": "limit_exceeded",
		"limit": "minute", "requested": "2", "remaining": "0", "retry_after_ms": "39500", "retry_at": "2026-11-21T09:01:00Z",
	}, map[string]string{"Content-Type": "application/problem+json", "Retry-After": "40", "RateLimit": `"minute";r=0;t=40, "hour";r=2;t=3580`})
	h.Clock.Add(39*time.Second + 500*time.Millisecond)
	if late := wire.Call("POST", "/v1/clients/public/acquire", "subject=alice&operation=search", servertest.Form); late.Status != 200 {
		t.Errorf("in time: %d %s", late.Status, late.Body)
	}
}

// subjectOf reads the state of a subject.
func subjectOf(h *clientScene, clients, subject string) (api.SubjectState, error) {
	return api.Ask[api.SubjectState](h.T.Context(), h.Client(""), "GET", api.Path("clients", clients, "subject"), url.Values{"subject": {subject}})
}

// A form takes a subject of any bytes; JSON says what is to be done.
func TestSubjectsOfAnyBytes(t *testing.T) {
	h := clientsServed(t, nil)
	wire := h.Dial()
	for _, subject := range []string{"\xff\xfe", "a\x00b\n", "ü", strings.Repeat("\xff", 300), "a b", "%", "#", "="} {
		form := url.Values{"subject": {subject}}.Encode()
		for _, status := range []int{200, 429} {
			if got := wire.Call("POST", "/v1/clients/public/acquire", form+"&count=3", servertest.Form); got.Status != status {
				t.Errorf("%.20q: %d %s, want %d", subject, got.Status, got.Body, status)
			}
		}
		state, err := subjectOf(h, "public", subject)
		if err != nil || state.Limits[0].Used != 3 {
			t.Errorf("%.20q: %+v, %v", subject, state, err)
		}
	}
}

func TestClientsDuringAnOutage(t *testing.T) {
	h := clientsServed(t, nil)
	h.ledger.Fail(quota.ErrUnavailable)
	wire := h.Dial()
	open := wire.Call("POST", "/v1/clients/public/acquire", "subject=alice&count=3", servertest.Form)
	if open.Status != 200 || open.Text("mode") != "outage" || open.Text("units") != "3" || open.Header.Get("RateLimit") != "" || open.Header.Get("Quotad-Mode") != "outage" {
		t.Errorf("open: %d %s", open.Status, open.Body)
	}
	closed := wire.Call("POST", "/v1/clients/closed/acquire", "subject=alice", servertest.Form)
	if closed.Status != 503 || closed.Text("reason") != "ledger_unavailable" || closed.Header.Get("Retry-After") != "1" {
		t.Errorf("closed: %d %s", closed.Status, closed.Body)
	}
	if _, err := h.Client("").AcquireClient(context.Background(), "closed", api.ClientRequest{Subject: "alice"}); !errors.Is(err, api.ErrLedgerUnavailable) {
		t.Errorf("closed: %v", err)
	}
	if d, err := h.Client("").AcquireClient(context.Background(), "public", api.ClientRequest{Subject: "alice"}); err != nil || d.Mode != "outage" {
		t.Errorf("open: %+v, %v", d, err)
	}
}

func TestClientsAreTold(t *testing.T) {
	var resets []server.ClientReset
	h := clientsServed(t, func(c *server.Config) {
		c.AdminGroup = servertest.OwnGroup(t)
		c.Emit = func(event any) {
			if r, reset := event.(server.ClientReset); reset {
				resets = append(resets, r)
			}
		}
	})
	ctx, client := context.Background(), h.Client("")
	for range 5 {
		if _, err := client.AcquireClient(ctx, "public", api.ClientRequest{Subject: "192.0.2.1"}); err != nil {
			t.Fatal(err)
		}
	}
	state, err := subjectOf(h, "public", "::ffff:192.0.2.1")
	if err != nil || len(state.Hash) != 32 || len(state.Limits) != 3 || state.Limits[0].Used != 3 || state.Limits[0].NextUnitsAt == nil {
		t.Errorf("the subject: %+v, %v", state, err)
	}
	state, err = api.Ask[api.SubjectState](ctx, client, "DELETE", "/v1/clients/public/subject", url.Values{"subject": {"192.0.2.1"}})
	if err != nil || state.Name != "public" || state.Limits[0].Used != 0 {
		t.Errorf("reset: %+v, %v", state, err)
	}
	if d, err := client.AcquireClient(ctx, "public", api.ClientRequest{Subject: "192.0.2.1", Count: 3}); err != nil || !d.Granted {
		t.Errorf("after the reset: %+v, %v", d, err)
	}
	if len(resets) != 1 || resets[0].Clients != "public" || resets[0].Caller.UID != os.Getuid() {
		t.Errorf("resets: %+v", resets)
	}
	var p *api.Problem
	if _, err := subjectOf(h, "pubilc", "a"); !errors.As(err, &p) || p.Reason != quota.UnknownClients || p.Hint != "did you mean public?" {
		t.Errorf("got %v", err)
	}
}

package server_test

import (
	"context"
	"slices"
	"testing"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

func TestSettleAndRelease(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "trending", "US", "youtube")
	client := h.Client("secret")
	grant := h.Acquire("secret", api.AcquireRequest{Operation: "search.list"})

	d, err := client.Settle(context.Background(), grant.GrantID, 30)
	if err != nil || !d.Granted || d.Units != 30 || d.GrantID != grant.GrantID {
		t.Fatalf("settle: %+v, %v", d, err)
	}
	if used := h.Used("youtube"); used != 30 {
		t.Errorf("used %d after settling to 30", used)
	}
	if d, err = client.Release(context.Background(), grant.GrantID); err != nil || !d.Granted {
		t.Fatalf("release: %+v, %v", d, err)
	}
	if used := h.Used("youtube"); used != 0 {
		t.Errorf("used %d after the release", used)
	}
	want := []string{grant.GrantID + "=30", grant.GrantID + "=0"}
	if got := h.Tokens.Pass("secret").Settled; !slices.Equal(got, want) {
		t.Errorf("the pass's record has %v, want %v", got, want)
	}
}

func TestSettleRefusals(t *testing.T) {
	h := servertest.Start(t, func(c *server.Config) { c.AdminGroup = "quotad-test-nobody" })
	h.Tokens.Issue("secret", "trending", "US", "youtube")
	grant := h.Acquire("secret", api.AcquireRequest{Operation: "search.list"}).GrantID
	foreign := h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "search.list"}).GrantID
	proxied, err := server.AcquireByToken(context.Background(), h.Service, h.Tokens, "secret", quota.Request{
		Credential: "youtube", Operation: "search.list", Count: 1, Proxied: true, Caller: h.Tokens.Pass("secret").Bearer.Caller,
	})
	if err != nil {
		t.Fatal(err)
	}
	token := "Authorization: Bearer secret"
	for _, row := range []struct {
		name, path, body string
		status           int
		reason           quota.Reason
	}{
		{"no units", "/v1/grants/" + grant + "/settle", "", 400, quota.BadRequest},
		{"below zero", "/v1/grants/" + grant + "/settle", "units=-1", 400, quota.BadRequest},
		{"a fraction", "/v1/grants/" + grant + "/settle", "units=0.5", 400, quota.BadRequest},
		{"2^53", "/v1/grants/" + grant + "/settle", "units=9007199254740992", 400, quota.BadRequest},
		{"unknown field", "/v1/grants/" + grant + "/settle", "units=1&note=x", 400, quota.BadRequest},
		{"another's grant", "/v1/grants/" + foreign + "/settle", "units=1", 403, quota.Forbidden},
		{"the proxy's grant", "/v1/grants/" + proxied.GrantID + "/settle", "units=0", 403, quota.Forbidden},
		{"no grant", "/v1/grants/nonsense/settle", "units=1", 403, quota.Forbidden},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := h.Dial().Call("POST", row.path, row.body, servertest.Form, token)
			if got.Status != row.status || got.Text("reason") != string(row.reason) {
				t.Errorf("got %d %s, want %d %s", got.Status, got.Body, row.status, row.reason)
			}
			if used := h.Used("youtube"); used != 300 {
				t.Errorf("used %d, want 300 as before", used)
			}
		})
	}
}

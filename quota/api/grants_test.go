package api_test

import (
	"context"
	"slices"
	"testing"

	"quotad/quota"
	"quotad/quota/api"
)

func TestSettleAndRelease(t *testing.T) {
	h := open(t, nil)
	h.tokens.issue("secret", "trending", "US", "youtube")
	client := h.client("secret")
	grant := h.acquire("secret", api.AcquireRequest{Operation: "search.list"})

	d, err := client.Settle(context.Background(), grant.GrantID, 30)
	if err != nil || !d.Granted || d.Units != 30 || d.GrantID != grant.GrantID {
		t.Fatalf("settle: %+v, %v", d, err)
	}
	if used := h.used("youtube"); used != 30 {
		t.Errorf("used %d after settling to 30", used)
	}
	if d, err = client.Release(context.Background(), grant.GrantID); err != nil || !d.Granted {
		t.Fatalf("release: %+v, %v", d, err)
	}
	if used := h.used("youtube"); used != 0 {
		t.Errorf("used %d after the release", used)
	}
	want := []string{grant.GrantID + "=30", grant.GrantID + "=0"}
	if got := h.tokens.pass("secret").settled; !slices.Equal(got, want) {
		t.Errorf("the pass's record has %v, want %v", got, want)
	}
}

func TestSettleRefusals(t *testing.T) {
	h := open(t, func(c *api.Config) { c.AdminGroup = "quotad-test-nobody" })
	h.tokens.issue("secret", "trending", "US", "youtube")
	grant := h.acquire("secret", api.AcquireRequest{Operation: "search.list"}).GrantID
	foreign := h.acquire("", api.AcquireRequest{Credential: "youtube", Operation: "search.list"}).GrantID
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
		{"no grant", "/v1/grants/nonsense/settle", "units=1", 403, quota.Forbidden},
	} {
		t.Run(row.name, func(t *testing.T) {
			got := h.dial().call("POST", row.path, row.body, asForm, token)
			if got.status != row.status || got.text("reason") != string(row.reason) {
				t.Errorf("got %d %s, want %d %s", got.status, got.body, row.status, row.reason)
			}
			if used := h.used("youtube"); used != 200 {
				t.Errorf("used %d, want 200 as before", used)
			}
		})
	}
}

package server_test

import (
	"strings"
	"testing"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server/servertest"
)

// A pass tells of the calls of its own credential, also of those that the proxy sends for
// it; what it heard is noted with its token.
func TestObserveOfAPass(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "trending", "US", "youtube")
	grant := h.Acquire("secret", api.AcquireRequest{Operation: "search.list"})
	client := h.Client("secret")
	for _, row := range []struct {
		name string
		in   api.Observation
		want quota.Reason
		says string
	}{
		{"another credential", api.Observation{Credential: "other", Operation: "get", Status: 429}, quota.Forbidden, "spends from another credential"},
		{"a grant of another credential", api.Observation{GrantID: "other:ABCDEFGHIJKLMNOP", Status: 429}, quota.Forbidden, "spends from another credential"},
		{"a grant that is not known", api.Observation{GrantID: "youtube:ABCDEFGHIJKLMNOP", Status: 429}, quota.UnknownGrant, "is not in the log"},
		{"a grant that is none", api.Observation{GrantID: "youtube", Status: 429}, quota.UnknownGrant, "is not in the log"},
		{"neither operation nor grant", api.Observation{Status: 429}, quota.BadRequest, "name the operation, or the grant"},
		{"both", api.Observation{Operation: "search.list", GrantID: grant.GrantID, Status: 429}, quota.BadRequest, "one of them"},
		{"a body of 10 MB", api.Observation{Operation: "search.list", Status: 429, Body: strings.Repeat("x", 10<<20)}, quota.BadRequest, "bytes"},
		{"a long body", api.Observation{Operation: "search.list", Status: 429, Body: strings.Repeat("x", 65<<10)}, quota.BadRequest, "the body has 66560 bytes, at most 65536 are read"},
		{"a header that is none", api.Observation{Operation: "search.list", Status: 429, Header: "<html>"}, quota.BadRequest, "the header is not lines of"},
	} {
		_, err := client.Observe(t.Context(), row.in)
		if p := api.ProblemFrom(err); p.Reason != row.want || !strings.Contains(p.Detail, row.says) {
			t.Errorf("%s: got %v, want %s: %s", row.name, err, row.want, row.says)
		}
	}
	if told := h.Tokens.Pass("secret").Observed; len(told) != 0 {
		t.Errorf("%q are noted of what was refused", told)
	}
	out, err := client.Observe(t.Context(), api.Observation{GrantID: grant.GrantID, Header: "HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\n"})
	if err != nil || out.Class != "minute" || out.Limit == "" || !out.Changed || out.Closed == nil || out.Closed.By != "trending" {
		t.Errorf("got %+v, %v, want a limit closed by the job", out, err)
	}
	if told := h.Tokens.Pass("secret").Observed; len(told) != 1 || told[0] != out.Limit {
		t.Errorf("%q are noted, want %s", told, out.Limit)
	}
	request := quota.Request{Credential: "youtube", Operation: "videos.list", Count: 1, Proxied: true}
	sent, err := h.Service.Acquire(t.Context(), request)
	h.Tokens.Decided("secret", request, sent, err)
	if err != nil || !sent.Granted() || h.Tokens.Owns("secret", sent.GrantID) {
		t.Fatalf("got %+v, %v, want a grant that is the proxy's to settle", sent, err)
	}
	if out, err = client.Observe(t.Context(), api.Observation{GrantID: sent.GrantID, Status: 200}); err != nil || out.Class != "ok" {
		t.Errorf("a call through the proxy: got %+v, %v, want it observed", out, err)
	}
	// The status that a caller names outranks that in the header, which may be of a proxy before.
	seen := api.Observation{Operation: "videos.list", Status: 401, Header: "HTTP/1.1 200 Connection established\r\n"}
	if out, err := client.Observe(t.Context(), seen); err != nil || out.Class != "key" {
		t.Errorf("got %+v, %v, want that of the status", out, err)
	}
}

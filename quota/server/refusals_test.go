package server_test

import (
	"context"
	"fmt"
	"testing"

	"quotad/quota/api"
	"quotad/quota/server/servertest"
)

// Refusals are told by their kind, the latest first; what was granted is not.
func TestRefusalsAreRemembered(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("us", "trending", "US", "youtube")
	ask := func(token, credential, operation string) {
		h.Acquire(token, api.AcquireRequest{Credential: credential, Operation: operation})
	}
	ask("us", "", "videos.list")
	for range 4 {
		ask("", "other", "get") // two fit
	}
	ask("us", "", "comments.list")

	got, err := h.Client("").Refusals(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Refusals) != 2 || got.Since.IsZero() {
		t.Fatalf("got %+v, want two kinds, and since when", got)
	}
	unknown, denied := got.Refusals[0], got.Refusals[1]
	if unknown.Reason != "unknown_operation" || unknown.By != "trending" || unknown.Region != "US" || unknown.Times != 1 || unknown.Detail == "" {
		t.Errorf("got %+v of the operation nobody knows", unknown)
	}
	if denied.Reason != "limit_exceeded" || denied.Limit != "few" || denied.Times != 2 || denied.Units != 1 || denied.RetryAt == nil ||
		denied.Credential != "other" || denied.Since.After(denied.At) {
		t.Errorf("got %+v of what did not fit", denied)
	}
}

// However many kinds of refusals callers make up, the latest are kept.
func TestRefusalsAreBounded(t *testing.T) {
	h := servertest.Start(t, nil)
	client := h.Client("")
	for i := range 550 {
		client.Acquire(t.Context(), api.AcquireRequest{Credential: "youtube", Operation: fmt.Sprintf("made.up%d", i)})
	}
	got, err := h.Client("").Refusals(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Refusals) != 500 {
		t.Fatalf("%d kinds are kept", len(got.Refusals))
	}
	for i, r := range got.Refusals {
		if want := fmt.Sprintf("made.up%d", 549-i); r.Operation != want {
			t.Fatalf("the refusal at %d is of %s, want %s", i, r.Operation, want)
		}
	}
}

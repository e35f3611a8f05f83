package server

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
)

// What the daemon warns of is for callers on its host.
func TestRemoteCallersAreNotWarned(t *testing.T) {
	health := quota.Health{State: "ok", Warnings: []string{"appendonly is no"}}
	for want, remote := range []*RemoteCaller{{Name: "shop"}, nil} {
		if got := (&Session{remote: remote}).ledger(health); len(got.Warnings) != want {
			t.Errorf("%v: got %+v, want %d warnings", remote, got, want)
		}
	}
}

// An entry of the log is told with all that it holds.
func TestEntryOf(t *testing.T) {
	at, three := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC), []quota.Charge{{Limit: "daily", Units: 3}}
	for _, row := range []struct {
		entry quota.Entry
		want  string
	}{
		{quota.Entry{At: at, By: "trending", Region: "US", Outage: true, Would: []string{"trial"}, Charges: three,
			Body: quota.Grant{Operation: "list", Count: 3}},
			`"kind":"grant","operation":"list","count":3,"by":"trending","region":"US","units":3,` +
				`"charges":[{"limit":"daily","units":3,"debited":3}],"would_deny":["trial"],"outage":true}`},
		{quota.Entry{At: at, By: "@0", Note: "gone", Body: quota.Changed{Limit: "daily", Until: at}},
			`"kind":"closing","by":"@0","units":0,"charges":[],"limit":"daily","until":"2026-11-21T09:00:00Z","note":"gone"}`},
	} {
		if got, err := json.Marshal(entryOf("youtube", row.entry)); err != nil || !strings.HasSuffix(string(got), row.want) {
			t.Errorf("got %s, %v, want %s", got, err, row.want)
		}
	}
}

// A caller loses its rights with its token.
func TestRemoteCallersAreReplaced(t *testing.T) {
	digest := func(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }
	remote := new(Remote)
	admit := func(token string) (*RemoteCaller, *api.Problem) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header = http.Header{"Authorization": {"bearer " + token}}
		r, problem := remote.admit(httptest.NewRecorder(), r)
		return remoteOf(r), problem
	}
	if c, problem := admit(""); c != nil || problem == nil {
		t.Errorf("nobody is known: got %v, %v", c, problem)
	}
	remote.SetCallers([]RemoteCaller{{Name: "shop", Tokens: [][sha256.Size]byte{digest("one"), digest("two")}}, {Name: "blog", Tokens: [][sha256.Size]byte{digest("three")}}})
	for token, want := range map[string]string{"one": "shop", "two": "shop", "three": "blog"} {
		if c, problem := admit(token); problem != nil || c.Name != want {
			t.Errorf("%s: got %v, %v", token, c, problem)
		}
	}
	remote.SetCallers([]RemoteCaller{{Name: "shop", Tokens: [][sha256.Size]byte{digest("two")}}})
	if c, _ := admit("one"); c != nil {
		t.Error("the old token is valid")
	}
}

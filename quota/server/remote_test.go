package server

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"quotad/quota/api"
)

// A caller has a rate: two seconds of it at once, and then one each time. A reload keeps what it has
// used. What is refused says when to ask again, and costs no other caller anything.
func TestRemoteCallersRate(t *testing.T) {
	remote, now := NewRemote(), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	callers := []RemoteCaller{{Name: "shop", Tokens: [][sha256.Size]byte{sha256.Sum256([]byte("one"))}, Rate: 5}, {Name: "blog"}}
	remote.SetCallers(callers)
	caller := func(i int) *RemoteCaller { return (*remote.callers.Load())[i] }
	for n := range 10 {
		if wait := caller(0).wait(now); wait != 0 {
			t.Errorf("request %d at once waits %v", n, wait)
		}
	}
	remote.SetCallers(callers)
	if wait := caller(0).wait(now); wait != 200*time.Millisecond {
		t.Errorf("one more waits %v, want 200ms", wait)
	}
	if wait := caller(0).wait(now.Add(200 * time.Millisecond)); wait != 0 {
		t.Errorf("in time it waits %v", wait)
	}
	for n := range 2 * DefaultRemoteRate {
		if wait := caller(1).wait(now); wait != 0 {
			t.Errorf("request %d of another waits %v", n, wait)
		}
	}
	if wait := caller(1).wait(now); wait == 0 {
		t.Error("a caller without a rate has none")
	}

	r := httptest.NewRequest("GET", "/", nil)
	r.Header = http.Header{"Authorization": {"Bearer one"}}
	caller(0).counts.free = time.Now().Add(time.Hour)
	w := httptest.NewRecorder()
	if _, problem := remote.admit(w, r); problem == nil || problem.Reason != api.Busy || w.Header().Get("Retry-After") == "" {
		t.Errorf("too many requests: got %v, Retry-After %q", problem, w.Header().Get("Retry-After"))
	}
}

// Every route in the table is one that there is.
func TestRemoteRoutesExist(t *testing.T) {
	s := &Server{}
	known := map[string]bool{}
	for _, r := range append(s.ownRoutes(), s.clientRoutes()...) {
		known[r.Method+" "+r.Path] = true
	}
	for _, route := range remoteRoutes {
		if !known[route] {
			t.Errorf("there is no route %s", route)
		}
	}
}

// A caller keeps its counts when callers are replaced, and loses its rights with its token.
func TestRemoteCallersAreReplaced(t *testing.T) {
	digest := func(token string) [sha256.Size]byte { return sha256.Sum256([]byte(token)) }
	remote := NewRemote()
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
	(&Session{remote: (*remote.callers.Load())[0]}).count(Granted)
	remote.SetCallers([]RemoteCaller{{Name: "shop", Tokens: [][sha256.Size]byte{digest("two")}}})
	if c, _ := admit("one"); c != nil {
		t.Error("the old token is valid")
	}
	if got := remote.State().Callers; len(got) != 1 || got[0].Granted != 1 || got[0].LastSeen == nil || got[0].Tokens != 1 {
		t.Errorf("got %+v", got)
	}
}

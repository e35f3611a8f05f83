package server

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"testing"

	"quotad/quota/api"
)

// Every route in the table is one that there is.
func TestRemoteRoutesExist(t *testing.T) {
	s := &Server{}
	known := map[string]bool{}
	for _, r := range s.ownRoutes() {
		known[r.Method+" "+r.Path] = true
	}
	for _, route := range remoteRoutes {
		if !known[route] {
			t.Errorf("there is no route %s", route)
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

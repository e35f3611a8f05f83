package server

import (
	"crypto/sha256"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"quotad/quota/api"
)

// Who called stands in what the proxy in front appended; what others sent is not believed.
func TestRemoteClientAddress(t *testing.T) {
	for _, row := range []struct{ name, behind, peer, forwarded, want string }{
		{"no proxy", "", "192.0.2.1:5", "198.51.100.1", "192.0.2.1"},
		{"the proxy", "127.0.0.1", "127.0.0.1:5", "198.51.100.1", "198.51.100.1"},
		{"the last one counts", "127.0.0.1", "127.0.0.1:5", "10.0.0.1, 198.51.100.1", "198.51.100.1"},
		{"with a port", "127.0.0.1", "127.0.0.1:5", "198.51.100.1:80", "198.51.100.1"},
		{"IPv6", "::1", "[::1]:5", "2001:db8::1", "2001:db8::1"},
		{"a mapped address", "127.0.0.1", "[::ffff:127.0.0.1]:5", "::ffff:198.51.100.1", "198.51.100.1"},
		{"nonsense", "127.0.0.1", "127.0.0.1:5", "198.51.100.1, unknown", "127.0.0.1"},
		{"nothing", "127.0.0.1", "127.0.0.1:5", "", "127.0.0.1"},
		{"another peer", "127.0.0.1", "127.0.0.2:5", "198.51.100.1", "127.0.0.2"},
	} {
		t.Run(row.name, func(t *testing.T) {
			behind, _ := netip.ParseAddr(row.behind)
			r := httptest.NewRequest("GET", "/", nil)
			r.RemoteAddr = row.peer
			r.Header.Set("X-Forwarded-For", row.forwarded)
			if got := NewRemote(behind).client(r); got.String() != row.want {
				t.Errorf("got %v, want %s", got, row.want)
			}
		})
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
	remote := NewRemote(netip.Addr{})
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

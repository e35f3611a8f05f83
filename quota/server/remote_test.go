package server

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"
	"time"

	"quotad/quota/api"
)

// A network that has no good token gets a few answers, then one every few seconds; others are
// answered, and what is remembered is bounded.
func TestWrongTokensWait(t *testing.T) {
	w := wrongTokens{free: make(map[netip.Prefix]time.Time)}
	now := time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	one := netip.MustParseAddr("192.0.2.1")
	for i := range wrongAtOnce {
		if wait := w.wait(one, now); wait != 0 {
			t.Errorf("the wrong token %d waits %v", i+1, wait)
		}
	}
	wait := w.wait(one, now)
	if wait != wrongEvery {
		t.Errorf("one more waits %v, want %v", wait, wrongEvery)
	}
	if again := w.wait(one, now.Add(wait-1)); again != 1 {
		t.Errorf("a moment too early it waits %v more, want 1ns", again)
	}
	if again := w.wait(one, now.Add(wait)); again != 0 {
		t.Errorf("in time it waits %v more", again)
	}
	if wait := w.wait(netip.MustParseAddr("192.0.2.2"), now); wait != 0 {
		t.Errorf("another address waits %v", wait)
	}
	for i := range wrongAtOnce + 1 { // of one network of IPv6
		wait = w.wait(netip.MustParseAddr(fmt.Sprintf("2001:db8::%x", i)), now)
	}
	if wait == 0 {
		t.Error("a network of IPv6 is answered for each of its addresses")
	}
	if other := w.wait(netip.MustParseAddr("2001:db8:0:1::1"), now); other != 0 {
		t.Errorf("another network waits %v", other)
	}
	for i := range 2 * maxWrong {
		w.wait(netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	if len(w.free) > maxWrong {
		t.Errorf("%d networks are remembered, want at most %d", len(w.free), maxWrong)
	}
	for i := 0; len(w.free) < maxWrong; i++ {
		w.wait(netip.AddrFrom4([4]byte{11, byte(i >> 16), byte(i >> 8), byte(i)}), now)
	}
	w.wait(netip.MustParseAddr("192.0.2.3"), now.Add(24*time.Hour))
	if len(w.free) != 1 {
		t.Errorf("a day later %d networks are remembered", len(w.free))
	}
	if w.total.Load() < 2*maxWrong {
		t.Errorf("%d are counted", w.total.Load())
	}
}

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

// A caller has a rate: two seconds of it at once, and then one each time. A reload keeps what it has
// used. What is refused says when to ask again, and costs no other caller anything.
func TestRemoteCallersRate(t *testing.T) {
	remote, now := NewRemote(netip.Addr{}), time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
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

package server_test

import (
	"context"
	"crypto/sha256"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/ledgertest"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A remote caller spends from the credentials and operations that the file lists for it, and changes its own
// grants alone. No answer names another caller. A caller loses its rights with its token.
func TestWhatARemoteCallerMay(t *testing.T) {
	clock := ledgertest.NewClock(time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC))
	youtube := servertest.YouTube()
	day := quota.Sliding(24 * time.Hour)
	youtube.Limits = append(youtube.Limits,
		quota.Limit{Name: "share", Units: 50, Window: day, Jobs: []string{"backfill", "remote/shop"}},
		quota.Limit{Name: "private", Units: 50, Window: day, Jobs: []string{"backfill"}})
	service := servertest.NewService(t, ledgertest.NewModel(clock.Now), youtube, servertest.Other())
	var told []server.Forbidden // of which the wire below makes one at a time
	h := clientsServed(t, func(c *server.Config) {
		c.Service = service
		c.Status = map[string]func(context.Context) any{"jobs": func(context.Context) any { return "backfill" }}
		c.Emit = func(event any) {
			if f, forbidden := event.(server.Forbidden); forbidden {
				told = append(told, f)
			}
		}
	})
	remote := new(server.Remote)
	caller := func(name string, tokens ...string) server.RemoteCaller {
		var digests [][sha256.Size]byte
		for _, token := range tokens {
			digests = append(digests, sha256.Sum256([]byte(token)))
		}
		return server.RemoteCaller{Name: name, Tokens: digests,
			Credentials: []string{"youtube"}, Operations: []string{"videos.list", "get"}, Clients: []string{"public"}}
	}
	frontend, listener, served := server.NewFrontend(server.FrontendConfig{Handler: h.Server.Remote(remote)}), servertest.TCP(t), make(chan error, 1)
	go func() { served <- frontend.Serve(listener) }()
	t.Cleanup(func() { frontend.Shutdown(servertest.Canceled()); <-served })
	conn, err := net.Dial("tcp", listener.Addr().String())
	servertest.Must(t, err)
	wire := servertest.NewConn(t, conn)
	shop := func(method, path, body string) servertest.Response {
		return wire.Call(method, path, body, servertest.Form, "Authorization: Bearer one")
	}

	if got := shop("GET", "/v1/status", ""); got.Status != 401 {
		t.Errorf("nobody is known: got %d %s", got.Status, got.Body)
	}
	remote.SetCallers([]server.RemoteCaller{caller("shop", "one", "next"), caller("blog", "two")})
	videos := "credential=youtube&operation=videos.list"
	roots := h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "videos.list"}).GrantID
	blogs := wire.Call("POST", "/v1/acquire", videos, servertest.Form, "Authorization: Bearer two").Text("grant_id")
	own := shop("POST", "/v1/acquire", videos).Text("grant_id")
	for _, row := range []struct {
		name, method, path, body string
		status                   int
	}{
		{"acquire", "POST", "/v1/acquire", videos, 200},
		{"acquire of its only credential", "POST", "/v1/acquire", "operation=videos.list", 200},
		{"acquire of another credential", "POST", "/v1/acquire", "credential=other&operation=get", 403},
		{"acquire of another operation", "POST", "/v1/acquire", "credential=youtube&operation=search.list", 403},
		{"ask for another job", "POST", "/v1/acquire", videos + "&dry_run=true&job=backfill", 403},
		{"use the reserve", "POST", "/v1/acquire", videos + "&use_reserve=true", 403},
		{"settle its own grant", "POST", "/v1/grants/" + own + "/settle", "units=1", 200},
		{"settle root's grant", "POST", "/v1/grants/" + roots + "/settle", "units=0", 403},
		{"release another caller's grant", "DELETE", "/v1/grants/" + blogs, "", 403},
		{"read the status", "GET", "/v1/status", "", 200},
		{"read the log", "GET", "/v1/log?credential=youtube", "", 403},
		{"list its routes", "GET", "/v1", "", 200},
		{"release what is no grant of another credential", "DELETE", "/v1/grants/other:ABCDEFGHIJKLMNOP", "", 403},
		{"ask about its clients", "POST", "/v1/clients/public/acquire", "subject=alice", 200},
		{"ask about other clients", "POST", "/v1/clients/closed/acquire", "subject=alice", 403},
		{"book", "POST", "/v1/credentials/youtube/book", "limit=daily&units=1", 403},
		{"observe for no grant", "POST", "/v1/observe", "credential=youtube&operation=videos.list&status=429", 403},
		{"observe for another's grant", "POST", "/v1/observe", "grant_id=" + roots + "&status=429", 403},
	} {
		got := shop(row.method, row.path, row.body)
		foreign := func(word string) bool { return strings.Contains(got.Body, word) }
		if got.Status != row.status || slices.ContainsFunc([]string{"backfill", "private", `"/v1/log"`, `"other"`}, foreign) {
			t.Errorf("%s: got %d %s, want %d without what is another's", row.name, got.Status, got.Body, row.status)
		}
	}
	for body, says := range map[string]string{
		videos + "&use_reserve=true":               "the reserve is not for remote callers",
		"credential=other&operation=get":           `remote caller \"shop\" may not spend from credential`,
		"credential=youtube&operation=search.list": `remote caller \"shop\" may not use operation`,
	} {
		if got := shop("POST", "/v1/acquire", body); !strings.Contains(got.Body, says) {
			t.Errorf("%s: got %s, want %s", body, got.Body, says)
		}
	}
	for name, headers := range map[string][]string{"no token": {}, "an unknown token": {"Authorization: Bearer three"}, "an empty token": {"Authorization: Bearer "}} {
		got := wire.Call("GET", "/v1/status", "", headers...)
		if got.Status != 401 || got.Header.Get("WWW-Authenticate") != "Bearer" ||
			told[len(told)-1].From == "" || told[len(told)-1].Route != "" {
			t.Errorf("%s: got %d %s, want 401", name, got.Status, got.Body)
		}
	}
	closing := quota.Change{Kind: quota.KindClosing, Limit: "share", Until: clock.Now().Add(20 * time.Hour), Note: "gone", Caller: quota.Caller{Job: "backfill"}}
	if _, changed, err := service.ChangeLimit(t.Context(), "youtube", closing); !changed || err != nil {
		t.Fatal(changed, err)
	}
	for name, got := range map[string]servertest.Response{
		"an acquire":     shop("POST", "/v1/acquire", videos),
		"an observation": shop("POST", "/v1/observe", "grant_id="+own+"&status=429"),
	} {
		if !strings.Contains(got.Body, `"closed":{`) || strings.Contains(got.Body, "backfill") {
			t.Errorf("%s of a limit that another closed: got %d %s, want it closed, and by nobody", name, got.Status, got.Body)
		}
	}
	remote.SetCallers([]server.RemoteCaller{caller("shop", "next")})
	for token, want := range map[string]int{"one": 401, "two": 401, "next": 200} {
		if got := wire.Call("GET", "/v1/status", "", "authorization: bearer "+token); got.Status != want {
			t.Errorf("token %s after a change: got %d, want %d", token, got.Status, want)
		}
	}
}

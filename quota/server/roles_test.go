package server_test

import (
	"context"
	"net"
	"net/http/httptest"
	"os"
	"os/user"
	"slices"
	"strconv"
	"testing"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// as sends a request as another user.
func as(t *testing.T, h *servertest.Server, uid uint32, method, path, body string, headers ...string) servertest.Response {
	t.Helper()
	w := dialAs(t, h, uid)
	defer w.Close()
	return w.Call(method, path, body, append(headers, servertest.Form)...)
}

// account returns the uid of a user that every system has. It skips without it, and if the test may not
// call as that user.
func account(t *testing.T, name string) uint32 {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("only root can call as other users")
	}
	u, err := user.Lookup(name)
	if err != nil {
		t.Skipf("needs the user %s: %v", name, err)
	}
	uid, err := strconv.Atoi(u.Uid)
	servertest.Must(t, err)
	return uint32(uid)
}

// TestRoles is the table of Access, with real users.
func TestRoles(t *testing.T) {
	member, admin, job := account(t, "nobody"), account(t, "daemon"), account(t, "bin")
	h := clientsServed(t, func(c *server.Config) {
		c.AdminGroup, c.JobsUID = "daemon", int(job)
		pause := func(context.Context, *server.Session, server.None) (string, error) { return "paused", nil }
		c.Routes = []server.Route{{Method: "POST", Path: "/v1/pause", Access: server.Operate, Handle: server.Handle(pause)}}
	})
	other := servertest.Other()
	other.Limits[0].Units = 10 // enough for each of them
	servertest.Must(t, h.Service.SetCredentials([]*quota.Credential{servertest.YouTube(), other}))
	h.Tokens.Issue("mine", "trending", "US", "youtube")
	h.Tokens.Issue("theirs", "charts", "DE", "youtube")
	mine := h.Acquire("mine", api.AcquireRequest{Operation: "search.list"}).GrantID
	theirs := h.Acquire("theirs", api.AcquireRequest{Operation: "search.list"}).GrantID

	outside := h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "search.list"}).GrantID
	members := as(t, h.Server, member, "POST", "/v1/acquire", "credential=youtube&operation=search.list").Text("grant_id")

	listener := servertest.TCP(t) // at which nobody's user is known
	frontend := server.NewFrontend(server.FrontendConfig{Handler: h.Server.Server})
	go frontend.Serve(listener)
	t.Cleanup(func() { frontend.Shutdown(servertest.Canceled()) })
	conn, err := net.Dial("tcp", listener.Addr().String())
	servertest.Must(t, err)
	stranger := servertest.NewConn(t, conn)

	token := "Authorization: Bearer mine"
	acquire := "credential=youtube&operation=videos.list"
	for _, row := range []struct {
		name               string
		method, path, body string
		// the statuses for the holder of the token "mine", for the user of jobs without a token, for an ordinary user, for a
		// member of the admin group, for root, and for a caller whose user is not known
		holder, job, member, admin, root, stranger int
	}{
		{"read", "GET", "/v1/status", "", 200, 200, 200, 200, 200, 200},
		{"acquire", "POST", "/v1/acquire", acquire, 200, 403, 200, 200, 200, 403},
		{"acquire of another credential", "POST", "/v1/acquire", "credential=other&operation=get", 403, 403, 200, 200, 200, 403},
		{"use the reserve", "POST", "/v1/acquire", acquire + "&use_reserve=true", 403, 403, 403, 200, 200, 403},
		{"ask what the reserve would do", "POST", "/v1/acquire", acquire + "&use_reserve=true&dry_run=true",
			200, 403, 200, 200, 200, 403},
		{"settle what root acquired outside a pass", "POST", "/v1/grants/" + outside + "/settle", "units=50", 403, 403, 403, 200, 200, 403},
		{"release what the member acquired outside a pass", "DELETE", "/v1/grants/" + members, "", 403, 403, 200, 200, 200, 403},
		{"release what was never granted", "DELETE", "/v1/grants/youtube:ABCDEFGHIJKLMNOP", "", 403, 403, 404, 404, 404, 403},
		{"settle its own grant", "POST", "/v1/grants/" + mine + "/settle", "units=50", 200, 403, 403, 200, 200, 403},
		{"settle its own grant upwards", "POST", "/v1/grants/" + mine + "/settle", "units=150", 200, 403, 403, 200, 200, 403},
		{"settle another's grant", "POST", "/v1/grants/" + theirs + "/settle", "units=50", 403, 403, 403, 200, 200, 403},
		{"release its own grant", "DELETE", "/v1/grants/" + mine, "", 200, 403, 403, 200, 200, 403},
		{"release another's grant", "DELETE", "/v1/grants/" + theirs, "", 403, 403, 403, 200, 200, 403},
		{"read the log", "GET", "/v1/log?credential=youtube", "", 200, 200, 200, 200, 200, 200},
		{"book", "POST", "/v1/credentials/youtube/book", "limit=daily&units=1", 403, 403, 403, 200, 200, 403},
		{"reset", "POST", "/v1/credentials/youtube/reset", "confirm=youtube", 403, 403, 403, 200, 200, 403},
		{"operate", "POST", "/v1/pause", "", 403, 403, 403, 200, 200, 403},
		{"observe", "POST", "/v1/observe", "credential=youtube&operation=videos.list&status=200", 200, 403, 403, 200, 200, 403},
		{"observe for another credential", "POST", "/v1/observe", "credential=other&operation=get&status=200", 403, 403, 403, 200, 200, 403},
		{"acquire for a client", "POST", "/v1/clients/public/acquire", "subject=alice", 200, 403, 200, 200, 200, 403},
		{"read of a client", "GET", "/v1/clients/public/subject?subject=alice", "", 200, 200, 200, 200, 200, 200},
		{"reset a client", "DELETE", "/v1/clients/public/subject?subject=alice", "", 403, 403, 403, 200, 200, 403},
		{"close a limit by an observation", "POST", "/v1/observe", "credential=youtube&operation=videos.list&status=429", 200, 403, 403, 200, 200, 403},
	} {
		t.Run(row.name, func(t *testing.T) {
			for _, who := range []struct {
				name    string
				uid     uint32
				headers []string
				want    int
			}{
				{"token holder", member, []string{token}, row.holder},
				{"token holder who is root", 0, []string{token}, row.holder},
				{"token holder who is a job", job, []string{token}, row.holder},
				{"job without a token", job, nil, row.job},
				{"member", member, nil, row.member},
				{"admin", admin, nil, row.admin},
				{"root", 0, nil, row.root},
			} {
				servertest.Must(t, h.service.Reset(t.Context(), "public", "alice"))
				if got := as(t, h.Server, who.uid, row.method, row.path, row.body, who.headers...); got.Status != who.want {
					t.Errorf("%s: %d %s, want %d", who.name, got.Status, got.Body, who.want)
				}
			}
			got := stranger.Call(row.method, row.path, row.body, servertest.Form, "Host: "+listener.Addr().String())
			if got.Status != row.stranger {
				t.Errorf("a stranger: %d %s, want %d", got.Status, got.Body, row.stranger)
			}
		})
	}
	as(t, h.Server, member, "POST", "/v1/acquire", "operation=videos.list", token)
	if caller := h.Events()[len(h.Events())-1].Request.Caller; caller.UID != int(member) || caller.Job != "trending" {
		t.Errorf("the holder of a token is reported as %+v", caller)
	}
}

// What a caller may not do is reported, without the token that it was tried with; and so is the reset of a client.
func TestForbiddenAttemptsAreTold(t *testing.T) {
	var told []any // of which the wire below makes one at a time
	h := clientsServed(t, func(c *server.Config) {
		c.AdminGroup = servertest.OwnGroup(t)
		c.Emit = func(event any) { told = append(told, event) }
	})
	h.Tokens.Issue("mine", "trending", "US", "youtube")
	w := h.Dial()
	w.Call("GET", "/v1/status", "", "Origin: http://example.org")
	w.Call("POST", "/v1/acquire", "operation=videos.list", servertest.Form, "Authorization: Bearer nonsense")
	w.Call("POST", "/v1/credentials/youtube/reset", "confirm=youtube", servertest.Form, "Authorization: Bearer mine")
	w.Call("GET", "/v1/no-such-thing", "")
	w.Call("DELETE", "/v1/clients/public/subject?subject=alice", "")
	pid, uid := os.Getpid(), os.Getuid()
	want := []any{
		server.Forbidden{Caller: quota.Caller{UID: uid}, PID: pid, Detail: "quotad does not answer browsers (the request has the header Origin)"},
		server.Forbidden{Route: "POST /v1/acquire", Caller: quota.Caller{UID: uid}, PID: pid,
			Detail: "the run token is unknown: it dies with its pass"},
		server.Forbidden{Route: "POST /v1/credentials/{name}/reset", PID: pid,
			Caller: quota.Caller{Job: "trending", Region: "US", Run: "trending-1", UID: uid},
			Detail: "a run token may acquire, settle and release for its own run, and nothing else"},
		server.ClientReset{Clients: "public", Caller: quota.Caller{UID: uid}, PID: pid},
	}
	if !slices.Equal(told, want) {
		t.Errorf("told of\n%+v, want\n%+v", told, want)
	}
}

// Where the socket is for few paths, there is nothing else.
func TestOnly(t *testing.T) {
	h := servertest.Start(t, nil)
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/v1/status": 404, "/v1": 404} {
		answer := httptest.NewRecorder()
		h.Server.Only("/healthz", "/readyz").ServeHTTP(answer, httptest.NewRequest("GET", "http://quotad"+path, nil))
		if answer.Code != want {
			t.Errorf("%s: %d, want %d", path, answer.Code, want)
		}
	}
}

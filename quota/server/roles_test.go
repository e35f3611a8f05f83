package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/user"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"quotad/jobs/process/processtest"
	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// callAs makes the test binary send one request instead of running tests, so that a test can send it as another user.
const callAs = "QUOTAD_CHILD_CALL"

func TestMain(m *testing.M) {
	if request := os.Getenv(callAs); request != "" {
		sendAndPrint(os.Args[1], request)
		return
	}
	os.Exit(processtest.Tests(m.Run).Run())
}

func sendAndPrint(socket, request string) {
	conn, err := net.Dial("unix", socket)
	if err == nil {
		_, err = io.WriteString(conn, request)
	}
	if err == nil {
		_, err = io.Copy(os.Stdout, conn)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// as sends a request as another user, and returns the answer's status.
func as(t *testing.T, h *servertest.Server, uid uint32, method, path, body string, headers ...string) int {
	t.Helper()
	answer := answerTo(t, h, uid, method, path, body, headers...)
	fields := strings.Fields(answer)
	if len(fields) < 2 {
		t.Fatalf("as uid %d: no answer: %q", uid, answer)
	}
	status, err := strconv.Atoi(fields[1])
	if err != nil {
		t.Fatal(err)
	}
	return status
}

// answerTo sends a request as another user, and returns the whole answer.
func answerTo(t *testing.T, h *servertest.Server, uid uint32, method, path, body string, headers ...string) string {
	t.Helper()
	everybodyMayConnect(t, h)
	headers = append(headers, "Host: quotad", servertest.Form, "Connection: close", fmt.Sprintf("Content-Length: %d", len(body)))
	cmd := exec.Command("/proc/self/exe", h.Socket)
	// The race detector would let each process linger for a second.
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0", callAs + "=" + method + " " + path + " HTTP/1.1\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n" + body}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid + 1}} // which gives no rights
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("as uid %d: %v: %s", uid, err, stderr.String())
	}
	return stdout.String()
}

// everybodyMayConnect opens the socket for users who are in no group of ours.
func everybodyMayConnect(t *testing.T, h *servertest.Server) {
	t.Helper()
	if err := os.Chmod(h.Socket, 0o666); err != nil {
		t.Fatal(err)
	}
}

// grantTo has another user acquire, and returns the grant's id.
func grantTo(t *testing.T, h *servertest.Server, uid uint32, body string) string {
	t.Helper()
	answer := answerTo(t, h, uid, "POST", "/v1/acquire", body)
	_, text, _ := strings.Cut(answer, "\r\n\r\n")
	var d api.Decision
	if err := json.Unmarshal([]byte(text), &d); err != nil || !d.Granted {
		t.Fatalf("as uid %d: got %s, %v, want a grant", uid, answer, err)
	}
	return d.GrantID
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
	if err != nil {
		t.Fatal(err)
	}
	return uint32(uid)
}

// Whoever may not is told how to come to.
func TestHowToBecomeAnOperator(t *testing.T) {
	member := account(t, "nobody")
	for _, row := range []struct{ name, group, method, path, body, want string }{
		{"operate", "daemon", "POST", "/v1/credentials/youtube/book", "limit=daily&units=1", "as root: usermod -aG daemon nobody\""},
		{"no such group", "no-such-group", "POST", "/v1/credentials/youtube/book", "limit=daily&units=1", "as root: groupadd no-such-group"},
		{"correct", "daemon", "DELETE", "/v1/grants/{grant}", "", "releases its own grants with its run token"},
		{"by name", "daemon", "POST", "/v1/credentials/youtube/book", "limit=daily&units=1", "user nobody may read and acquire"},
		{"another's, by name", "daemon", "DELETE", "/v1/grants/{grant}", "", "not one that user nobody acquired"},
		{"a job without a token", "daemon", "POST", "/v1/acquire", "credential=youtube&operation=videos.list", "a pass finds its run token in $QUOTAD_TOKEN"},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := servertest.Start(t, func(c *server.Config) {
				c.AdminGroup = row.group
				if strings.HasPrefix(row.name, "a job") {
					c.JobsUID = int(member)
				}
			})
			h.Tokens.Issue("a pass", "trending", "US", "youtube")
			grant := h.Acquire("a pass", api.AcquireRequest{Operation: "videos.list"}).GrantID
			path := strings.Replace(row.path, "{grant}", grant, 1)
			if got := answerTo(t, h, member, row.method, path, row.body); !strings.Contains(got, row.want) {
				t.Errorf("got %s, want a hint with %q", got, row.want)
			}
		})
	}
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
	if err := h.Service.SetCredentials([]*quota.Credential{servertest.YouTube(), other}); err != nil {
		t.Fatal(err)
	}
	h.Tokens.Issue("mine", "trending", "US", "youtube")
	h.Tokens.Issue("theirs", "charts", "DE", "youtube")
	mine := h.Acquire("mine", api.AcquireRequest{Operation: "search.list"}).GrantID
	theirs := h.Acquire("theirs", api.AcquireRequest{Operation: "search.list"}).GrantID

	outside := h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "search.list"}).GrantID
	members := grantTo(t, h.Server, member, "credential=youtube&operation=search.list")

	token := "Authorization: Bearer mine"
	acquire := "credential=youtube&operation=videos.list"
	for _, row := range []struct {
		name               string
		method, path, body string
		// the statuses for the holder of the token "mine", for the user of jobs without a token, for an ordinary user, for a
		// member of the admin group and for root
		holder, job, member, admin, root int
	}{
		{"read", "GET", "/v1/status", "", 200, 200, 200, 200, 200},
		{"acquire", "POST", "/v1/acquire", acquire, 200, 403, 200, 200, 200},
		{"acquire of another credential", "POST", "/v1/acquire", "credential=other&operation=get", 403, 403, 200, 200, 200},
		{"use the reserve", "POST", "/v1/acquire", acquire + "&use_reserve=true", 403, 403, 403, 200, 200},
		{"settle what root acquired outside a pass", "POST", "/v1/grants/" + outside + "/settle", "units=50", 403, 403, 403, 200, 200},
		{"release what the member acquired outside a pass", "DELETE", "/v1/grants/" + members, "", 403, 403, 200, 200, 200},
		{"release what was never granted", "DELETE", "/v1/grants/youtube:ABCDEFGHIJKLMNOP", "", 403, 403, 404, 404, 404},
		{"settle its own grant", "POST", "/v1/grants/" + mine + "/settle", "units=50", 200, 403, 403, 200, 200},
		{"settle its own grant upwards", "POST", "/v1/grants/" + mine + "/settle", "units=150", 200, 403, 403, 200, 200},
		{"settle another's grant", "POST", "/v1/grants/" + theirs + "/settle", "units=50", 403, 403, 403, 200, 200},
		{"release its own grant", "DELETE", "/v1/grants/" + mine, "", 200, 403, 403, 200, 200},
		{"release another's grant", "DELETE", "/v1/grants/" + theirs, "", 403, 403, 403, 200, 200},
		{"read the log", "GET", "/v1/log?credential=youtube", "", 200, 200, 200, 200, 200},
		{"book", "POST", "/v1/credentials/youtube/book", "limit=daily&units=1", 403, 403, 403, 200, 200},
		{"reset", "POST", "/v1/credentials/youtube/reset", "confirm=youtube", 403, 403, 403, 200, 200},
		{"operate", "POST", "/v1/pause", "", 403, 403, 403, 200, 200},
		{"observe", "POST", "/v1/observe", "credential=youtube&operation=videos.list&status=200", 200, 403, 403, 200, 200},
		{"observe for another credential", "POST", "/v1/observe", "credential=other&operation=get&status=200", 403, 403, 403, 200, 200},
		{"acquire for a client", "POST", "/v1/clients/public/acquire", "subject=alice", 200, 403, 200, 200, 200},
		{"list the clients", "GET", "/v1/clients", "", 200, 200, 200, 200, 200},
		{"read of clients", "GET", "/v1/clients", "", 200, 200, 200, 200, 200},
		{"read of a client", "GET", "/v1/clients/public/subject?subject=alice", "", 200, 200, 200, 200, 200},
		{"reset a client", "DELETE", "/v1/clients/public/subject?subject=alice", "", 403, 403, 403, 200, 200},
		{"close a limit by an observation", "POST", "/v1/observe", "credential=youtube&operation=videos.list&status=429", 200, 403, 403, 200, 200},
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
				h.Clock.Add(2 * time.Hour) // a client has its whole budget again
				if got := as(t, h.Server, who.uid, row.method, row.path, row.body, who.headers...); got != who.want {
					t.Errorf("%s: %d, want %d", who.name, got, who.want)
				}
			}
		})
	}
}

// A job that lost its token is no operator, whatever groups its user is in.
func TestJobInTheAdminGroup(t *testing.T) {
	job := account(t, "daemon")
	h := servertest.Start(t, func(c *server.Config) { c.AdminGroup, c.JobsUID = "daemon", int(job) })
	acquire := "credential=youtube&operation=videos.list"
	for path, body := range map[string]string{"/v1/acquire": acquire, "/v1/acquire?": acquire + "&use_reserve=true", "/v1/credentials/youtube/book": "limit=daily&units=1"} {
		if got := as(t, h, job, "POST", path, body); got != http.StatusForbidden {
			t.Errorf("%s %s: %d, want 403", path, body, got)
		}
	}
}

func TestSocketModeKeepsOthersOut(t *testing.T) {
	nobody := account(t, "nobody")
	h := servertest.Start(t, nil)
	cmd := exec.Command("/proc/self/exe", h.Socket)
	cmd.Env, cmd.Dir = []string{callAs + "=GET /healthz HTTP/1.1\r\n\r\n"}, "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: 65534}}
	if out, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(out), "permission denied") {
		t.Errorf("connected from outside the group: %v %s", err, out)
	}
}

func TestCallerIsRecorded(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "trending", "US", "youtube")
	h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "videos.list"})
	h.Acquire("secret", api.AcquireRequest{Operation: "videos.list"})
	uid := os.Getuid()
	if got, want := h.Events()[0].Request.Caller, (quota.Caller{UID: uid}); got != want {
		t.Errorf("outside a pass: %+v, want %+v", got, want)
	}
	if got, want := h.Events()[1].Request.Caller, (quota.Caller{Job: "trending", Region: "US", Run: "trending-1", UID: uid}); got != want {
		t.Errorf("with a run token: %+v, want %+v", got, want)
	}
}

func TestDecisionsReachTheRecordOfThePass(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "fetch", "US", "other")
	for range 3 {
		h.Acquire("secret", api.AcquireRequest{Operation: "get"})
	}
	decided := h.Tokens.Pass("secret").Decisions
	if len(decided) != 3 || !decided[0].Granted() || !decided[1].Granted() || decided[2].Reason != quota.LimitExceeded {
		t.Errorf("the record has %+v, want two grants and a denial", decided)
	}
}

// A pass of a job that may use the reserve does so without saying it; one of another job may not, though it says it.
func TestReserveOfAPass(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("mine", "nightly", "US", "youtube")
	h.Tokens.May("mine", true)
	h.Tokens.Issue("theirs", "trending", "US", "youtube")
	h.Acquire("", api.AcquireRequest{Credential: "youtube", Operation: "videos.list", Count: 9_400})
	call := api.AcquireRequest{Operation: "videos.list", Count: 200}
	if d := h.Acquire("theirs", call); d.Granted || d.Reason != string(quota.LimitExceeded) {
		t.Errorf("an ordinary pass: got %+v, want it denied", d)
	}
	if d := h.Acquire("mine", call); !d.Granted || d.Limits[0].Used != 9_600 {
		t.Errorf("a pass that may use the reserve: got %+v, want it granted", d)
	}
	call.UseReserve = true
	client := &api.Client{Socket: h.Socket, Token: "theirs"}
	var p *api.Problem
	if _, err := client.Acquire(t.Context(), call); !errors.As(err, &p) || p.Reason != quota.Forbidden || !strings.Contains(p.Hint, "[jobs.trending]") {
		t.Errorf("an ordinary pass that says it: got %v, want it forbidden, and the cure", err)
	}
}

// What a caller may not do is told of, and without the token it was tried with.
func TestForbiddenAttemptsAreTold(t *testing.T) {
	var mu sync.Mutex // guards told
	var told []server.Forbidden
	h := servertest.Start(t, func(c *server.Config) {
		c.Emit = func(event any) {
			if a, forbidden := event.(server.Forbidden); forbidden {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, a)
			}
		}
	})
	h.Tokens.Issue("mine", "trending", "US", "youtube")
	w := h.Dial()
	w.Call("GET", "/v1/status", "", "Origin: http://example.org")
	w.Call("POST", "/v1/acquire", "operation=videos.list", servertest.Form, "Authorization: Bearer nonsense")
	w.Call("POST", "/v1/credentials/youtube/reset", "confirm=youtube", servertest.Form, "Authorization: Bearer mine")
	w.Call("GET", "/v1/no-such-thing", "")
	pid, uid := os.Getpid(), os.Getuid()
	want := []server.Forbidden{
		{Caller: quota.Caller{UID: uid}, PID: pid, Detail: "quotad does not answer browsers (the request has the header Origin)"},
		{Route: "POST /v1/acquire", Caller: quota.Caller{UID: uid}, PID: pid, Detail: "the run token is unknown: it dies with its pass"},
		{Route: "POST /v1/credentials/{name}/reset", Caller: quota.Caller{Job: "trending", Region: "US", Run: "trending-1", UID: uid}, PID: pid,
			Detail: "a run token may acquire, settle and release for its own run, and nothing else"},
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(told, want) {
		t.Errorf("told of\n%+v, want\n%+v", told, want)
	}
}

func TestUnknownCallersOnlyRead(t *testing.T) {
	listener := servertest.TCP(t)
	h := servertest.Start(t, nil)
	servertest.Serve(t, server.Config{Service: h.Service}, listener)
	base := "http://" + listener.Addr().String()
	resp, err := http.Get(base + "/v1/status")
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 200 {
		t.Errorf("status over TCP: %d, want 200", resp.StatusCode)
	}
	resp, err = http.Post(base+"/v1/acquire", "application/x-www-form-urlencoded", strings.NewReader("credential=youtube&operation=videos.list"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 403 || h.Used("youtube") != 0 {
		t.Errorf("acquire over TCP: %d, want 403", resp.StatusCode)
	}
	resp, err = http.Post(base+"/v1/credentials/youtube/book", "application/x-www-form-urlencoded", strings.NewReader("limit=daily&units=1"))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode != 403 || h.Used("youtube") != 0 {
		t.Errorf("a booking over TCP: %d, want 403", resp.StatusCode)
	}
}

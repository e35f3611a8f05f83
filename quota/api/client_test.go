package api_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"quotad/quota"
	"quotad/quota/api"
	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// A cutter has a server answer requests, and cuts connections before their clients hear of it.
type cutter struct {
	socket   string
	requests atomic.Int64
}

// cut starts a cutter that loses the first n answers.
func cut(t *testing.T, h *servertest.Server, n int64) *cutter {
	t.Helper()
	c := &cutter{socket: filepath.Join(servertest.ShortDir(t), "cut.sock")}
	l, err := net.Listen("unix", c.socket)
	if err != nil {
		t.Fatal(err)
	}
	frontend := server.NewFrontend(server.FrontendConfig{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c.requests.Add(1) > n {
			h.ServeHTTP(w, r)
			return
		}
		h.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	})})
	go frontend.Serve(l)
	t.Cleanup(func() { frontend.Shutdown(servertest.Canceled()) })
	return c
}

func TestLostReplyIsAskedForAgainAndDebitedOnce(t *testing.T) {
	for _, id := range []string{"page-1", ""} {
		h := servertest.Start(t, nil)
		c := cut(t, h, 2)
		client := &api.Client{Socket: c.socket}
		d, err := client.Acquire(context.Background(), api.AcquireRequest{Credential: "youtube", Operation: "search.list", RequestID: id})
		if err != nil || !d.Granted || !d.Replayed {
			t.Fatalf("request id %q: %+v, %v, want a grant that was replayed", id, d, err)
		}
		if used := h.Used("youtube"); used != 100 || c.requests.Load() != 3 {
			t.Errorf("used %d after %d requests, want 100 after 3", used, c.requests.Load())
		}
	}
}

func TestLostRepliesEndAsUnreachable(t *testing.T) {
	h := servertest.Start(t, nil)
	c := cut(t, h, 100)
	client := &api.Client{Socket: c.socket}
	_, err := client.Acquire(context.Background(), api.AcquireRequest{Credential: "youtube", Operation: "search.list"})
	if !errors.Is(err, api.ErrUnreachable) || !errors.Is(err, quota.ErrOutcomeUnknown) || !strings.Contains(api.Hint(err), "journalctl -u quotad -n 5") {
		t.Errorf("got %v, hint %q", err, api.Hint(err))
	}
	if n := c.requests.Load(); n != 3 {
		t.Errorf("%d requests, want 3", n)
	}
	if used := h.Used("youtube"); used != 100 {
		t.Errorf("used %d, want 100", used)
	}
}

func TestSettleIsRepeatedAndOtherPostsAreNot(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "trending", "US", "youtube")
	grant := h.Acquire("secret", api.AcquireRequest{Operation: "search.list"})
	c := cut(t, h, 1)
	client := &api.Client{Socket: c.socket, Token: "secret"}
	if _, err := client.Settle(context.Background(), grant.GrantID, 7); err != nil || h.Used("youtube") != 7 {
		t.Errorf("settle: %v, used %d, want 7", err, h.Used("youtube"))
	}

	c = cut(t, h, 1)
	client = &api.Client{Socket: c.socket, Token: "secret"}
	if _, err := client.Observe(t.Context(), api.Observation{GrantID: grant.GrantID, Status: 200}); err != nil {
		t.Errorf("an observation: %v", err)
	}

	for name, post := range map[string]func(*api.Client) error{
		"any other POST": func(c *api.Client) error {
			return c.Do(t.Context(), "POST", "/v1/acquire", api.AcquireRequest{Credential: "other", Operation: "get"}, nil)
		},
		"a client's call": func(c *api.Client) error {
			_, err := c.AcquireClient(t.Context(), "public", api.ClientRequest{Subject: "alice"})
			return err
		},
	} {
		c = cut(t, h, 1)
		if err := post(&api.Client{Socket: c.socket}); !errors.Is(err, api.ErrUnreachable) || c.requests.Load() != 1 {
			t.Errorf("%s: %v after %d requests, want unreachable after 1", name, err, c.requests.Load())
		}
	}
}

func TestDenialIsNotAskedForAgain(t *testing.T) {
	h := servertest.Start(t, nil)
	c := cut(t, h, 0)
	client := &api.Client{Socket: c.socket}
	ask := api.AcquireRequest{Credential: "other", Operation: "get", Count: 2}
	if d, err := client.Acquire(context.Background(), ask); err != nil || !d.Granted {
		t.Fatal(d, err)
	}
	d, err := client.Acquire(context.Background(), ask)
	if err != nil || d.Granted || d.Reason != "limit_exceeded" || d.Limit != "few" || d.Requested != 2 || d.RetryAfterMs != 60_000 {
		t.Errorf("got %+v, %v", d, err)
	}
	if c.requests.Load() != 2 {
		t.Errorf("%d requests, want 2", c.requests.Load())
	}
}

// A request that nobody could grant is no denial: that would be waited for.
func TestRefusalsThatAreNoDenials(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "trending", "US", "youtube")
	for _, row := range []struct {
		token  string
		ask    api.AcquireRequest
		reason quota.Reason
		denial bool
	}{
		{"", api.AcquireRequest{Credential: "youtube", Operation: "videos.lst"}, quota.UnknownOperation, false},
		{"", api.AcquireRequest{Credential: "vimeo", Operation: "videos.list"}, quota.UnknownCredential, false},
		{"", api.AcquireRequest{Credential: "youtube", Operation: "videos.list", Count: -1}, quota.BadRequest, false},
		{"secret", api.AcquireRequest{Credential: "other", Operation: "get"}, quota.Forbidden, false},
		{"dead", api.AcquireRequest{Operation: "videos.list"}, quota.Forbidden, false},
		{"", api.AcquireRequest{Credential: "youtube", Operation: "search.list", Count: 41}, quota.CostExceedsLimit, true},
	} {
		d, err := h.Client(row.token).Acquire(t.Context(), row.ask)
		var p *api.Problem
		switch {
		case d.Granted:
			t.Errorf("%+v is granted", row.ask)
		case row.denial && (err != nil || d.Reason != string(row.reason)):
			t.Errorf("%+v: %+v, %v, want a denial", row.ask, d, err)
		case !row.denial && (!errors.As(err, &p) || p.Reason != row.reason):
			t.Errorf("%+v: %+v, %v, want a problem of reason %s", row.ask, d, err, row.reason)
		}
	}
	if _, err := h.Client("").Release(t.Context(), "youtube:1-1"); err == nil {
		t.Error("the release of no grant is no error")
	}
}

func TestUnreachable(t *testing.T) {
	dir := servertest.ShortDir(t)
	stale := filepath.Join(dir, "stale")
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	l.SetUnlinkOnClose(false)
	l.Close()
	for _, row := range []struct{ name, socket, says string }{
		{"no socket", filepath.Join(dir, "none"), "no such file or directory"},
		{"stale socket", stale, "connection refused"},
		{"long path", filepath.Join(dir, strings.Repeat("x", 200)), "at most 107"},
	} {
		t.Run(row.name, func(t *testing.T) {
			client := &api.Client{Socket: row.socket}
			_, err := client.Acquire(context.Background(), api.AcquireRequest{Credential: "youtube", Operation: "videos.list"})
			if !errors.Is(err, api.ErrUnreachable) || errors.Is(err, quota.ErrOutcomeUnknown) || !strings.Contains(err.Error(), row.says) {
				t.Errorf("got %v, want ErrUnreachable with %q", err, row.says)
			}
			if !strings.Contains(api.Hint(err), "is quotad running?") {
				t.Errorf("hint %q", api.Hint(err))
			}
		})
	}
}

func TestFullBacklogIsTriedAgain(t *testing.T) {
	socket := fullBacklog(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	_, err := (&api.Client{Socket: socket}).Status(ctx)
	if !errors.Is(err, api.ErrUnreachable) {
		t.Errorf("got %v, want ErrUnreachable", err)
	}
	// Its time may also be over at the very begin of an attempt.
	if hint := api.Hint(err); errors.Is(err, syscall.EAGAIN) && !strings.Contains(hint, "no more connections") {
		t.Errorf("hint %q", hint)
	}
	if deadline, _ := ctx.Deadline(); time.Now().Before(deadline) { // the context may tell a moment later than the connection
		t.Error("gave up before its time was over, though somebody listens")
	}
}

// fullBacklog returns a socket that takes no more connections.
func fullBacklog(t *testing.T) string {
	t.Helper()
	socket := filepath.Join(servertest.ShortDir(t), "s")
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		conn, err := net.Dial("unix", socket)
		if errors.Is(err, syscall.EAGAIN) {
			return socket
		}
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("a backlog of 0 has room for 8 connections here")
	return ""
}

func TestSilentDaemonIsGivenUp(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "s")
	l, err := net.Listen("unix", socket) // nobody accepts
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err = (&api.Client{Socket: socket}).Status(ctx)
	if !errors.Is(err, api.ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v, want ErrUnreachable for the deadline", err)
	}
	ctx, stop := context.WithCancelCause(context.Background())
	stop(errors.New("interrupted"))
	_, err = (&api.Client{Socket: socket}).Status(ctx)
	if errors.Is(err, api.ErrUnreachable) || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("got %v, want the cause of the cancellation", err)
	}
}

func TestWhoeverAnswersStrangely(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	answers := map[string]func(http.ResponseWriter){
		"/v1/acquire":                 func(w http.ResponseWriter) { io.WriteString(w, "<html>") },
		"/v1/grants/a:1-0":            func(w http.ResponseWriter) { io.WriteString(w, `{"granted":false}`) },
		"/v1/grants/a:1-0/settle":     func(w http.ResponseWriter) { http.Error(w, "no", http.StatusBadGateway) },
		"/v1/status":                  func(w http.ResponseWriter) { http.Error(w, "busy", http.StatusServiceUnavailable) },
		"/v1/credentials/empty":       func(http.ResponseWriter) {},
		"/v1/credentials/nobody-here": func(w http.ResponseWriter) { http.NotFound(w, nil) },
	}
	answering := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answers[r.URL.Path](w) })}
	go answering.Serve(l)
	defer answering.Close()
	client, ctx := &api.Client{Socket: socket}, context.Background()

	if d, err := client.Acquire(ctx, api.AcquireRequest{}); err == nil {
		t.Errorf("200 without JSON: %+v, want an error", d)
	}
	if c, err := api.Ask[api.Credential](ctx, client, http.MethodGet, "/v1/credentials/empty", nil); err == nil {
		t.Errorf("200 without a body: %+v, want an error", c)
	}
	if d, err := client.Release(ctx, "a:1-0"); err == nil {
		t.Errorf("200 that does not grant: %+v, want an error", d)
	}
	if d, err := client.Settle(ctx, "a:1-0", 1); err == nil {
		t.Errorf("502: %+v, want an error", d)
	}
	if _, err := client.Status(ctx); !errors.Is(err, api.ErrLedgerUnavailable) {
		t.Errorf("bare 503: %v, want ErrLedgerUnavailable", err)
	}
	var p *api.Problem
	if err := client.Get(ctx, "/v1/credentials/nobody-here", nil); !errors.As(err, &p) || p.Status != 404 || p.Reason != api.NotFound {
		t.Errorf("bare 404: %v", err)
	}
}

func TestClientOfAPass(t *testing.T) {
	h := servertest.Start(t, nil)
	h.Tokens.Issue("secret", "trending", "US", "youtube")
	t.Setenv("QUOTAD_SOCKET", h.Socket)
	t.Setenv("QUOTAD_TOKEN", "secret")
	// One of HTTP would not show: a request that is worded for it arrives, too.
	t.Setenv("http_proxy", "socks5://127.0.0.1:1")
	t.Setenv("HTTP_PROXY", "socks5://127.0.0.1:1")
	d, err := api.FromEnv().Acquire(context.Background(), api.AcquireRequest{Operation: "videos.list"})
	if err != nil || !d.Granted {
		t.Errorf("got %+v, %v", d, err)
	}
	if decided := h.Tokens.Pass("secret").Decisions; len(decided) != 1 {
		t.Errorf("the record has %v", decided)
	}
	var zero api.Client
	if _, err := zero.Status(context.Background()); err != nil {
		t.Errorf("the zero client: %v", err)
	}
}

// What a name holds makes no other path of it.
func TestPath(t *testing.T) {
	const want = "/v1/credentials/a%2Fb%3Fc%23%25/log"
	if got := api.Path("credentials", "a/b?c#%", "log"); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Where nobody names a socket, another user's daemon in the working directory is not asked.
func TestFindSocketOfAnotherUser(t *testing.T) {
	if _, err := os.Lstat("/run/quotad.sock"); err == nil || os.Getuid() != 0 {
		t.Skip("a daemon is installed here, or the test may not give a file to another user")
	}
	t.Setenv("QUOTAD_SOCKET", "")
	t.Chdir(t.TempDir())
	const local = "./.quotad/quotad.sock"
	if err := errors.Join(os.Mkdir(".quotad", 0o755), os.WriteFile(local, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := api.FindSocket(""); got != local {
		t.Errorf("one's own: %q", got)
	}
	if err := os.Chown(local, 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if got := api.FindSocket(""); got != "/run/quotad.sock" {
		t.Errorf("another user's: %q, want the service's", got)
	}
	t.Setenv("QUOTAD_SOCKET", "/from/environment")
	for flag, want := range map[string]string{local: local, "": "/from/environment"} {
		if got := api.FindSocket(flag); got != want {
			t.Errorf("named %q: %q", flag, got)
		}
	}
}

// A server reads whole numbers in digits alone.
func TestNumbersOfAQuery(t *testing.T) {
	h := servertest.Start(t, nil)
	_, err := h.Client("").Log(t.Context(), api.LogQuery{Credential: "youtube", Most: 5_000_000})
	if p := new(api.Problem); !errors.As(err, &p) || p.Detail != "most must be from 1 to 1000: 5000000" {
		t.Error(err)
	}
}

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
	servertest.Must(t, err)
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

// A request whose answer is lost is sent again, twice at most, if that debits once. All others are sent once.
func TestLostAnswers(t *testing.T) {
	type send func(c *api.Client, grant string) error
	acquire := func(id string) send {
		return func(c *api.Client, _ string) error {
			d, err := c.Acquire(t.Context(), api.AcquireRequest{Operation: "search.list", RequestID: id})
			if err == nil && !d.Replayed {
				t.Errorf("got %+v, want a grant that was replayed", d)
			}
			return err
		}
	}
	for _, row := range []struct {
		name     string
		lost     int64 // answers
		send     send
		requests int64
		used     quota.Units // with 100 of the grant
		unknown  bool        // its outcome
	}{
		{"an acquire", 2, acquire(""), 3, 200, false},
		{"an acquire with an id", 2, acquire("page-1"), 3, 200, false},
		{"an acquire that is never answered", 99, acquire(""), 3, 200, true},
		{"a settlement", 1, func(c *api.Client, grant string) error { _, err := c.Settle(t.Context(), grant, 7); return err }, 2, 7, false},
		{"an observation", 1, func(c *api.Client, grant string) error {
			_, err := c.Observe(t.Context(), api.Observation{GrantID: grant, Status: 200})
			return err
		}, 2, 100, false},
		{"any other POST", 1, func(c *api.Client, _ string) error {
			return c.Do(t.Context(), "POST", "/v1/acquire", api.AcquireRequest{Operation: "search.list"}, nil)
		}, 1, 200, true},
		{"a client's call", 1, func(c *api.Client, _ string) error {
			_, err := c.AcquireClient(t.Context(), "public", api.ClientRequest{Subject: "alice"})
			return err
		}, 1, 100, true},
		{"a denial, which is not lost", 0, func(c *api.Client, _ string) error {
			d, err := c.Acquire(t.Context(), api.AcquireRequest{Operation: "search.list", Count: 40})
			if d.Granted || d.Reason != "limit_exceeded" || d.Limit != "search" || d.Requested != 4000 || d.RetryAfterMs != 86_400_000 {
				t.Errorf("got %+v, want a denial", d)
			}
			return err
		}, 1, 100, false},
	} {
		h := servertest.Start(t, nil)
		h.Tokens.Issue("secret", "trending", "US", "youtube")
		grant := h.Acquire("secret", api.AcquireRequest{Operation: "search.list"}).GrantID
		c := cut(t, h, row.lost)
		err := row.send(&api.Client{Socket: c.socket, Token: "secret"}, grant)
		if errors.Is(err, api.ErrUnreachable) != row.unknown || errors.Is(err, quota.ErrOutcomeUnknown) != row.unknown || err != nil != row.unknown ||
			strings.Contains(api.Hint(err), "journalctl -u quotad -n 5") != row.unknown {
			t.Errorf("%s: got %v, hint %q", row.name, err, api.Hint(err))
		}
		if n, used := c.requests.Load(), h.Used("youtube"); n != row.requests || used != row.used {
			t.Errorf("%s: %d requests, %d units used, want %d and %d", row.name, n, used, row.requests, row.used)
		}
	}
}

// A request that nobody could grant is no denial, which would be waited for, unless units are missing.
func TestRefusalsThatAreNoDenials(t *testing.T) {
	h := servertest.Start(t, nil)
	for _, row := range []struct {
		token     string
		operation string
		count     int64
		reason    quota.Reason
		denial    bool
	}{
		{"", "videos.lst", 1, quota.UnknownOperation, false},
		{"", "videos.list", -1, quota.BadRequest, false},
		{"dead", "videos.list", 1, quota.Forbidden, false},
		{"", "search.list", 41, quota.CostExceedsLimit, true},
	} {
		d, err := h.Client(row.token).Acquire(t.Context(), api.AcquireRequest{Credential: "youtube", Operation: row.operation, Count: row.count})
		var p *api.Problem
		if errors.As(err, &p); d.Granted || row.denial != (p == nil && d.Reason == string(row.reason)) || !row.denial && (p == nil || p.Reason != row.reason) {
			t.Errorf("%s: got %+v, %v, want a denial: %v, for %s", row.operation, d, err, row.denial, row.reason)
		}
	}
	if _, err := h.Client("").Release(t.Context(), "youtube:1-1"); err == nil {
		t.Error("the release of no grant is no error")
	}
}

func TestUnreachable(t *testing.T) {
	dir := servertest.ShortDir(t)
	stale := filepath.Join(dir, "stale")
	servertest.StaleSocket(t, stale)
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
	servertest.Must(t, err)
	t.Cleanup(func() { syscall.Close(fd) })
	servertest.Must(t, errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: socket}), syscall.Listen(fd, 0)))
	for range 8 {
		conn, err := net.Dial("unix", socket)
		if errors.Is(err, syscall.EAGAIN) {
			return socket
		}
		servertest.Must(t, err)
		t.Cleanup(func() { conn.Close() })
	}
	t.Skip("a backlog of 0 has room for 8 connections here")
	return ""
}

func TestSilentDaemonIsGivenUp(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "s")
	l, err := net.Listen("unix", socket) // nobody accepts
	servertest.Must(t, err)
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

// What is no answer of quotad's is an error, by its status if that says something.
func TestWhoeverAnswersStrangely(t *testing.T) {
	socket := filepath.Join(servertest.ShortDir(t), "s")
	l, err := net.Listen("unix", socket)
	servertest.Must(t, err)
	client, ctx := &api.Client{Socket: socket}, t.Context()
	rows := map[string]struct { // by path
		status int
		body   string
		call   func() error
		reason quota.Reason // empty: the error is no problem
	}{
		"/v1/acquire": {200, "<html>", func() error { _, err := client.Acquire(ctx, api.AcquireRequest{}); return err }, ""},
		"/v1/credentials/empty": {200, "", func() error {
			_, err := api.Ask[api.Credential](ctx, client, "GET", "/v1/credentials/empty", nil)
			return err
		}, ""},
		"/v1/grants/a:1-0":        {200, `{"granted":false}`, func() error { _, err := client.Release(ctx, "a:1-0"); return err }, ""},
		"/v1/grants/a:1-0/settle": {502, "no", func() error { _, err := client.Settle(ctx, "a:1-0", 1); return err }, api.UpstreamUnreachable},
		"/v1/status":              {503, "busy", func() error { _, err := client.Status(ctx); return err }, api.LedgerUnavailable},
		"/v1/nobody":              {404, "not found", func() error { return client.Get(ctx, "/v1/nobody", nil) }, api.NotFound},
	}
	answering := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(rows[r.URL.Path].status)
		io.WriteString(w, rows[r.URL.Path].body)
	})}
	go answering.Serve(l)
	defer answering.Close()
	for path, row := range rows {
		var p *api.Problem
		if err := row.call(); err == nil || errors.As(err, &p) != (row.reason != "") || p != nil && (p.Reason != row.reason || p.Status != row.status) {
			t.Errorf("%s: %d %q: got %v, want an error with the reason %q", path, row.status, row.body, err, row.reason)
		}
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
	servertest.Must(t, errors.Join(os.Mkdir(".quotad", 0o755), os.WriteFile(local, nil, 0o600)))
	if got := api.FindSocket(""); got != local {
		t.Errorf("one's own: %q", got)
	}
	servertest.Must(t, os.Chown(local, 65534, 65534))
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

package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"quotad/quota/seedtest"
	"quotad/quota/server"
)

// raw sends a request as it is written, with the proxy's own Host unless it names one.
func (s *scene) raw(request string, headers ...string) (status int, body string) {
	s.Helper()
	conn := s.dial()
	defer conn.Close()
	if len(headers) == 0 || !strings.HasPrefix(headers[0], "Host:") {
		headers = append([]string{"Host: " + s.proxy.config.Address}, headers...)
	}
	fmt.Fprintf(conn, "%s HTTP/1.1\r\n%s\r\n\r\n", request, strings.Join(headers, "\r\n"))
	method, _, _ := strings.Cut(request, " ")
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	if err != nil {
		s.Fatalf("%s: %v", request, err)
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.Fatalf("%s: %v", request, err)
	}
	return res.StatusCode, string(text)
}

// What is not a plain call of a route reaches no upstream and costs nothing. What readers of a request may
// take for another one is refused: it is not made into a third one.
func TestTurnsAway(t *testing.T) {
	var received atomic.Int64
	var mu sync.Mutex
	var attempts []server.Forbidden
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) { received.Add(1); ok(w, r) }, func(c *Config, _ *Target) {
		c.Emit = func(event any) {
			if a, forbidden := event.(server.Forbidden); forbidden {
				mu.Lock()
				defer mu.Unlock()
				attempts = append(attempts, a)
			}
		}
	})
	s.tokens.Issue("OTHERTOKEN", "other", "US", "other")
	s.tokens.Issue("DEADTOKEN", "trending", "DE", "youtube")
	s.tokens.Revoke("DEADTOKEN")
	at := "/" + runToken + "/youtube"
	videos := at + "/youtube/v3/videos"
	form := func(body string) string {
		return fmt.Sprintf("X-HTTP-Method-Override: GET\r\nContent-Type: application/x-www-form-urlencoded\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	for _, c := range []struct {
		name, request string
		header        string
		status        int
		says          string
	}{
		{"host of an attacker", "GET " + at + "/youtube/v3/videos", "Host: evil.example:9465", 403, "is not this proxy"},
		{"another port", "GET " + at + "/youtube/v3/videos", "Host: 127.0.0.1:1", 403, "is not this proxy"},
		{"a name", "GET " + at + "/youtube/v3/videos", "Host: localhost:" + port(s), 403, "is not this proxy"},
		{"no host", "GET " + at + "/youtube/v3/videos", "Host:", 403, "is not this proxy"},
		{"token of a pass that ended", "GET /DEADTOKEN/youtube/youtube/v3/videos", "", 403, "it dies with its pass"},
		{"token as key of another credential", "GET /youtube/v3/videos?key=OTHERTOKEN", "", 404, "is proxied"},
		{"no token", "GET /youtube/youtube/v3/videos", "", 403, "the path /RUN_TOKEN/CREDENTIAL is missing: this client resolves absolute paths; give $QUOTAD_TOKEN as its key"},
		{"an upload without a token", "POST /upload/youtube/v3/videos?uploadType=media", "Content-Length: 0", 404, "acquire before, upload directly"},
		{"a resumed upload without a token", "PUT /resumable/upload/youtube/v3/thumbnails/set", "Content-Length: 0", 404, "acquire before, upload directly"},
		{"token as key of a pass that ended", "GET /youtube/v3/videos?key=DEADTOKEN", "", 403, "the run token is missing"},
		{"token of another credential", "GET /OTHERTOKEN/youtube/youtube/v3/videos", "", 403, "spends from another credential"},
		{"a credential that is not proxied", "GET /OTHERTOKEN/other/get", "", 404, "is proxied"},
		{"nothing behind the token", "GET /" + runToken, "", 404, "is proxied"},
		{"no route", "GET " + at + "/youtube/v3/captions", "", 404, "no route"},
		{"another method", "DELETE " + at + "/youtube/v3/videos", "", 404, "no route"},
		{"dots", "GET " + at + "/files/../youtube/v3/search", "", 400, "not a plain segment"},
		{"encoded dots", "GET " + at + "/files/%2e%2e/youtube/v3/search", "", 400, "not a plain segment"},
		{"encoded twice", "GET " + at + "/files/%252e%252e/youtube/v3/search", "", 400, "not a plain segment"},
		{"encoded slash", "GET " + at + "/files%2f..%2fyoutube/v3/search", "", 400, "not a plain segment"},
		{"encoded slash alone", "GET " + at + "/youtube%2Fv3%2Fsearch", "", 404, "no route"},
		{"encoded slash before dots", "GET " + at + "/files/a%2f..%2fyoutube", "", 400, "not a plain segment"},
		{"a batch behind an encoded slash", "POST " + at + "/batch%2Fyoutube/v3", "Content-Length: 0", 404, "send them one by one"},
		{"backslash", "GET " + at + "/files/..%5cyoutube", "", 400, "not a plain segment"},
		{"empty segments", "GET " + at + "//youtube/v3/search", "", 400, "the address in $QUOTAD_PROXY ends with a slash"},
		{"dots out of the credential", "GET " + at + "/../other/get", "", 400, "not a plain segment"},
		{"a batch", "POST " + at + "/batch/youtube/v3", "Content-Length: 0", 404, "send them one by one"},
		{"an upload", "POST " + at + "/upload/youtube/v3/videos?uploadType=resumable", "Content-Length: 0", 404, "acquire before, upload directly"},
		{"an upload at the path of a call", "POST " + at + "/youtube/v3/videos?uploadType=resumable", "Content-Length: 0", 404, "acquire before, upload directly"},
		{"a method within", "POST " + at + "/youtube/v3/videos", "X-HTTP-Method-Override: DELETE", 400, "send the request with its own method"},
		{"a proxy of everything", "GET http://www.googleapis.com/youtube/v3/videos", "Host: www.googleapis.com", 400, "set the base address"},
		{"CONNECT", "CONNECT www.googleapis.com:443", "Host: www.googleapis.com:443", 400, "set the base address"},
		{"another protocol", "GET " + at + "/youtube/v3/videos", "Upgrade: websocket", 400, "no other protocol"},
		{"semicolon", "GET " + videos + "?a=1&b=2;key=mine", "", 400, "; is %3B"},
		{"bad escape", "GET " + videos + "?a=1&c=%zz", "", 400, "% is %25"},
		{"hash", "GET " + videos + "?a=1#&b=2", "", 400, "# is %23"},
		{"hash in the path", "GET " + videos + "#a?part=id", "", 400, "# in it: %23"},
		{"no path", "OPTIONS *", "Authorization: Bearer " + runToken, 400, "name a path"},
		{"token within a parameter", "GET " + videos + "?callback=http%3A%2F%2F127.0.0.1%2F" + runToken + "%2F", "", 400, "holds the run token"},
		{"token in lower case", "GET " + videos + "?a=" + strings.ToLower(runToken), "", 400, "holds the run token"},
		{"token after a semicolon", "GET " + videos + "?a;" + runToken, "", 400, "holds the run token"},
		{"token in the path", "GET " + videos + "/" + runToken, "", 400, "holds the run token"},
		{"token in an encoded path", "GET " + videos + "/%4c" + runToken[1:] + "%2Fb", "", 400, "holds the run token"},
		{"token behind a route", "GET " + at + "/files/" + runToken, "", 400, "holds the run token"},
		{"token as a parameter's name", "GET " + videos + "?" + runToken + "=1", "", 400, "holds the run token"},
		{"method in the query", "GET " + videos + "?a=1&%24httpMethod=DELETE", "", 400, "with its own method"},
		{"Rails's method in the query", "GET " + videos + "?_method=DELETE", "", 400, "with its own method"},
		{"a header's name in the query", "GET " + videos + "?X-HTTP-Method-Override=DELETE", "", 400, "with its own method"},
		{"encoded uploadType", "POST " + videos + "?upload%54ype=resumable", "Content-Length: 0", 404, "upload directly"},
		{"upload_protocol", "POST " + videos + "?upload_protocol=resumable", "Content-Length: 0", 404, "upload directly"},
		{"override with underscores", "POST " + videos, "X_HTTP_Method_Override: DELETE\r\nContent-Length: 0", 400, "with its own method"},
		{"another override", "POST " + videos, "X-Method_Override: DELETE\r\nContent-Length: 0", 400, "with its own method"},
		{"a GET in a form", "POST " + videos, form("id=a"), 400, "with its own method"},
		{"its own method", "POST " + videos, "X-HTTP-Method-Override: POST\r\nContent-Length: 0", 200, ""},
		{"nothing unclear", "GET " + videos + "?id=a", "", 200, ""},
		{"two that differ", "POST " + videos, "X_HTTP_METHOD: DELETE\r\n" + form("id=a"), 400, "with its own method"},
	} {
		t.Run(c.name, func(t *testing.T) {
			headers := []string{"Accept: */*"}
			if c.header != "" {
				headers = []string{c.header}
			}
			status, body := s.raw(c.request, headers...)
			if status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("answered %d %s, want %d %q", status, body, c.status, c.says)
			}
		})
	}
	if received.Load() != 2 || s.used() != 100+1 {
		t.Errorf("the upstream got %d requests, %d units are debited, want an insert and a list", received.Load(), s.used())
	}
	for _, a := range attempts {
		if strings.Contains(fmt.Sprint(a), "TOKEN") {
			t.Errorf("told of a token: %+v", a)
		}
	}
	if len(attempts) != 12 {
		t.Errorf("told of %d attempts, want 12: %+v", len(attempts), attempts)
	}
	if got := s.tokens.Pass(runToken).Refused; len(got) != 43 || !strings.Contains(got[0], "is not this proxy") {
		t.Errorf("refused of the pass: %d calls, want 43: %q", len(got), got)
	}
	if got := s.tokens.WithoutToken(); len(got) != 2 || !strings.HasPrefix(got[0], "youtube: an upload") || !strings.HasPrefix(got[1], "youtube: the run token is missing") {
		t.Errorf("without a token: %q, want the upload, and the call with a dead token as its key", got)
	}
}

// reloading are tokens whose record of a call without one is a reload.
type reloading struct {
	server.Tokens
	reload func()
}

func (r reloading) Tokenless(string, string) { r.reload() }

// A reload may take a credential away while a call without a token is recorded for it.
func TestReloadDuringACallWithoutAToken(t *testing.T) {
	var s *scene
	s = newScene(t, ok, func(c *Config, _ *Target) {
		c.Tokens = reloading{c.Tokens, func() { s.proxy.SetTargets(nil) }}
	})
	other := *s.proxy.Target("youtube")
	other.Credential = "other"
	s.proxy.SetTargets([]*Target{s.proxy.Target("youtube"), &other})
	if a := s.do("GET", s.proxy.Root()+"/youtube/v3/videos", nil, nil); a.status != 403 || !strings.Contains(a.body, "the run token is missing") {
		t.Errorf("answered %d %s", a.status, a.body)
	}
}

func port(s *scene) string {
	_, port, _ := net.SplitHostPort(s.proxy.config.Address)
	return port
}

// A client cannot have the real key left out, nor say which one is sent.
func TestKeyIsNotTheClientsToChange(t *testing.T) {
	got := make(chan http.Header, 1)
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) { got <- r.Header; ok(w, r) }, nil)
	for name, header := range map[string]string{
		"named as hop by hop": "Connection: close, X-Goog-Api-Key, Host",
		"sent along":          "X-Goog-Api-Key: mine\r\nx-goog-api-key: too",
	} {
		if status, body := s.raw("GET /"+runToken+"/youtube/youtube/v3/videos", header); status != 200 {
			t.Fatalf("%s: answered %d %s", name, status, body)
		}
		if keys := (<-got)[apiKeyHeader]; len(keys) != 1 || keys[0] != realKey {
			t.Errorf("%s: sent the keys %q", name, keys)
		}
	}
}

// zeros is a body of a size.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// Large bodies pass both ways, an error's too, and none is kept.
func TestKeepsNoBody(t *testing.T) {
	size := int64(seedtest.Long(t, 16<<20))
	for _, status := range []int{200, 500} {
		s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
			n, err := io.Copy(io.Discard, r.Body)
			if n != size || err != nil {
				t.Errorf("the upstream read %d bytes: %v", n, err)
			}
			w.WriteHeader(status)
			io.CopyN(w, zeros{}, size)
		}, nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r, _ := http.NewRequest("POST", s.base+"files/1", io.LimitReader(zeros{}, size))
		res, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, res.Body)
		if n != size || err != nil || res.StatusCode != status {
			t.Errorf("answered %d with %d bytes: %v", res.StatusCode, n, err)
		}
		runtime.ReadMemStats(&after)
		if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 4<<20 {
			t.Errorf("%d bytes were allocated for a body of %d", allocated, size)
		}
	}
}

// An answer is passed on as it comes.
func TestStreams(t *testing.T) {
	more := make(chan struct{})
	s := newScene(t, func(w http.ResponseWriter, _ *http.Request) {
		io.WriteString(w, "first\n")
		w.(http.Flusher).Flush()
		<-more
		io.WriteString(w, "second\n")
	}, nil)
	r, _ := http.NewRequest("GET", s.base+"youtube/v3/videos", nil)
	res, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewReader(res.Body)
	if line, err := lines.ReadString('\n'); line != "first\n" {
		t.Fatalf("read %q: %v", line, err)
	}
	close(more)
	if line, err := lines.ReadString('\n'); line != "second\n" {
		t.Fatalf("read %q: %v", line, err)
	}
}

// An upstream whose header never ends is given up, by its size or by the time, and its call
// stays debited.
func TestHeaderThatNeverEnds(t *testing.T) {
	for name, every := range map[string]time.Duration{"long": 0, "slow": 50 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				defer conn.Close()
				_, err = io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
				for n := 0; err == nil; n++ {
					_, err = fmt.Fprintf(conn, "X-Line-%d: %s\r\n", n, strings.Repeat("x", 100))
					time.Sleep(every)
				}
			}, nil)
			s.proxy.transport.ResponseHeaderTimeout = time.Second
			if a := s.get("youtube/v3/videos"); a.status != 502 && a.status != 504 {
				t.Errorf("answered %d %s", a.status, a.body)
			}
			if done := s.settled(1)[0]; done.Sent != 1 || s.used() != 1 {
				t.Errorf("told of %+v, %d units are debited", done, s.used())
			}
		})
	}
}

// A proxy that stops lets requests end, cuts those that do not, and leaves none unsettled.
func TestShutdown(t *testing.T) {
	received, more := make(chan struct{}, 2), make(chan struct{})
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
		received <- struct{}{}
		if r.URL.Query().Get("hang") != "" {
			<-r.Context().Done()
			return
		}
		<-more
		ok(w, r)
	}, nil)
	ended := make(chan int, 2)
	for _, query := range []string{"?hang=1", ""} {
		go func() {
			r, _ := http.NewRequest("GET", s.base+"youtube/v3/videos"+query, nil)
			res, err := s.client.Do(r)
			if err != nil {
				ended <- 0
				return
			}
			res.Body.Close()
			ended <- res.StatusCode
		}()
		<-received
	}
	ctx, cancel := context.WithCancel(context.Background())
	stopped := make(chan error, 1)
	go func() { stopped <- s.proxy.Shutdown(ctx) }()
	close(more)
	if status := <-ended; status != 200 {
		t.Errorf("the request that ends in time is answered %d", status)
	}
	cancel()
	if err := <-stopped; err == nil {
		t.Error("the request that does not end is not told of")
	}
	s.mu.Lock() // and does not wait: by now all is settled
	done := s.done
	s.mu.Unlock()
	if len(done) != 2 || s.used() != 2 {
		t.Errorf("told of %+v, %d units are debited", done, s.used())
	}
	<-ended
}

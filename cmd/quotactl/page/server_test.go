package page

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"html/template"
	"io"
	"net"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotactl/wording"
	"quotad/quota/api"
)

// A window is a page that is served, and what is to be seen through it next.
type window struct {
	t     *testing.T
	addr  string
	shown chan seen     // what Look returns next; it waits for that
	ended chan struct{} // closed when Serve has returned
	end   context.CancelFunc
}

type seen struct {
	picture Picture
	err     error
}

func openWindow(t *testing.T, first Picture) *window {
	t.Helper()
	ctx, end := context.WithCancel(context.Background())
	w := &window{t: t, shown: make(chan seen, 1), ended: make(chan struct{}), end: end}
	w.show(first, nil)
	s, err := New(ctx, w.look, time.Millisecond)
	must(t, err)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w.addr = l.Addr().String()
	go func() {
		defer close(w.ended)
		if err := s.Serve(ctx, l); err != nil {
			t.Errorf("Serve: %v", err)
		}
	}()
	t.Cleanup(func() { end(); <-w.ended })
	return w
}

func (w *window) show(p Picture, err error) { w.shown <- seen{p, err} }

func (w *window) look(ctx context.Context) (Picture, error) {
	select {
	case s := <-w.shown:
		return s.picture, s.err
	case <-ctx.Done():
		return Picture{}, ctx.Err()
	}
}

// send sends a request as it stands and returns the answer, its body read.
func (w *window) send(request string) (*http.Response, string) {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.addr)
	must(w.t, err)
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Minute)) // of an answer without an end, which none of these has
	if _, err := io.WriteString(conn, request); err != nil {
		w.t.Fatal(err)
	}
	method, _, _ := strings.Cut(request, " ")
	answer, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: method})
	must(w.t, err)
	body, err := io.ReadAll(answer.Body)
	must(w.t, err)
	return answer, string(body)
}

// get asks as a browser on this machine does.
func (w *window) get(path string) (*http.Response, string) {
	w.t.Helper()
	return w.send(fmt.Sprintf("GET %s HTTP/1.1\r\nHost: %s\r\nSec-Fetch-Site: none\r\nConnection: close\r\n\r\n", path, w.addr))
}

func TestWhoIsLetIn(t *testing.T) {
	w := openWindow(t, paint("trending"))
	_, port, _ := net.SplitHostPort(w.addr)
	for _, row := range []struct {
		name, request string
		want          int
	}{
		{"by its address", "GET / HTTP/1.1\r\nHost: 127.0.0.1:" + port, 200},
		{"as localhost", "GET / HTTP/1.1\r\nHost: LocalHost:" + port, 200},
		{"by this page", "GET /icon.svg HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nSec-Fetch-Site: same-origin", 200},
		{"for the head alone", "HEAD / HTTP/1.1\r\nHost: 127.0.0.1:" + port, 200},
		{"something else", "GET /v1/status HTTP/1.1\r\nHost: 127.0.0.1:" + port, 404},
		{"a name that was rebound", "GET / HTTP/1.1\r\nHost: evil.example:" + port, 403},
		{"a name that begins alike", "GET / HTTP/1.1\r\nHost: 127.0.0.1.evil.example:" + port, 403},
		{"another port", "GET / HTTP/1.1\r\nHost: 127.0.0.1:1", 403},
		{"an empty host", "GET / HTTP/1.1\r\nHost:", 403},
		{"no host", "GET / HTTP/1.0\r\nUser-Agent: old", 403},
		{"an address within the request", "GET http://evil.example/ HTTP/1.1\r\nHost: 127.0.0.1:" + port, 403},
		{"another site", "GET / HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nSec-Fetch-Site: cross-site", 403},
		{"another port's page", "GET / HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nSec-Fetch-Site: same-site", 403},
		{"POST", "POST / HTTP/1.1\r\nHost: 127.0.0.1:" + port + "\r\nContent-Length: 0", 405},
		{"OPTIONS", "OPTIONS * HTTP/1.1\r\nHost: 127.0.0.1:" + port, 405},
	} {
		answer, body := w.send(row.request + "\r\nConnection: close\r\n\r\n")
		if allow := answer.Header.Get("Allow"); answer.StatusCode != row.want || (row.want == 405) != (allow == "GET, HEAD") {
			t.Errorf("%s: answered %d %q, want %d: %s", row.name, answer.StatusCode, allow, row.want, body)
		}
		if row.want == 403 && strings.Contains(body, "trending") {
			t.Errorf("%s: the page was shown: %s", row.name, body)
		}
	}
}

// What the browser is told to keep away, and that the page itself can do with that.
func TestPolicy(t *testing.T) {
	answer, html := openWindow(t, paint("trending")).get("/")
	policy := answer.Header.Get("Content-Security-Policy")
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; style-src " + hashOf(style) + "; script-src " + hashOf(script) +
			"; connect-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
		"X-Frame-Options": "DENY", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer",
		"Cache-Control": "no-store", "Cross-Origin-Opener-Policy": "same-origin", "Cross-Origin-Resource-Policy": "same-origin",
	} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	for _, element := range []string{"style", "script"} {
		_, rest, _ := strings.Cut(html, "<"+element+">")
		content, _, found := strings.Cut(rest, "</"+element+">")
		if n := strings.Count(html, "<"+element); !found || n != 1 || !strings.Contains(policy, element+"-src "+hashOf(content)) {
			t.Errorf("the policy %q does not allow the %s that the page has, of %d", policy, element, n)
		}
	}
	if names := hostsOf(&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}); !slices.Contains(names, "localhost") {
		t.Errorf("at port 80, which browsers leave out, it is called %q", names)
	}
	for _, forbidden := range []string{" style=", " onclick=", "http://", "https://", `href="/`, `src="/`} {
		if strings.Contains(html, forbidden) {
			t.Errorf("the page has %q", forbidden)
		}
	}
}

var section = regexp.MustCompile(`(?s)<section id=.*?</section>`)

// Each section shows texts as they are, also where they say what is not known.
func TestTextIsShownAsText(t *testing.T) {
	const text = `<script>alert("&")</script>'`
	known, unknown := paint(text), paint(text)
	known.Lost, known.Since = errors.New(text), noon
	unknown.RunsErr, unknown.Spent = errors.New(text), map[string]Spent{text: {Err: errors.New(text)}}
	for _, p := range []Picture{known, unknown} {
		sections := section.FindAllString(render(p), -1)
		for _, one := range sections {
			if strings.Contains(one, "<script") || !strings.Contains(one, template.HTMLEscapeString(text)) {
				t.Errorf("it shows the text otherwise: %s", one)
			}
		}
		if len(sections) != 4 {
			t.Errorf("%d sections", len(sections))
		}
	}
}

// The page follows what there is to see. While nobody answers it says so and keeps what it showed.
func TestThePageFollows(t *testing.T) {
	w := openWindow(t, paint("trending"))
	second := paint("trending")
	second.Status.Credentials[0].Limits[0].Used++
	w.show(second, nil)
	w.await("9,001", true)
	w.show(Picture{}, errors.New("cannot be reached"))
	w.show(Picture{}, errors.New("cannot reach quotad"))
	w.await("cannot reach quotad", true)
	if _, html := w.get("/"); !strings.Contains(html, "9,001") || !strings.Contains(html, "cannot reach quotad") || !strings.Contains(html, "<title>? ") {
		t.Errorf("the page is %s", html)
	}
	w.show(second, nil)
	w.await("no answer since", false)
}

// await asks for the page until it has, or has not, a text.
func (w *window) await(text string, has bool) {
	w.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); {
		if _, html := w.get("/"); strings.Contains(html, text) == has {
			return
		}
	}
	w.t.Fatalf("the page never has, or has, %q", text)
}

// Since when quotad does not answer stays when it still does not.
func TestSinceWhenItIsLost(t *testing.T) {
	s := &Server{look: func(context.Context) (Picture, error) { return Picture{}, errors.New("no answer") }}
	s.update(t.Context())
	first := s.shown.Since
	if s.update(t.Context()); first.IsZero() || s.shown.Since != first {
		t.Errorf("since %v, then %v", first, s.shown.Since)
	}
}

// A source reads each log once, page by page, and no further than it must; then the status alone.
func TestSource(t *testing.T) {
	dir := t.TempDir()
	listener, err := net.Listen("unix", dir+"/s")
	must(t, err)
	asked, pages := 0, 3
	at := time.Now().Add(-time.Hour).UTC().Truncate(chartStep)
	daemon := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next := ""
		switch {
		case r.URL.Path == "/v1/status":
			fmt.Fprintf(w, `{"credentials": [{"name": "tube", "limits": [{"name": "daily", "used": %d}]}]}`, asked)
		case r.URL.Path == "/v1/runs":
			io.WriteString(w, `[{"id": "r1"}]`)
		default:
			if asked++; asked < pages {
				next = `"next": "1", `
			}
			fmt.Fprintf(w, `{%s"entries": [{"at": %q, "charges": [{"limit": "daily", "units": 2, "debited": 9}]}]}`,
				next, at.Format(time.RFC3339))
		}
	})}
	go daemon.Serve(listener)
	defer daemon.Close()
	for _, pages = range []int{3, 1000} {
		asked = 0
		s := Source{View: func() wording.View { return wording.View{} }}
		s.Client.Client = &api.Client{Socket: dir + "/s"}
		for range 2 {
			p, err := s.Look(t.Context())
			read, spent := min(pages, maxPages), p.Spent["tube"]
			if err != nil || asked != read || len(p.Facts.Runs) != 1 || spent.Limits["daily"][at] != int64(2*read) ||
				spent.Since.Equal(at) != (read < pages) {
				t.Errorf("of %d pages: %v, asked %d times, %+v", pages, err, asked, p.Facts)
			}
		}
	}
}

// must ends a test at an error.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

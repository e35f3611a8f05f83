package proxy

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
)

// What readers of a request may take for another one is refused, and costs nothing: it is
// not made into a third one.
func TestRequestIsReadByAllAlike(t *testing.T) {
	var received atomic.Int64
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) { received.Add(1); ok(w, r) }, nil)
	at := "/" + runToken + "/youtube/youtube/v3/videos"
	form := func(body string) []string {
		return []string{"X-HTTP-Method-Override: GET", "Content-Type: application/x-www-form-urlencoded", fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(body), body)}
	}
	for _, c := range []struct {
		name, request string
		headers       []string
		status        int
		says          string
	}{
		{"semicolon", "GET " + at + "?a=1&b=2;key=mine", nil, 400, "; is %3B"},
		{"bad escape", "GET " + at + "?a=1&c=%zz", nil, 400, "% is %25"},
		{"hash", "GET " + at + "?a=1#&b=2", nil, 400, "# is %23"},
		{"hash in the path", "GET " + at + "#a?part=id", nil, 400, "# in it: %23"},
		{"no path", "OPTIONS *", []string{"Authorization: Bearer " + runToken}, 400, "name a path"},
		{"token within a parameter", "GET " + at + "?callback=http%3A%2F%2F127.0.0.1%2F" + runToken + "%2F", nil, 400, "holds the run token"},
		{"token in lower case", "GET " + at + "?a=" + strings.ToLower(runToken), nil, 400, "holds the run token"},
		{"token after a semicolon", "GET " + at + "?a;" + runToken, nil, 400, "holds the run token"},
		{"token in the path", "GET " + at + "/" + runToken, nil, 400, "holds the run token"},
		{"token in an encoded path", "GET " + at + "/%4c" + runToken[1:] + "%2Fb", nil, 400, "holds the run token"},
		{"token as a parameter's name", "GET " + at + "?" + runToken + "=1", nil, 400, "holds the run token"},
		{"method in the query", "GET " + at + "?a=1&%24httpMethod=DELETE", nil, 400, "with its own method"},
		{"Rails's method in the query", "GET " + at + "?_method=DELETE", nil, 400, "with its own method"},
		{"a header's name in the query", "GET " + at + "?X-HTTP-Method-Override=DELETE", nil, 400, "with its own method"},
		{"encoded uploadType", "POST " + at + "?upload%54ype=resumable", []string{"Content-Length: 0"}, 404, "upload directly"},
		{"upload_protocol", "POST " + at + "?upload_protocol=resumable", []string{"Content-Length: 0"}, 404, "upload directly"},
		{"override with underscores", "POST " + at, []string{"X_HTTP_Method_Override: DELETE", "Content-Length: 0"}, 400, "with its own method"},
		{"another override", "POST " + at, []string{"X-Method_Override: DELETE", "Content-Length: 0"}, 400, "with its own method"},
		{"a GET in a form", "POST " + at, form("id=a"), 400, "with its own method"},
		{"its own method", "POST " + at, []string{"X-HTTP-Method-Override: POST", "Content-Length: 0"}, 200, ""},
		{"nothing unclear", "GET " + at + "?id=a", nil, 200, ""},
		{"two that differ", "POST " + at, append([]string{"X_HTTP_METHOD: DELETE"}, form("id=a")...), 400, "with its own method"},
	} {
		t.Run(c.name, func(t *testing.T) {
			status, body := s.raw(c.request, append([]string{"Host: " + s.proxy.config.Address}, c.headers...)...)
			if status != c.status || !strings.Contains(body, c.says) {
				t.Errorf("answered %d %s, want %d %q", status, body, c.status, c.says)
			}
		})
	}
	if received.Load() != 2 || s.used() != 100+1 {
		t.Errorf("the upstream got %d requests, %d units are debited, want an insert and a list", received.Load(), s.used())
	}
}

// The run token leaves in no header, and no header is sent that some servers read as one
// which is taken out.
func TestTokenStaysHere(t *testing.T) {
	got := make(chan *http.Request, 1)
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) { got <- r; ok(w, r) }, nil)
	basic := func(text string) string {
		return "Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte(text))
	}
	for _, header := range []string{
		basic("me:" + runToken), basic(runToken + ":"), basic(runToken + ":x-oauth-basic"), "Authorization: Bearer " + runToken,
		"Authorization: Basic bWU6bWU=\r\nAuthorization: Bearer " + runToken, "Authorization:  token\t" + runToken,
		"X_Goog_Api_Key: " + runToken, "X-Goog_Api-Key: mine", "Cookie: a=b; t=" + runToken, "Referer: " + s.base, "X-Call: " + strings.ToLower(runToken), "X_Original_Url: /else",
	} {
		for _, at := range []string{"/" + runToken + "/youtube/youtube/v3/videos?part=id&access_token=" + runToken, "/youtube/v3/videos?part=id&key=" + runToken} {
			if status, body := s.raw("GET "+at, "Host: "+s.proxy.config.Address, header); status != 200 {
				t.Fatalf("%s: answered %d %s", header, status, body)
			}
			r := <-got
			text := fmt.Sprint(r.URL, r.Header)
			for _, value := range r.Header[authorization] {
				text += fmt.Sprint(keysIn(value))
			}
			if strings.Contains(text, runToken) || r.URL.RawQuery != "part=id" || strings.Contains(text, "_") {
				t.Errorf("%s: sent %s", header, text)
			}
		}
	}
	// As Basic it is the key, too.
	for _, header := range []string{basic("me:" + runToken), basic(runToken + ":")} {
		if status, body := s.raw("GET /youtube/v3/videos", "Host: "+s.proxy.config.Address, header); status != 200 {
			t.Errorf("%s: answered %d %s", header, status, body)
		} else {
			<-got
		}
	}
}

// A method that no client of an API needs reaches no upstream, whatever the route says.
func TestMethods(t *testing.T) {
	got := make(chan string, 16)
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) { got <- r.Method; ok(w, r) }, func(_ *Config, target *Target) {
		target.Routes, _ = NewRoutes(map[string]string{"* /**": "videos.list", "* /none/**": ""})
	})
	at := " /" + runToken + "/youtube/"
	for _, method := range []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"} {
		if status, body := s.raw(method+at+"any", "Host: "+s.proxy.config.Address, "Content-Length: 0"); status != 200 {
			t.Errorf("%s: answered %d %s", method, status, body)
		} else if sent := <-got; sent != method {
			t.Errorf("%s: sent %s", method, sent)
		}
	}
	before := s.used()
	for _, request := range []string{"TRACE" + at + "any", "TRACK" + at + "any", "PROPFIND" + at + "any", "get" + at + "any", "GET" + at + "none", "POST" + at + "none/2"} {
		if status, body := s.raw(request, "Host: "+s.proxy.config.Address, "Content-Length: 0"); status != 404 || !strings.Contains(body, "unknown_operation") {
			t.Errorf("%s: answered %d %s", request, status, body)
		}
	}
	if s.used() != before || before != 7 {
		t.Errorf("%d units are debited, want %d", s.used(), before)
	}
}

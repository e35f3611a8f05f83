package proxy

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

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

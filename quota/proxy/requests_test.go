package proxy

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"

	"quotad/quota/server"
	"quotad/quota/server/servertest"
)

// raw sends a request as it is written, with the proxy's own Host unless it names one.
func (s *scene) raw(request string, headers ...string) servertest.Response {
	s.Helper()
	conn, err := net.Dial("tcp", s.proxy.config.Address)
	servertest.Must(s, err)
	if len(headers) == 0 || !strings.HasPrefix(headers[0], "Host:") {
		headers = append([]string{"Host: " + s.proxy.config.Address}, headers...)
	}
	method, path, _ := strings.Cut(request, " ")
	wire := servertest.NewConn(s, conn)
	defer wire.Close()
	return wire.Raw(method, path, "", headers...)
}

// fromFile reads a file of testdata.
func fromFile(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	servertest.Must(t, err)
}

// What is not a plain call of a route reaches no upstream and costs nothing, and so does what readers of a request may
// take for another one: it is not made into a third one. What is sent is the request as it came, with the real key alone.
func TestRequests(t *testing.T) {
	var rows []struct {
		Name, Scene, Request string   // in them TOKEN, HOST, PORT and KEY are those of the scene; LONG is a long path
		Header               []string // also the body, after an empty line
		Status               int
		Says, Sent           string            // in the answer; to the upstream
		Got                  map[string]string // fields of the upstream's request; empty: it has none. Nil: it has the key
		Units                int
	}
	fromFile(t, "requests.json", &rows)
	routesOf := func(table map[string]string) func(*Target) {
		routes, wrong := NewRoutes(table)
		if wrong != nil {
			t.Fatal(wrong[0])
		}
		return func(target *Target) { target.Routes = routes }
	}
	edits := map[string]func(*Target){
		"": func(*Target) {},
		"sites": routesOf(map[string]string{
			"POST /sites/{site}/query": "videos.list",
			"GET /sites/{site}":        "videos.list",
			"GET /cheap/**":            "videos.list",
			"GET /{any}/{other}":       "search.list",
			"GET /cheap/{one}":         "videos.list",
			"GET /sites/dear":          "search.list",
			"GET /works":               "videos.list",
			"GET /works ?search":       "search.list",
			"GET /models/{m}:go":       "search.list",
		}),
		"any":     routesOf(map[string]string{"* /**": "videos.list", "* /none/**": ""}),
		"bearer":  func(target *Target) { target.KeyHeader = authorization },
		"keyless": func(target *Target) { target.Key = nil },
		"parameter": func(target *Target) {
			target.Key, target.KeyHeader, target.KeyParameter = FixedKey("a+b&part=c #%41/="), authorization, "api_key"
		},
		"base": func(target *Target) { target.Upstream.Path = "/base" },
	}
	var mu sync.Mutex // guards what follows
	var got *http.Request
	var attempts []server.Forbidden
	denials := 0
	scenes := map[string]*scene{}
	for name, edit := range edits {
		s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			got = r
			ok(w, r)
		}, func(c *Config, target *Target) {
			edit(target)
			c.Emit = func(event any) {
				mu.Lock()
				defer mu.Unlock()
				switch e := event.(type) {
				case server.Forbidden:
					attempts = append(attempts, e)
				case server.Decided:
					if !e.Decision.Granted() {
						denials++
					}
				}
			}
		})
		s.tokens.Issue("OTHERPASS", "other", "US", "other")
		s.tokens.Issue("DEADPASS", "trending", "DE", "youtube")
		s.tokens.Revoke("DEADPASS")
		scenes[name] = s
	}
	for _, row := range rows {
		t.Run(row.Name, func(t *testing.T) {
			s := scenes[row.Scene]
			_, port, _ := net.SplitHostPort(s.proxy.config.Address)
			is := strings.NewReplacer("4cTOKEN", "4c"+runToken[1:], "TOKEN", runToken, "lowertoken", strings.ToLower(runToken), "HOST", s.proxy.config.Address, "PORT", port,
				"KEY", realKey, "LONG", strings.Repeat("a", 64<<10))
			headers := []string{"Accept: */*"}
			if row.Header != nil {
				headers = strings.Split(is.Replace(strings.Join(row.Header, "\r\n")), "\r\n")
			}
			mu.Lock()
			got = nil
			mu.Unlock()
			before := s.used()
			a := s.raw(is.Replace(row.Request), headers...)
			if a.Status != row.Status || !strings.Contains(a.Body, row.Says) || int(s.used()-before) != row.Units {
				t.Errorf("answered %d %s, for %d units, want %d %q, for %d", a.Status, a.Body, s.used()-before, row.Status, row.Says, row.Units)
			}
			mu.Lock()
			defer mu.Unlock()
			if (got != nil) != (row.Sent != "") {
				t.Fatalf("sent %v, want %s", got, row.Sent)
			}
			if got == nil {
				return
			}
			if sent := got.Method + " " + got.RequestURI; sent != row.Sent {
				t.Errorf("sent %s, want %s", sent, row.Sent)
			}
			if row.Got == nil {
				row.Got = map[string]string{apiKeyHeader: realKey}
			}
			for name, want := range row.Got {
				if values := got.Header[name]; strings.Join(values, "; ") != is.Replace(want) {
					t.Errorf("sent %s: %q, want %s", name, values, want)
				}
			}
			text := fmt.Sprint(got.RequestURI, got.Header)
			for _, value := range got.Header[authorization] {
				text += fmt.Sprint(keysIn(value))
			}
			if strings.Contains(strings.ToUpper(text), runToken) || strings.Contains(fmt.Sprint(got.Header), "_") || strings.Contains(text, "X-Forwarded") {
				t.Errorf("sent %s", text)
			}
		})
	}
	for _, a := range attempts {
		if strings.Contains(fmt.Sprint(a), "PASS") || strings.Contains(fmt.Sprint(a), runToken) {
			t.Errorf("an event has a token: %+v", a)
		}
	}
	s := scenes[""]
	refused := s.tokens.Pass(runToken).Refused
	if len(attempts) != 12 || denials != 60 || len(refused) != 43 || !strings.Contains(refused[0], "is not this proxy") {
		t.Errorf("%d attempts, want 12; %d denials, want 60; the pass: %q, want 43", len(attempts), denials, refused)
	}
	if a := s.do("GET", s.proxy.Root()+"/youtube/v3/videos", nil, nil); !a.closes {
		t.Error("the connection of a caller without a token stays")
	}
}

package proxy

import (
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
)

// The path of the upstream begins all others, on the way there and in what it links.
func TestAnUpstreamWithAPath(t *testing.T) {
	var got atomic.Value
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) {
		got.Store(r.RequestURI)
		w.Header().Set("Location", "http://"+r.Host+"/base/youtube/v3/videos?id=a")
		ok(w, r)
	}, func(_ *Config, target *Target) { target.Upstream.Path = "/base" })
	a := s.get("youtube/v3/videos")
	if got.Load() != "/base/youtube/v3/videos" || a.header.Get("Location") != s.base+"youtube/v3/videos?id=a" {
		t.Errorf("sent %v, answered %d %v", got.Load(), a.status, a.header)
	}
}

// A key that is a parameter is escaped: it changes no other one.
func TestAKeyAsAParameter(t *testing.T) {
	const key = "a+b&part=c #%41/="
	got := make(chan url.Values, 1)
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) { got <- r.URL.Query(); ok(w, r) },
		func(_ *Config, target *Target) { target.Key, target.KeyParameter = FixedKey(key), "api_key" })
	a := s.get("youtube/v3/videos?part=id&api_key=dummy")
	if a.status != 200 {
		t.Fatalf("answered %d %s", a.status, a.body)
	}
	want := url.Values{"part": {"id"}, "api_key": {key}}
	if q := <-got; !reflect.DeepEqual(q, want) {
		t.Errorf("sent %q, want %q", q, want)
	}
}

// A segment may hold what was escaped in it, such as an address: it is one segment for the routes,
// and the upstream gets it as it came. What some readers take for another path is refused.
func TestAddressesAsTheyAre(t *testing.T) {
	var got atomic.Value
	table, wrong := NewRoutes(map[string]string{
		"POST /sites/{site}/query": "videos.list",
		"GET /sites/{site}":        "videos.list",
		"GET /cheap/**":            "videos.list",
		"GET /{any}/{other}":       "search.list",
		"GET /cheap/{one}":         "videos.list",
		"GET /sites/dear":          "search.list",
		"GET /models/{m}:go":       "search.list",
	})
	if wrong != nil {
		t.Fatal(wrong[0].Route, wrong[0].Err)
	}
	s := newScene(t, func(w http.ResponseWriter, r *http.Request) { got.Store(r.RequestURI); ok(w, r) },
		func(_ *Config, target *Target) { target.Routes = table })
	for _, c := range []struct {
		request string
		units   int // of its operation; 0: refused
		says    string
	}{
		{"POST /sites/https%3A%2F%2Fexample.com%2F/query", 1, ""},
		{"POST /sites/https%3a%2f%2fexample.com%2fa%2fb%2f/query", 1, ""},
		{"POST /sites/sc-domain:example.com/query", 1, ""},
		{"POST /sites/sc-domain%3Aexample.com/query", 1, ""},
		{"POST /sites/https%3A%2F%2Fexample.com%2Fm%C3%BCnchen%20%2B%2F/query", 1, ""},
		{"POST /sites/%2F/query", 1, ""},
		{"POST /sites/100%25/query", 1, ""},
		{"GET /models/a:go", 100, ""},
		{"GET /models/a%2Fb:go", 100, ""},
		{"GET /cheap/a%2Fb", 1, ""},
		{"GET /cheap%2Fa/b", 100, ""},
		{"GET /sites/a%2F..%2Fb", 0, "not a plain segment"},
		{"POST /sites/a%252Fb/query", 0, "not a plain segment"},
		{"GET /che%2561p/b", 0, "not a plain segment"},
		{"GET /sites/%252e%252e", 0, "not a plain segment"},
		{"GET /sites/a%5Cb", 0, "not a plain segment"},
		{"GET /sites/dear;v=1", 0, "not a plain segment"},
		{"GET /sites/dear%3Bv=1", 0, "not a plain segment"},
		{"GET /sites/x/..;/dear", 0, "not a plain segment"},
		{"GET /sites/dear%20", 0, "not a plain segment"},
		{"GET /sites/dear.", 0, "not a plain segment"},
		{"GET /sites/dear%00", 0, "not a plain segment"},
		{"GET /sites//dear", 0, "not a plain segment"},
		{"GET /" + strings.Repeat("a", 64<<10), 0, ""},
		{"POST /sites%2Fa%2Fquery", 0, "no route"},
	} {
		t.Run(c.request, func(t *testing.T) {
			got.Store("")
			before := s.used()
			method, path, _ := strings.Cut(c.request, " ")
			status, body := s.raw(method+" /"+runToken+"/youtube"+path, "Content-Length: 0")
			want := path
			if c.units == 0 {
				want = ""
			}
			if sent := got.Load(); sent != want || (status == 200) != (c.units > 0) || !strings.Contains(body, c.says) {
				t.Errorf("answered %d %s; the upstream got %q, want %q", status, body, sent, want)
			}
			if used := int(s.used() - before); used != c.units {
				t.Errorf("cost %d units, want %d", used, c.units)
			}
		})
	}
}

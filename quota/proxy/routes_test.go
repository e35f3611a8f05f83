package proxy

import (
	"errors"
	"net/url"
	"strings"
	"testing"
)

func TestRoutesFind(t *testing.T) {
	table, wrong := NewRoutes(map[string]string{
		"* /**":             "core",
		"GET /search/*":     "search",
		"GET /search/code":  "search.code",
		"HEAD /search/code": "look",
		"POST /v1beta/models/{model}:generateContent": "generate",
		"POST /v1beta/models/{model}":                 "model",
		"GET /v1/{name=projects/*}/topics":            "topics",
		"GET /v1/{+name}":                             "any",
	})
	if wrong != nil {
		t.Fatal(wrong)
	}
	for request, want := range map[string]string{
		"GET /search/code":                          "search.code",
		"HEAD /search/code":                         "look",
		"HEAD /search/issues":                       "search",
		"GET /search/code/":                         "search.code",
		"GET /se%61rch/c%6Fde":                      "search.code",
		"POST /search/code":                         "core",
		"GET /search/issues":                        "search",
		"GET /search":                               "core",
		"GET /search/a/b":                           "core",
		"GET /":                                     "core",
		"POST /v1beta/models/g-2:generateContent":   "generate",
		"POST /v1beta/models/:generateContent":      "model",
		"POST /v1beta/models/g-2:embed":             "model",
		"GET /v1/projects/p/topics":                 "topics",
		"GET /v1/projects/p/subscriptions/s/extras": "any",
	} {
		method, path, _ := strings.Cut(request, " ")
		segments, err := split(path)
		if err != nil {
			t.Errorf("%s: %v", request, err)
			continue
		}
		if got, _ := table.find(method, segments, nil); got != want {
			t.Errorf("%s is %q, want %q", request, got, want)
		}
	}
}

// Where two patterns of one operation match, it does not matter which is narrower; that of another
// operation must be narrower than each of them.
func TestRoutesOfOneOperation(t *testing.T) {
	table, wrong := NewRoutes(map[string]string{
		"GET /{list}": "list", "GET /{list} ?search": "search", "GET /{list} ?exact": "search", "GET /works ?free&exact&search": "free",
	})
	if wrong != nil {
		t.Fatal(wrong[0].Route, wrong[0].Err)
	}
	for query, want := range map[string]string{"": "list", "search=a": "search", "exact=a": "search", "search=a&exact=b": "search", "search=a&exact=b&free": "free"} {
		values, _ := url.ParseQuery(query)
		if got, _ := table.find("GET", []string{"works"}, values); got != want {
			t.Errorf("%q is %q, want %q", query, got, want)
		}
	}
	table, _ = NewRoutes(map[string]string{"GET /works ?search": "search", "GET /works ?exact": "exact", "GET /works ?free&exact&search": "free"})
	for query, want := range map[string]string{"search&exact": "match alike", "search&exact&free": "", "search": ""} {
		values, _ := url.ParseQuery(query)
		if _, err := table.find("GET", []string{"works"}, values); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", query, err, want)
		}
	}
}

// A route may name parameters. They are read as the upstream reads them: decoded, and there even
// where they are empty.
func TestRoutesByParameter(t *testing.T) {
	table, wrong := NewRoutes(map[string]string{
		"GET /works":                      "list",
		"GET /works ?search":              "search",
		"GET /works ?filter":              "filter",
		"GET /works ?search&filter":       "both",
		"GET /works ?search=exact":        "exact",
		"GET /works ?search=exact&filter": "exact",
		"GET /**":                         "any",
		"GET /** ?search":                 "anywhere",
		"GET /*/{id} ?a=1&b=2":            "two",
		"GET /*/{id} ?search&a=1&b=2":     "two",
		"POST /works ?filter[x]":          "brackets",
	})
	if wrong != nil {
		for _, w := range wrong {
			t.Error(w.Route, w.Err)
		}
		t.FailNow()
	}
	for request, want := range map[string]string{
		"GET /works":                            "list",
		"GET /works ?page=2":                    "list",
		"GET /works ?search=x":                  "search",
		"HEAD /works ?search=x":                 "search",
		"GET /works ?page=2&search=x":           "search",
		"GET /works ?search":                    "search",
		"GET /works ?search=":                   "search",
		"GET /works ?s%65arch=x":                "search",
		"GET /works ?search=x&search=y":         "twice search",
		"GET /works ?search=exact&search=exact": "exact",
		"GET /works ?search=ex%61ct":            "exact",
		"GET /works ?Search=x":                  "list",
		"GET /works ?search[]=x":                "list",
		"GET /works ?filter=a&filter=b":         "filter",
		"GET /works ?filter=a&search=x":         "both",
		"GET /works ?filter=a&search=exact":     "exact",
		"GET /authors ?search=x&search=y":       "anywhere",
		"GET /authors/1 ?a=1&b=2":               "two",
		"GET /authors/1 ?a=1&b=3":               "any",
		"GET /authors/1 ?a=1&a=2":               "twice a",
		"POST /works ?filter%5Bx%5D=1":          "brackets",
		"POST /works":                           "",
	} {
		method, path, _ := strings.Cut(request, " ")
		path, query, _ := strings.Cut(path, " ?")
		segments, _ := split(path)
		values, _ := url.ParseQuery(query)
		got, err := table.find(method, segments, values)
		if err != nil && !errors.Is(err, errNoRoute) {
			got = "twice " + strings.Split(err.Error(), `"`)[1]
		}
		if got != want {
			t.Errorf("%s is %q, want %q", request, got, want)
		}
	}
}

func TestRoutesThatAreWrong(t *testing.T) {
	for _, c := range []struct{ one, other, want string }{
		{"GET /a", "GET b", "is not a route"},
		{"GET /a", "get /b", `the method "get": write GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, or * for any`},
		{"GET /a", "TRACE /b", `the method "TRACE"`},
		{"GET /a", "GET /b/", "empty segment"},
		{"GET /a", "GET /**/b", "elsewhere than at its end"},
		{"GET /a", "GET /b?c=1", "parameters follow it after a space"},
		{"GET /a", "GET /a q", `has "q" after its path`},
		{"GET /a", "GET /a ?", `the parameter ""`},
		{"GET /a", "GET /a ?%71", `the parameter "%71"`},
		{"GET /a", "GET /a ?q&q=1", `the parameter "q" twice`},
		{"GET /a ?p", "GET /a", ""},
		{"GET /a ?p", "GET /a ?p&q", ""},
		{"GET /a ?p", "GET /a ?p=1", ""},
		{"GET /a ?p=1", "GET /a ?p=2", ""},
		{"GET /a ?p", "GET /b ?q", ""},
		{"GET /a", "GET /b/../c", `segment ".."`},
		{"GET /a", "GET /b/x*", "must be a whole segment"},
		{"GET /a/{x}:go", "GET /a/{x}", ""},
		{"GET /a/{x}:go", "GET /a/{x}:stop", ""},
		{"GET /a/b:go", "GET /a/{x}:go", ""},
		{"GET /a/**", "GET /a/b/*", ""},
		{"GET /a/**", "POST /*/b", ""},
	} {
		_, wrong := NewRoutes(map[string]string{c.one: "x", c.other: "y"})
		switch {
		case c.want == "" && wrong != nil:
			t.Errorf("%s beside %s: %v", c.one, c.other, wrong)
		case c.want != "" && (len(wrong) != 1 || !strings.Contains(wrong[0].Err.Error(), c.want)):
			t.Errorf("%s beside %s: %v, want %s", c.one, c.other, wrong, c.want)
		}
	}
}

package proxy

import (
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
		if got, _ := table.find(method, segments); got != want {
			t.Errorf("%s is %q, want %q", request, got, want)
		}
	}
}

func TestRoutesThatAreWrong(t *testing.T) {
	for _, c := range []struct{ one, other, want string }{
		{"GET /a/*", "GET /*/b", "overlaps"},
		{"* /a/b", "GET /a/*", "overlaps"},
		{"GET /a/{x}", "GET /a/*", "matches the same requests"},
		{"GET /a/**", "GET /*/b/**", "overlaps"},
		{"GET /a", "GET b", "is not a route"},
		{"GET /a", "get /b", `the method "get": write GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS, or * for any`},
		{"GET /a", "TRACE /b", `the method "TRACE"`},
		{"GET /a", "GET /b/", "empty segment"},
		{"GET /a", "GET /**/b", "elsewhere than at its end"},
		{"GET /a", "GET /b?c=1", "without a query"},
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

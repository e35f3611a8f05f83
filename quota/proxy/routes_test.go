package proxy

import (
	"maps"
	"net/url"
	"strings"
	"testing"
)

// Which route a request is: of those that match, the one that says most of it. Parameters are read as the upstream reads
// them: decoded, and there even where they are empty. What is wrong with a route is said beside others.
func TestRoutes(t *testing.T) {
	var tables []struct{ Routes, Requests, Wrong map[string]string }
	fromFile(t, "routes.json", &tables)
	for _, table := range tables {
		routes, wrong := NewRoutes(table.Routes)
		if wrong != nil {
			t.Fatal(wrong[0].Route, wrong[0].Err)
		}
		for request, want := range table.Requests {
			method, path, _ := strings.Cut(request, " ")
			path, query, _ := strings.Cut(path, " ?")
			segments, err := split(path)
			values, err2 := url.ParseQuery(query)
			if err != nil || err2 != nil {
				t.Fatalf("%s: %v, %v", request, err, err2)
			}
			got, err := routes.find(method, segments, values)
			if says, fails := strings.CutPrefix(want, "error: "); (err != nil) != fails || !fails && got != want || fails && !strings.Contains(err.Error(), says) {
				t.Errorf("%s is %q, %v, want %q", request, got, err, want)
			}
		}
		for route, says := range table.Wrong {
			with := maps.Clone(table.Routes)
			with[route] = "y"
			if _, wrong := NewRoutes(with); len(wrong) != 1 || wrong[0].Route != route || !strings.Contains(wrong[0].Err.Error(), says) {
				t.Errorf("%s: %v, want %s", route, wrong, says)
			}
		}
	}
}

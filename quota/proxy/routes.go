package proxy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Routes say which operation a request is; an empty one is refused.
type Routes struct {
	patterns   []pattern
	operations []string // by the place of its pattern
}

// A RouteError says which route is wrong, and why.
type RouteError struct {
	Route string // as it was given
	Err   error
}

// NewRoutes returns routes of patterns and their operations. Of patterns that match the
// same request one must be narrower than the other, and counts. The errors are all that
// is wrong.
func NewRoutes(table map[string]string) (*Routes, []*RouteError) {
	routes, wrong := &Routes{}, []*RouteError(nil)
	for _, text := range slices.Sorted(maps.Keys(table)) {
		p, err := parsePattern(text)
		if err == nil {
			err = routes.conflict(p)
		}
		if err != nil {
			wrong = append(wrong, &RouteError{Route: text, Err: err})
			continue
		}
		routes.patterns, routes.operations = append(routes.patterns, p), append(routes.operations, table[text])
	}
	return routes, wrong
}

// conflict says which of the patterns would make it chance what a request is.
func (r *Routes) conflict(p pattern) error {
	for _, other := range r.patterns {
		switch p.to(&other) {
		case equal:
			return fmt.Errorf("matches the same requests as %q: remove one of the two", other.text)
		case crossing:
			return fmt.Errorf("overlaps %q, and neither is narrower: a request of both would be either; write one of them more narrowly", other.text)
		}
	}
	return nil
}

// Len is how many routes there are.
func (r *Routes) Len() int { return len(r.patterns) }

// find returns the operation of the narrowest pattern that matches.
func (r *Routes) find(method string, path []string) (operation string, found bool) {
	best := -1
	for i := range r.patterns {
		if p := &r.patterns[i]; p.matches(method, path) && (best < 0 || p.to(&r.patterns[best]) == narrower) {
			best = i
		}
	}
	if best < 0 {
		return "", false
	}
	return r.operations[best], true
}

// nearest returns the pattern that looks most like a request, for a hint.
func (r *Routes) nearest(path []string) string {
	common := func(p pattern) (n int) {
		for n < min(len(path), len(p.segments)) && p.segments[n].matches(path[n]) {
			n++
		}
		return n
	}
	if len(r.patterns) == 0 {
		return ""
	}
	return slices.MaxFunc(r.patterns, func(a, b pattern) int { return cmp.Compare(common(a), common(b)) }).text
}

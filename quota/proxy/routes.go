package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// Routes say which operation a request is; an empty one is refused.
type Routes struct{ patterns []pattern }

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
		p, err := parsePattern(text, table[text])
		if err == nil {
			err = routes.conflict(p)
		}
		if err != nil {
			wrong = append(wrong, &RouteError{Route: text, Err: err})
			continue
		}
		routes.patterns = append(routes.patterns, p)
	}
	return routes, wrong
}

// conflict returns an error if a request could match p and another pattern, and neither is
// narrower.
func (r *Routes) conflict(p pattern) error {
	for _, other := range r.patterns {
		switch covers, covered := p.covers(&other), other.covers(&p); {
		case covers && covered:
			return fmt.Errorf("matches the same requests as %q: remove one of the two", other.text)
		case !covers && !covered && p.overlaps(&other):
			return fmt.Errorf("overlaps %q, and neither is narrower: a request of both would be either; write one of them more narrowly", other.text)
		}
	}
	return nil
}

// Len is how many routes there are.
func (r *Routes) Len() int { return len(r.patterns) }

// find returns the operation of the narrowest pattern that matches.
func (r *Routes) find(method string, path []string) (operation string, found bool) {
	var best *pattern
	for i := range r.patterns {
		p := &r.patterns[i]
		if !p.matches(method, path) {
			continue
		}
		if best == nil || best.covers(p) {
			best = p
		}
	}
	if best == nil {
		return "", false
	}
	return best.operation, true
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

// A pattern is a method and a path template, as Google's discovery documents write
// it: "GET /youtube/v3/search", "POST /v1/models/{model}:generateContent", "* /**".
type pattern struct {
	text      string
	operation string
	method    string    // "*" stands for any of methods
	segments  []segment // of the path
	rest      bool      // any number of segments may follow
}

// A segment is a literal, or stands for any one segment that ends in its verb.
type segment struct {
	literal string
	any     bool
	verb    string // of any: "generateContent"; empty: it may end as it likes
}

var (
	variable = regexp.MustCompile(`\{([^{}=+]+)\}`)        // one segment
	rest     = regexp.MustCompile(`\{\+[^{}=+]+\}`)        // any number of them
	assigned = regexp.MustCompile(`\{[^{}=+]+=([^{}]*)\}`) // the template behind the name
)

// methods are what clients of APIs send, and what * stands for. TRACE is not among them: its
// answer repeats the key.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

var errPattern = errors.New(`is not a route: write a method, or *, and a path, such as "GET /youtube/v3/search"`)

// parsePattern reads a pattern of an operation.
func parsePattern(text, operation string) (pattern, error) {
	method, path, found := strings.Cut(text, " ")
	if !found || !strings.HasPrefix(path, "/") {
		return pattern{}, errPattern
	}
	if method != "*" && !slices.Contains(methods, method) {
		return pattern{}, fmt.Errorf("has the method %q: write %s, or * for any of these", method, strings.Join(methods, ", "))
	}
	path = assigned.ReplaceAllString(path, "$1")
	path = rest.ReplaceAllString(variable.ReplaceAllString(path, "*"), "**")
	p := pattern{text: text, operation: operation, method: method}
	parts := strings.Split(path[1:], "/")
	if parts[len(parts)-1] == "**" {
		p.rest, parts = true, parts[:len(parts)-1]
	} else if path == "/" {
		parts = nil
	}
	for _, part := range parts {
		s, err := parseSegment(part)
		if err != nil {
			return pattern{}, err
		}
		p.segments = append(p.segments, s)
	}
	return p, nil
}

func parseSegment(part string) (segment, error) {
	switch name, verb, has := strings.Cut(part, ":"); {
	case part == "":
		return segment{}, errors.New("has an empty segment in its path: write one slash, and none at the end")
	case part == "." || part == "..":
		return segment{}, fmt.Errorf("has the segment %q, which no request reaches: write the path itself", part)
	case part == "**":
		return segment{}, errors.New("has ** elsewhere than at its end: write * for one segment")
	case name == "*" && (!has || verb != "" && !strings.ContainsAny(verb, "*{}")):
		return segment{any: true, verb: verb}, nil
	case strings.ContainsAny(part, "*{}"):
		return segment{}, fmt.Errorf("has the segment %q: * or {name} must be a whole segment, or be followed by a :verb", part)
	case strings.ContainsAny(part, "?#% \\"):
		return segment{}, fmt.Errorf("has the segment %q: a path is written without a query, and not encoded", part)
	}
	return segment{literal: part}, nil
}

// matches reports whether a request is one of the pattern's.
func (p *pattern) matches(method string, path []string) bool {
	if !slices.Contains(methods, method) || !coversMethod(p.method, method) {
		return false
	}
	if len(path) < len(p.segments) || len(path) > len(p.segments) && !p.rest {
		return false
	}
	for i, s := range p.segments {
		if !s.matches(path[i]) {
			return false
		}
	}
	return true
}

func (s segment) matches(part string) bool {
	if !s.any {
		return part == s.literal
	}
	return s.verb == "" || len(part) > len(s.verb)+1 && strings.HasSuffix(part, ":"+s.verb)
}

// overlaps reports whether a request can match both p and q.
func (p *pattern) overlaps(q *pattern) bool {
	overlap := (coversMethod(p.method, q.method) || coversMethod(q.method, p.method)) && (p.coversLength(q) || q.coversLength(p))
	for i := range min(len(p.segments), len(q.segments)) {
		overlap = overlap && (p.segments[i].covers(q.segments[i]) || q.segments[i].covers(p.segments[i]))
	}
	return overlap
}

// covers reports whether p matches all requests that q does.
func (p *pattern) covers(q *pattern) bool {
	if !coversMethod(p.method, q.method) || !p.coversLength(q) {
		return false
	}
	for i, s := range p.segments {
		if !s.covers(q.segments[i]) {
			return false
		}
	}
	return true
}

// coversMethod: a route of GET matches HEAD, too.
func coversMethod(a, b string) bool { return a == b || a == "*" || a == "GET" && b == "HEAD" }

func (s segment) covers(o segment) bool {
	return s == o || s.any && (o.any && s.verb == "" || !o.any && s.matches(o.literal))
}

// coversLength compares how many segments the two may have.
func (p *pattern) coversLength(q *pattern) bool {
	return len(p.segments) == len(q.segments) && p.rest == q.rest || p.rest && len(q.segments) >= len(p.segments)
}

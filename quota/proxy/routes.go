package proxy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/url"
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
// same request one must be narrower than all others, and counts. The errors are all that
// is wrong.
func NewRoutes(table map[string]string) (*Routes, []*RouteError) {
	routes, wrong := &Routes{}, []*RouteError(nil)
	for _, text := range slices.Sorted(maps.Keys(table)) {
		p, err := parsePattern(text, table[text])
		if err != nil {
			wrong = append(wrong, &RouteError{Route: text, Err: err})
			continue
		}
		routes.patterns = append(routes.patterns, p)
	}
	for i := range routes.patterns {
		if err := routes.conflict(i); err != nil {
			wrong = append(wrong, &RouteError{Route: routes.patterns[i].text, Err: err})
		}
	}
	return routes, wrong
}

// conflict returns an error if a request could match the i-th pattern and one before it of another
// operation, and neither is narrower, nor is a third one for such requests.
func (r *Routes) conflict(i int) error {
	p := &r.patterns[i]
	for n := range r.patterns[:i] {
		other := &r.patterns[n]
		switch covers, covered := p.covers(other), other.covers(p); {
		case covers && covered:
			return fmt.Errorf("matches the same requests as %q: remove one of the two", other.text)
		case !covers && !covered && p.operation != other.operation && p.overlaps(other) && !r.decides(p, other):
			return fmt.Errorf("overlaps %q, and neither is narrower: a request of both would be either; write one of them more narrowly, or add a route for what both match", other.text)
		}
	}
	return nil
}

// decides reports whether a pattern narrower than both p and q matches all that both match: it has
// no part that neither has.
func (r *Routes) decides(p, q *pattern) bool {
	return slices.ContainsFunc(r.patterns, func(third pattern) bool {
		return p.covers(&third) && q.covers(&third) && third.isOf(p, q)
	})
}

// Len is how many routes there are.
func (r *Routes) Len() int { return len(r.patterns) }

// twice returns a parameter whose value decides which pattern matches, and that a request has with
// two values: the upstream may read either. It is empty if there is none.
func (r *Routes) twice(method string, path []string, query url.Values) string {
	for _, p := range r.patterns {
		for _, one := range p.query {
			if values := query[one.name]; !one.any && len(slices.Compact(slices.Clone(values))) > 1 && p.matches(method, path) {
				return one.name
			}
		}
	}
	return ""
}

// find returns the operation of the narrowest pattern that matches.
func (r *Routes) find(method string, path []string, query url.Values) (operation string, found bool) {
	var best *pattern
	for i := range r.patterns {
		p := &r.patterns[i]
		if !p.matches(method, path) || !p.matchesQuery(query) {
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
// it: "GET /youtube/v3/search", "POST /v1/models/{model}:generateContent", "* /**". Parameters that
// a request must have may follow: "GET /works ?search", "GET /works ?sort=cost&page".
type pattern struct {
	text      string
	operation string
	method    string    // "*" stands for any of methods
	segments  []segment // of the path
	rest      bool      // any number of segments may follow
	query     []parameter
}

// A parameter is one that the query has, empty or not; unless it may have any value, with that one.
type parameter struct {
	name, value string
	any         bool
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
	path, query, hasQuery := strings.Cut(path, " ")
	if !found || !strings.HasPrefix(path, "/") {
		return pattern{}, errPattern
	}
	parameters, err := parseParameters(query)
	if hasQuery && err != nil {
		return pattern{}, err
	}
	if method != "*" && !slices.Contains(methods, method) {
		return pattern{}, fmt.Errorf("has the method %q: write %s, or * for any of these", method, strings.Join(methods, ", "))
	}
	path = assigned.ReplaceAllString(path, "$1")
	path = rest.ReplaceAllString(variable.ReplaceAllString(path, "*"), "**")
	p := pattern{text: text, operation: operation, method: method, query: parameters}
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
	case isDots(part):
		return segment{}, fmt.Errorf("has the segment %q, which no request reaches: write the path itself", part)
	case part == "**":
		return segment{}, errors.New("has ** elsewhere than at its end: write * for one segment")
	case name == "*" && (!has || verb != "" && !strings.ContainsAny(verb, "*{}")):
		return segment{any: true, verb: verb}, nil
	case strings.ContainsAny(part, "*{}"):
		return segment{}, fmt.Errorf("has the segment %q: * or {name} must be a whole segment, or be followed by a :verb", part)
	case strings.ContainsAny(part, "?#% \\"):
		return segment{}, fmt.Errorf(`has the segment %q: a path is not encoded, and parameters follow it after a space, such as "GET /works ?search"`, part)
	}
	return segment{literal: part}, nil
}

// parseParameters reads what follows the path: "?search", "?sort=cost&page".
func parseParameters(text string) (list []parameter, err error) {
	query, found := strings.CutPrefix(text, "?")
	if !found {
		return nil, fmt.Errorf(`has %q after its path: parameters that a call must have are written as "?search" or "?sort=cost&page"`, text)
	}
	for part := range strings.SplitSeq(query, "&") {
		name, value, hasValue := strings.Cut(part, "=")
		switch {
		case name == "" || strings.ContainsAny(part, "?#%+; *"):
			return nil, fmt.Errorf("has the parameter %q: write its name, or its name and its value, not encoded and without *", part)
		case slices.ContainsFunc(list, func(p parameter) bool { return p.name == name }):
			return nil, fmt.Errorf("has the parameter %q twice: remove one", name)
		}
		list = append(list, parameter{name, value, !hasValue})
	}
	return list, nil
}

// matches reports whether a request is one of the pattern's, if it has the parameters.
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

func (p *pattern) matchesQuery(query url.Values) bool {
	return !slices.ContainsFunc(p.query, func(one parameter) bool {
		values, has := query[one.name]
		return !has || !one.any && values[0] != one.value
	})
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
	for _, one := range p.query {
		other := q.parameter(one.name)
		overlap = overlap && (other == nil || one.any || other.any || *other == one)
	}
	return overlap
}

// isOf reports whether each part of a pattern that p and q cover is one of p's or of q's.
func (t *pattern) isOf(p, q *pattern) bool {
	for i, s := range t.segments {
		if !(i < len(p.segments) && s == p.segments[i] || i < len(q.segments) && s == q.segments[i]) {
			return false
		}
	}
	return (t.method == p.method || t.method == q.method) && t.rest == (p.rest && q.rest) &&
		!slices.ContainsFunc(t.query, func(one parameter) bool { return !slices.Contains(p.query, one) && !slices.Contains(q.query, one) })
}

// parameter returns the one of that name; nil: the pattern names none.
func (p *pattern) parameter(name string) *parameter {
	i := slices.IndexFunc(p.query, func(one parameter) bool { return one.name == name })
	if i < 0 {
		return nil
	}
	return &p.query[i]
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
	return !slices.ContainsFunc(p.query, func(one parameter) bool {
		other := q.parameter(one.name)
		return other == nil || !one.any && *other != one
	})
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

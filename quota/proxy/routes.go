package proxy

import (
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

// NewRoutes returns routes of patterns and their operations. The errors are all that is wrong.
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
	return routes, wrong
}

// Len is how many routes there are.
func (r *Routes) Len() int { return len(r.patterns) }

var errNoRoute = errors.New("no route matches")

// find returns the operation of the pattern that matches and says most of the request. It is an error if none
// matches, if two of other operations say as much, or if a parameter decides that the request has with two values:
// the upstream may read either.
func (r *Routes) find(method string, path []string, query url.Values) (operation string, err error) {
	best, err := -1, errNoRoute
	for i := range r.patterns {
		p := &r.patterns[i]
		if !p.matches(method, path) {
			continue
		}
		for _, one := range p.query {
			isOther := func(value string) bool { return value != query[one.name][0] }
			if !one.any && slices.ContainsFunc(query[one.name], isOther) {
				return "", fmt.Errorf("the parameter %.40q comes with two values, and the operation depends on it: send it once", one.name)
			}
		}
		switch says := p.says(method); {
		case !p.matchesQuery(query):
		case says > best:
			best, operation, err = says, p.operation, nil
		case says == best && operation != p.operation:
			err = fmt.Errorf("the routes of %q and %q match alike: write one of them more narrowly", operation, p.operation)
		}
	}
	return operation, err
}

// says is how much a pattern says of a request that it matches: by its literal segments first, then by its parameters,
// and by its method.
func (p *pattern) says(method string) int {
	n := 100 * len(p.segments)
	for _, s := range p.segments {
		if !s.any {
			n += 900
		} else if s.verb != "" {
			n += 500
		}
	}
	if !p.rest {
		n += 50
	}
	for _, one := range p.query {
		if n += 4; !one.any {
			n++
		}
	}
	if p.method == method {
		n += 2
	} else if p.method != "*" {
		n++
	}
	return n
}

// A pattern is a method and a path template: "GET /youtube/v3/search", "POST /v1/models/{model}:generateContent",
// "* /**". Parameters that a request must have may follow: "GET /works ?search", "GET /works ?sort=cost&page".
type pattern struct {
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

var variable = regexp.MustCompile(`\{([^{}=+]+)\}`)

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
	path = variable.ReplaceAllString(path, "*")
	p := pattern{operation: operation, method: method, query: parameters}
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

// matches reports whether a request is one of the pattern's, if it has the parameters. A route of GET matches HEAD, too.
func (p *pattern) matches(method string, path []string) bool {
	covers := p.method == method || p.method == "*" || p.method == "GET" && method == "HEAD"
	if !covers || !slices.Contains(methods, method) || len(path) < len(p.segments) || len(path) > len(p.segments) && !p.rest {
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

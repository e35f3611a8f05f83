package proxy

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A pattern is a method and a path template, as Google's discovery documents write
// it: "GET /youtube/v3/search", "POST /v1/models/{model}:generateContent", "* /**".
type pattern struct {
	text     string
	method   string    // "*" stands for any of methods
	segments []segment // of the path
	rest     bool      // any number of segments may follow
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

// methods are what clients of APIs send, and what * stands for. TRACE, which answers with
// the key, is none of them.
var methods = []string{"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"}

var errPattern = errors.New(`is no route: write a method, or *, and a path, such as "GET /youtube/v3/search"`)

func parsePattern(text string) (pattern, error) {
	method, path, found := strings.Cut(text, " ")
	if !found || !strings.HasPrefix(path, "/") {
		return pattern{}, errPattern
	}
	if method != "*" && !slices.Contains(methods, method) {
		return pattern{}, fmt.Errorf("has the method %q: write %s, or * for any of these", method, strings.Join(methods, ", "))
	}
	path = assigned.ReplaceAllString(path, "$1")
	path = rest.ReplaceAllString(variable.ReplaceAllString(path, "*"), "**")
	p := pattern{text: text, method: method}
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

// matches tells whether a request is one of the pattern's. Who is asked for what GET
// answers may be asked by HEAD, too.
func (p *pattern) matches(method string, path []string) bool {
	switch {
	case p.method == "*" && slices.Contains(methods, method), p.method == method, p.method == "GET" && method == "HEAD":
	default:
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

// A relation says how what one pattern matches lies to what another one does.
type relation int

const (
	equal    relation = iota
	narrower          // the first matches a part of what the second does
	wider
	crossing // each matches something that the other does not, and both something
	disjoint
)

// and is the relation of two patterns of which parts are related so.
func (r relation) and(other relation) relation {
	switch {
	case r == disjoint || other == disjoint:
		return disjoint
	case r == equal:
		return other
	case other == equal || r == other:
		return r
	}
	return crossing
}

// to returns how p lies to q.
func (p *pattern) to(q *pattern) relation {
	r := methodTo(p.method, q.method)
	for i := range min(len(p.segments), len(q.segments)) {
		r = r.and(p.segments[i].to(q.segments[i]))
	}
	return r.and(p.lengthTo(q))
}

func methodTo(a, b string) relation {
	switch {
	case a == b:
		return equal
	case a == "*", a == "GET" && b == "HEAD":
		return wider
	case b == "*", a == "HEAD" && b == "GET":
		return narrower
	}
	return disjoint
}

func (s segment) to(o segment) relation {
	switch {
	case s == o:
		return equal
	case !s.any && !o.any:
		return disjoint
	case !s.any && o.matches(s.literal), s.any && o.any && o.verb == "":
		return narrower
	case !o.any && s.matches(o.literal), s.any && o.any && s.verb == "":
		return wider
	}
	return disjoint
}

// lengthTo compares how many segments the two may have.
func (p *pattern) lengthTo(q *pattern) relation {
	n, m := len(p.segments), len(q.segments)
	switch {
	case n == m && p.rest == q.rest:
		return equal
	case q.rest && n >= m:
		return narrower
	case p.rest && m >= n:
		return wider
	}
	return disjoint
}

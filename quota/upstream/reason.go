package upstream

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A Pointer is where a body says its reason: a JSON pointer of RFC 6901, such as "/error/code" or "/errors/0/type".
type Pointer []string

// ParsePointer reads a JSON pointer. The one of the whole body, "", points to no reason.
func ParsePointer(text string) (Pointer, error) {
	if !strings.HasPrefix(text, "/") {
		return nil, fmt.Errorf(`%q is no JSON pointer: write "/status", or "/errors/0/code"`, text)
	}
	p := Pointer(strings.Split(text[1:], "/"))
	for i, token := range p {
		if strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(token), "~") {
			return nil, fmt.Errorf(`%q is no JSON pointer: in it, ~ is written ~0, and / in a name ~1`, text)
		}
		p[i] = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
	}
	return p, nil
}

// find returns the text, the number or the truth value that stands there; empty if there is none.
func (p Pointer) find(value any) string {
	for _, token := range p {
		switch v := value.(type) {
		case map[string]any:
			value = v[token]
		case []any:
			i, err := strconv.Atoi(token)
			if err != nil || i < 0 || i >= len(v) {
				return ""
			}
			value = v[i]
		default:
			return ""
		}
	}
	switch v := value.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	case bool:
		return strconv.FormatBool(v)
	}
	return ""
}

// Reasons give a class to a reason. In a reason of theirs, * stands for any text: "*requests per day*".
type Reasons map[string]Class

// classOf returns the class of a reason: of what it is called exactly, else of the longest pattern that it matches.
func (r Reasons) classOf(reason string) Class {
	best := reason
	if r[reason] == "" {
		best = ""
		for pattern := range r {
			if cmp.Or(len(pattern)-len(best), strings.Compare(best, pattern)) > 0 && matches(pattern, reason) {
				best = pattern
			}
		}
	}
	return r[best]
}

// gravest returns the class that counts of those of several reasons: what needs a person is first, then what lasts
// longest. It is empty if none has a class.
func (r Reasons) gravest(reasons []string) Class {
	for _, class := range []Class{Key, Billing, Day, Minute, OK, Unknown} {
		if slices.ContainsFunc(reasons, func(reason string) bool { return r.classOf(reason) == class }) {
			return class
		}
	}
	return ""
}

// matches reports whether a text is one of a pattern, in which * stands for any text.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	last := len(parts) - 1
	text, found := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1:max(1, last)] {
		if found {
			_, text, found = strings.Cut(text, part)
		}
	}
	return found && last > 0 && strings.HasSuffix(text, parts[last])
}

// messageKeys are where upstreams put their words, the most specific first.
var messageKeys = []string{"error_description", "detail", "message", "error_message", "description", "info", "title", "error"}

// readBody returns the reasons in a body, at the pointers of the format, and its words for people. A page of HTML has
// none.
func (f Format) readBody(a Answer) (reasons []string, message string) {
	var value any
	if json.Unmarshal(a.Body, &value) != nil {
		text := strings.TrimSpace(string(a.Body))
		if a.Status < 400 || strings.ContainsAny(text[:min(1, len(text))], "<{[") {
			return nil, ""
		}
		return nil, text
	}
	for _, p := range f.Reason {
		reason := p.find(value)
		add(&reasons, reason)
		if message == "" && strings.Contains(reason, " ") {
			message = reason
		}
	}
	for range 3 { // the first of a list, then the error in an object
		if list, is := value.([]any); is && len(list) > 0 {
			value = list[0]
		}
		object, _ := value.(map[string]any)
		for _, key := range messageKeys {
			text, _ := object[key].(string)
			message = cmp.Or(message, text)
		}
		if value = object["error"]; value == nil {
			value = object["errors"]
		}
	}
	return reasons, message
}

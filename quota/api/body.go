package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"unicode/utf8"

	"quotad/quota"
)

// decode moves the fields of a request into b: those of the body where the
// method has one, else those of the query.
func decode(r *http.Request, b Binder) *Problem {
	fields, problem := readFields(r)
	if problem != nil {
		return problem
	}
	if err := fields.bind(b); err != nil {
		return NewProblem(quota.BadRequest, "%v", err)
	}
	return nil
}

func readFields(r *http.Request) (*Fields, *Problem) {
	f := new(Fields)
	if !hasBody(r.Method) {
		if r.ContentLength != 0 {
			return nil, NewProblem(quota.BadRequest, "%s takes no body", r.Method)
		}
		return f, malformed(f.parseForm(r.URL.RawQuery), "query")
	}
	if r.URL.RawQuery != "" {
		return nil, NewProblem(quota.BadRequest, "fields belong in the body, not behind a '?'")
	}
	body, problem := readBody(r)
	if problem != nil || len(body) == 0 {
		return f, problem
	}
	switch mediaType(r.Header) {
	case "application/json":
		return f, malformed(f.parseJSON(body), "JSON")
	case "application/x-www-form-urlencoded":
		if body[0] == '{' {
			return nil, jsonAsForm()
		}
		return f, malformed(f.parseForm(string(body)), "form")
	default:
		return nil, NewProblem(quota.BadRequest, "content type %.80q is not understood: use application/json or application/x-www-form-urlencoded, in UTF-8",
			r.Header.Get("Content-Type"))
	}
}

// jsonAsForm explains what curl -d does to a body that is JSON.
func jsonAsForm() *Problem {
	p := NewProblem(quota.BadRequest, "the body looks like JSON, but its content type is that of a form")
	p.Hint = "add the header Content-Type: application/json, or send name=value pairs"
	return p
}

func hasBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
}

func malformed(err error, what string) *Problem {
	if err == nil {
		return nil
	}
	return NewProblem(quota.BadRequest, "malformed %s: %v", what, err)
}

// mediaType returns the body's type without parameters, or "" if the body is
// in another character set than UTF-8.
func mediaType(h http.Header) string {
	value := h.Get("Content-Type")
	if !strings.Contains(value, ";") {
		return strings.ToLower(strings.TrimSpace(value))
	}
	kind, params, err := mime.ParseMediaType(value)
	charset, named := params["charset"]
	if err != nil || named && !strings.EqualFold(charset, "utf-8") {
		return ""
	}
	return kind
}

// readBody reads a body of at most maxBody bytes. Of a longer one it reads on
// for a while, because a connection with an unread body cannot be used again.
func readBody(r *http.Request) ([]byte, *Problem) {
	if r.ContentLength > maxBody {
		return nil, refuseBody(r)
	}
	buffer := bytes.NewBuffer(make([]byte, 0, bytes.MinRead+max(0, r.ContentLength)))
	n, err := buffer.ReadFrom(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, NewProblem(quota.BadRequest, "the body did not arrive: %v", err)
	case n > maxBody:
		return nil, refuseBody(r)
	}
	return buffer.Bytes(), nil
}

func refuseBody(r *http.Request) *Problem {
	// Whoever waits for "100 Continue" has not sent the body, and need not.
	if r.Header.Get("Expect") == "" && r.ContentLength <= maxDrain {
		io.CopyN(io.Discard, r.Body, maxDrain)
	}
	return problemOf(answerOf(http.StatusRequestEntityTooLarge), fmt.Sprintf("the body has more than %d bytes", maxBody))
}

// parseForm reads "a=1&b=2".
func (f *Fields) parseForm(s string) error {
	for pair := range strings.SplitSeq(s, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return err
		}
		text, err := url.QueryUnescape(value)
		if err != nil {
			return err
		}
		if !utf8.ValidString(name) || !utf8.ValidString(text) {
			return errNotUTF8
		}
		if err := f.add(field{name: name, kind: kindForm, text: text}); err != nil {
			return err
		}
	}
	return nil
}

var errNotUTF8 = errors.New("it is not valid UTF-8")

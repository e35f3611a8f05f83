package server

import (
	"bytes"
	"io"
	"mime"
	"net/http"
	"strings"

	"quotad/quota"
	"quotad/quota/api"
)

// readFields reads the fields of the body where the method has one, else those of
// the query.
func readFields(r *http.Request) ([]field, *api.Problem) {
	if !hasBody(r.Method) {
		if r.ContentLength != 0 {
			return nil, api.NewProblem(quota.BadRequest, "%s takes no body", r.Method)
		}
		return wellFormed("query", parseForm, r.URL.RawQuery)
	}
	if r.URL.RawQuery != "" {
		return nil, api.NewProblem(quota.BadRequest, "fields belong in the body, not behind a '?'")
	}
	body, problem := readBody(r)
	if problem != nil || len(body) == 0 {
		return nil, problem
	}
	switch mediaType(r.Header) {
	case "application/json":
		return wellFormed("JSON", parseJSON, body)
	case "application/x-www-form-urlencoded":
		if body[0] == '{' {
			return nil, jsonAsForm()
		}
		return wellFormed("form", parseForm, string(body))
	default:
		return nil, api.NewProblem(quota.BadRequest, "content type %.80q is not understood: use application/json or application/x-www-form-urlencoded, in UTF-8",
			r.Header.Get("Content-Type"))
	}
}

func wellFormed[T any](what string, parse func(T) ([]field, error), text T) ([]field, *api.Problem) {
	list, err := parse(text)
	if err != nil {
		return nil, api.NewProblem(quota.BadRequest, "malformed %s: %v", what, err)
	}
	return list, nil
}

// jsonAsForm explains what curl -d does to a body that is JSON.
func jsonAsForm() *api.Problem {
	p := api.NewProblem(quota.BadRequest, "the body looks like JSON, but its content type is that of a form")
	p.Hint = "add the header Content-Type: application/json, or send name=value pairs"
	return p
}

func hasBody(method string) bool {
	return method == http.MethodPost || method == http.MethodPut || method == http.MethodPatch
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
func readBody(r *http.Request) ([]byte, *api.Problem) {
	if r.ContentLength > maxBody {
		return nil, refuseBody(r)
	}
	buffer := bytes.NewBuffer(make([]byte, 0, bytes.MinRead+max(0, r.ContentLength)))
	n, err := buffer.ReadFrom(io.LimitReader(r.Body, maxBody+1))
	switch {
	case err != nil:
		return nil, api.NewProblem(quota.BadRequest, "the body did not arrive: %v", err)
	case n > maxBody:
		return nil, refuseBody(r)
	}
	return buffer.Bytes(), nil
}

func refuseBody(r *http.Request) *api.Problem {
	// Whoever waits for "100 Continue" has not sent the body, and need not.
	if r.Header.Get("Expect") == "" && r.ContentLength <= maxDrain {
		io.CopyN(io.Discard, r.Body, maxDrain)
	}
	return api.NewProblem(quota.BadRequest, "the body has more than %d bytes", maxBody).WithStatus(http.StatusRequestEntityTooLarge)
}

package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"quotad/quota"
	"quotad/quota/api"
)

// fields says of what kind the fields of forms and queries are, by name: a number, true or false, or a list. All others
// are texts.
var fields = map[string]string{
	"count": "int64", "units": "int64", "status": "int64", "most": "int64",
	"for_ms": "int64", "wait_ms": "int64", "ended": "int64", "written": "int64",
	"use_reserve": "bool", "optional": "bool", "dry_run": "bool", "newest": "bool", "denied": "bool",
	"open": "bool", "end": "bool",
	"regions": "slice",
}

// wanted is what a value of a kind must be.
func wanted(kind string) string {
	switch kind {
	case "int", "int64":
		return fmt.Sprintf("a whole number of at most %d, in digits alone", quota.MaxUnits)
	case "bool":
		return "true or false"
	case "slice":
		return "a list"
	}
	return "a string"
}

// decode reads the fields of a request into a struct with the tags of encoding/json: from the body if the method has
// one, else from the query. A field that is left out keeps its value.
func decode(r *http.Request, into any) error {
	text, isForm, problem := textOf(r)
	if problem != nil {
		return problem
	}
	raw, takesBytes := into.(interface{ SetBytes(url.Values) })
	var form url.Values
	err := error(nil)
	if isForm {
		form, text, err = readForm(text)
	}
	if err == nil {
		err = readJSON(text, into)
	}
	switch {
	case err == nil && isForm && takesBytes:
		raw.SetBytes(form)
	case takesBytes && errors.Is(err, errNotUTF8):
		return api.NewProblem(quota.BadRequest, "%v", err).WithHint("JSON is UTF-8; a form takes any bytes, as subject=%FF")
	case err != nil:
		return api.NewProblem(quota.BadRequest, "%v", err)
	}
	return nil
}

var errNotUTF8 = errors.New("it is not valid UTF-8")

// readJSON reads one object.
func readJSON(text string, into any) error {
	if !utf8.ValidString(text) { // encoding/json replaces what is not
		return fmt.Errorf("malformed JSON: %w", errNotUTF8)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		if strings.Trim(text[d.InputOffset():], " \t\r\n") == "" {
			return nil
		}
		return errors.New("malformed JSON: something follows the object")
	}
	var kind *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return errors.New("malformed JSON: it ends too early")
	case errors.As(err, &syntax):
		return fmt.Errorf("malformed JSON: %w", err)
	case errors.As(err, &kind) && kind.Field == "":
		return errors.New("malformed JSON: it is not an object")
	case errors.As(err, &kind):
		return fmt.Errorf("%s must be %s, not a JSON %.40s", kind.Field, wanted(kind.Type.Kind().String()), kind.Value)
	}
	return errors.New(quota.Clipped(strings.TrimPrefix(err.Error(), "json: "), 300)) // an unknown field, or an UnmarshalText
}

// readForm reads "a=1&b=2", and writes it as JSON.
func readForm(text string) (url.Values, string, error) {
	form, err := url.ParseQuery(text)
	if err != nil {
		return nil, "", fmt.Errorf("malformed form or query: %w", err)
	}
	object := map[string]any{}
	for name, texts := range form {
		text, value, err := texts[0], any(texts[0]), error(nil)
		switch fields[name] {
		case "slice":
			object[name] = texts
			continue
		case "int64":
			value, err = strconv.ParseInt(strings.TrimPrefix(text, " "), 10, 64) // "+" is the code of a blank: "+20" is 20
		case "bool":
			if value = text == "true"; text != "true" && text != "false" {
				err = strconv.ErrSyntax
			}
		}
		switch {
		case len(texts) > 1:
			return nil, "", fmt.Errorf("%.40q is given twice", name)
		case err != nil:
			return nil, "", fmt.Errorf("%s must be %s: %.40q", name, wanted(fields[name]), text)
		}
		object[name] = value
	}
	written, err := json.Marshal(object)
	return form, string(written), err
}

// textOf returns the text that holds the fields of a request: a form or a query, or JSON.
func textOf(r *http.Request) (text string, isForm bool, problem *api.Problem) {
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, r.Method) {
		if r.ContentLength != 0 {
			return "", false, api.NewProblem(quota.BadRequest, "%s takes no body", r.Method)
		}
		return r.URL.RawQuery, true, nil
	}
	if r.URL.RawQuery != "" {
		return "", false, api.NewProblem(quota.BadRequest, "fields belong in the body, not after a '?'")
	}
	text, problem = readBody(r)
	if problem != nil || text == "" {
		return "", true, problem
	}
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, named := params["charset"]
	switch {
	case err != nil || named && !strings.EqualFold(charset, "utf-8"):
	case kind == "application/json":
		return text, false, nil
	case kind == "application/x-www-form-urlencoded" && text[0] == '{': // curl -d
		problem = api.NewProblem(quota.BadRequest, "the body looks like JSON, but its content type is that of a form")
		return "", false, problem.WithHint("add the header Content-Type: application/json, or send name=value pairs")
	case kind == "application/x-www-form-urlencoded":
		return text, true, nil
	}
	return "", false, api.NewProblem(quota.BadRequest, "content type %.80q is not understood: "+
		"use application/json or application/x-www-form-urlencoded, in UTF-8", r.Header.Get("Content-Type"))
}

// readBody reads a body of bounded length. It discards up to maxDrain of a larger one, because a connection with an
// unread body cannot be used again.
func readBody(r *http.Request) (string, *api.Problem) {
	most := int64(maxBody)
	if r.URL.Path == "/v1/observe" {
		most = maxObserved
	}
	if r.ContentLength <= most {
		body, err := io.ReadAll(io.LimitReader(r.Body, most+1))
		switch {
		case err != nil:
			return "", api.NewProblem(quota.BadRequest, "the body did not arrive: %v", err)
		case int64(len(body)) <= most:
			return string(body), nil
		}
	}
	// A client that waits for "100 Continue" has not sent the body, and need not.
	if r.Header.Get("Expect") == "" && r.ContentLength <= maxDrain {
		io.CopyN(io.Discard, r.Body, maxDrain)
	}
	return "", api.NewProblem(quota.BadRequest, "the body has more than %d bytes", most).WithStatus(http.StatusRequestEntityTooLarge)
}

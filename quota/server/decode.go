package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"quotad/quota"
	"quotad/quota/api"
)

const maxText = 256 // bytes of one text

// A decoder reads the fields of a request into a struct that is tagged as for
// encoding/json: from the body where the method has one, else from the query. What a
// request leaves out is as by default. It is stricter than encoding/json: a name is
// taken as it is written, and once, and null is no value.
type decoder[T any] struct {
	byDefault T
	names     []string // of the members of T, in their order
	most      []int    // bytes that the text of each may have
	anyBytes  []bool   // whether a form may bring any bytes in it, UTF-8 or not
	lists     bool     // there is a list of long texts
}

// newDecoder returns the decoder of a struct of at most 64 strings, integers, bools,
// lists of strings or integers, types that read themselves from text, and pointers to
// these. Without a default it begins with the zero value. The tag max says how many bytes
// a text may have, and text:"any" that a form may bring any bytes.
func newDecoder[T any](byDefault ...T) decoder[T] {
	var d decoder[T]
	if len(byDefault) > 0 {
		d.byDefault = byDefault[0]
	}
	for member := range reflect.TypeFor[T]().Fields() {
		name, _, _ := strings.Cut(member.Tag.Get("json"), ",")
		most, err := strconv.Atoi(member.Tag.Get("max"))
		if err != nil {
			most = maxText
		}
		d.names, d.most = append(d.names, name), append(d.most, most)
		d.anyBytes = append(d.anyBytes, member.Tag.Get("text") == "any")
		d.lists = d.lists || most > maxText && member.Type.Kind() == reflect.Slice
	}
	return d
}

// longest is how many bytes a body may have: a byte of a long text takes up to six as JSON.
// Of lists of long texts it has room for longTexts, and for more that are shorter.
func (d decoder[T]) longest() int64 {
	longest, texts := int64(maxBody), int64(1)
	if d.lists {
		texts = longTexts
	}
	for _, most := range d.most {
		if most > maxText {
			longest += texts * 6 * int64(most)
		}
	}
	return longest
}

const longTexts = 16

func (d decoder[T]) decode(r *http.Request) (T, *api.Problem) {
	kind, text, problem := textOf(r, d.longest())
	if problem != nil {
		return d.byDefault, problem
	}
	in, err := d.parse(kind, text)
	if err != nil {
		p := api.NewProblem(quota.BadRequest, "%v", err)
		if i := slices.Index(d.anyBytes, true); i >= 0 && errors.Is(err, errNotUTF8) {
			p.Hint = "JSON is UTF-8; a form takes any bytes, as " + d.names[i] + "=%FF"
		}
		return in, p
	}
	return in, nil
}

// The kinds of texts that hold fields, as messages name them.
const (
	isJSON  = "JSON"
	isForm  = "form"
	isQuery = "query"
)

func (d decoder[T]) parse(kind, text string) (T, error) {
	in := d.byDefault
	m := members{names: d.names, most: d.most, anyBytes: d.anyBytes, into: reflect.ValueOf(&in).Elem()}
	var err error
	if kind == isJSON {
		err = m.parseJSON(text)
	} else {
		err = m.parseForm(text)
	}
	if err != nil {
		return in, fmt.Errorf("malformed %s: %w", kind, err)
	}
	if m.unknown != nil { // a misspelt name is why another is missing
		return in, m.unknown
	}
	return in, m.wrong
}

// Members are those of a struct that a request sets.
type members struct {
	names    []string
	most     []int
	anyBytes []bool
	into     reflect.Value
	given    uint64 // a bit for each that the request has set
	unknown  error  // the first name that is none
	wrong    error  // the first value that was not taken
}

var (
	errNotUTF8  = errors.New("it is not valid UTF-8")
	errTooEarly = errors.New("it ends too early")
)

// parseJSON sets the members of one object.
func (m *members) parseJSON(text string) error {
	if text == "" {
		return nil
	}
	if !utf8.ValidString(text) {
		return errNotUTF8
	}
	d := json.NewDecoder(strings.NewReader(text))
	if start, err := d.Token(); err != nil {
		return tooEarly(err)
	} else if start != json.Delim('{') {
		return errors.New("it is not an object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return tooEarly(err)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return tooEarly(err)
		}
		m.set(field{name: name.(string), text: string(value), isJSON: true}) // nothing else can stand there
	}
	if _, err := d.Token(); err != nil {
		return tooEarly(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("something follows the object")
	}
	return nil
}

func tooEarly(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errTooEarly
	}
	return err
}

// parseForm sets the members that "a=1&b=2" names.
func (m *members) parseForm(text string) error {
	for pair := range strings.SplitSeq(text, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return err
		}
		value, err = url.QueryUnescape(value)
		if err != nil {
			return err
		}
		i := slices.Index(m.names, name)
		if !utf8.ValidString(name) || !utf8.ValidString(value) && !(i >= 0 && m.anyBytes[i]) {
			return errNotUTF8
		}
		m.set(field{name: name, text: value})
	}
	return nil
}

// set takes one field of a request in.
func (m *members) set(f field) {
	i := slices.Index(m.names, f.name)
	if i < 0 {
		if m.unknown == nil {
			m.unknown = fmt.Errorf("unknown field %.40q", f.name)
		}
		return
	}
	f.most, f.again = m.most[i], m.given&(1<<i) != 0
	m.given |= 1 << i
	if err := f.set(m.into.Field(i)); err != nil && m.wrong == nil {
		m.wrong = err
	}
}

// textOf returns the text that holds the fields of a request.
func textOf(r *http.Request, longest int64) (kind, text string, problem *api.Problem) {
	if !hasBody(r.Method) {
		if r.ContentLength != 0 {
			return "", "", api.NewProblem(quota.BadRequest, "%s takes no body", r.Method)
		}
		return isQuery, r.URL.RawQuery, nil
	}
	if r.URL.RawQuery != "" {
		return "", "", api.NewProblem(quota.BadRequest, "fields belong in the body, not after a '?'")
	}
	body, problem := readBody(r, longest)
	if problem != nil || len(body) == 0 {
		return isForm, "", problem
	}
	switch mediaType(r.Header) {
	case "application/json":
		return isJSON, string(body), nil
	case "application/x-www-form-urlencoded":
		if body[0] == '{' {
			return "", "", jsonAsForm()
		}
		return isForm, string(body), nil
	}
	return "", "", api.NewProblem(quota.BadRequest, "content type %.80q is not understood: use application/json or application/x-www-form-urlencoded, in UTF-8",
		r.Header.Get("Content-Type"))
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

// readBody reads a body of at most longest bytes. Of a longer one it reads on
// for a while, because a connection with an unread body cannot be used again.
func readBody(r *http.Request, longest int64) ([]byte, *api.Problem) {
	if r.ContentLength > longest {
		return nil, refuseBody(r, longest)
	}
	body, err := make([]byte, max(0, r.ContentLength)), error(nil)
	if r.ContentLength >= 0 {
		_, err = io.ReadFull(r.Body, body)
	} else {
		body, err = io.ReadAll(io.LimitReader(r.Body, longest+1))
	}
	switch {
	case err != nil:
		return nil, api.NewProblem(quota.BadRequest, "the body did not arrive: %v", err)
	case int64(len(body)) > longest:
		return nil, refuseBody(r, longest)
	}
	return body, nil
}

func refuseBody(r *http.Request, longest int64) *api.Problem {
	// Whoever waits for "100 Continue" has not sent the body, and need not.
	if r.Header.Get("Expect") == "" && r.ContentLength <= maxDrain {
		io.CopyN(io.Discard, r.Body, maxDrain)
	}
	return api.NewProblem(quota.BadRequest, "the body has more than %d bytes", longest).WithStatus(http.StatusRequestEntityTooLarge)
}

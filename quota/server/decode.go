package server

import (
	"encoding"
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

// maxText is how many bytes one text has, unless the tag max says otherwise.
const maxText = 256

// A decoder reads the fields of a request into a struct with the tags of encoding/json: from the body
// if the method has one, else from the query. A field that is left out keeps its default.
type decoder[T any] struct {
	byDefault T
	members   []member // of T, in their order
	maxBody   int64    // bytes of a body
}

// A member is a field of T.
type member struct {
	name     string
	max      int  // bytes of a text
	anyBytes bool // in a form, the text need not be UTF-8
}

// newDecoder returns the decoder of a struct of strings, integers, bools, lists of strings or
// integers, types with UnmarshalText, and pointers to these. Without a default it begins with the
// zero value. The tag max is how many bytes a text may have; text:"any" lets a form hold any bytes.
func newDecoder[T any](byDefault ...T) decoder[T] {
	d := decoder[T]{maxBody: maxBody}
	if len(byDefault) > 0 {
		d.byDefault = byDefault[0]
	}
	for f := range reflect.TypeFor[T]().Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		m := member{name: name, max: maxText, anyBytes: f.Tag.Get("text") == "any"}
		if long, err := strconv.Atoi(f.Tag.Get("max")); err == nil {
			m.max = long
			d.maxBody += 6 * int64(long) // a byte of a text takes up to six as JSON
		}
		d.members = append(d.members, m)
	}
	return d
}

func (d decoder[T]) decode(r *http.Request) (T, error) {
	kind, text, problem := textOf(r, d.maxBody)
	if problem != nil {
		return d.byDefault, problem
	}
	in, err := d.parse(kind, text)
	if err == nil {
		return in, nil
	}
	p := api.NewProblem(quota.BadRequest, "%v", err)
	switch i := slices.IndexFunc(d.members, func(m member) bool { return m.anyBytes }); {
	case i >= 0 && errors.Is(err, errNotUTF8):
		p.Hint = "JSON is UTF-8; a form takes any bytes, as " + d.members[i].name + "=%FF"
	case err.Error() == `unknown field "at_most"`:
		p.Hint = "it is gone: a dry run (dry_run=true) says how many calls fit: ask for that count"
	}
	return in, p
}

// The kinds of texts with fields, as messages name them.
const (
	isJSON  = "JSON"
	isForm  = "form"
	isQuery = "query"
)

var errNotUTF8 = errors.New("it is not valid UTF-8")

func (d decoder[T]) parse(kind, text string) (T, error) {
	in, err := d.byDefault, error(nil)
	into := reflect.ValueOf(&in).Elem()
	if kind == isJSON {
		err = readJSON(text, &in)
	} else {
		err = d.readForm(kind, text, into)
	}
	for i := 0; i < len(d.members) && err == nil; i++ {
		err = d.members[i].check(into.Field(i))
	}
	return in, err
}

// readJSON reads one object.
func readJSON[T any](text string, in *T) error {
	if !utf8.ValidString(text) { // encoding/json replaces what is not
		return fmt.Errorf("malformed JSON: %w", errNotUTF8)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(in)
	if err == nil {
		if _, err = d.Token(); errors.Is(err, io.EOF) {
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
		return fmt.Errorf("%s must be %s, not a JSON %.40s", kind.Field, wanted(kind.Type), kind.Value)
	}
	return errors.New(quota.Clipped(strings.TrimPrefix(err.Error(), "json: "), 300)) // an unknown field, or an UnmarshalText
}

// wanted returns what a value must be.
func wanted(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Int, reflect.Int64:
		return fmt.Sprintf("a whole number of at most %d, in digits alone", quota.MaxUnits)
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	}
	return "a string"
}

// readForm reads "a=1&b=2".
func (d decoder[T]) readForm(kind, text string, into reflect.Value) error {
	texts, unknown := make([][]string, len(d.members)), error(nil)
	for pair := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err == nil {
			value, err = url.QueryUnescape(value)
		}
		if strings.Contains(pair, ";") {
			err = errors.New("invalid semicolon separator in query")
		}
		i := slices.IndexFunc(d.members, func(m member) bool { return m.name == name })
		switch {
		case err != nil:
			return fmt.Errorf("malformed %s: %w", kind, err)
		case i >= 0:
			texts[i] = append(texts[i], value)
		case pair != "" && unknown == nil:
			unknown = fmt.Errorf("unknown field %.40q", name)
		}
	}
	for i := 0; i < len(texts) && unknown == nil; i++ { // a misspelt name is why another is missing
		unknown = d.members[i].set(into.Field(i), texts[i])
	}
	return unknown
}

// set stores the values that a form has of the member: of a list, one for each item.
func (m member) set(into reflect.Value, texts []string) error {
	switch {
	case len(texts) == 0:
		return nil
	case into.Kind() == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return m.set(into.Elem(), texts)
	case into.Kind() == reflect.Slice:
		into.Set(reflect.MakeSlice(into.Type(), len(texts), len(texts)))
		for i := range texts {
			if err := m.set(into.Index(i), texts[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	case len(texts) > 1:
		return fmt.Errorf("%s is given twice", m.name)
	}
	text, err := texts[0], error(nil)
	own, isOwn := into.Addr().Interface().(encoding.TextUnmarshaler)
	switch kind := into.Kind(); {
	case isOwn:
		return own.UnmarshalText([]byte(text))
	case kind == reflect.String:
		into.SetString(text)
	case kind == reflect.Bool && (text == "true" || text == "false"):
		into.SetBool(text == "true")
	case kind == reflect.Bool:
		err = strconv.ErrSyntax
	default:
		var n int64
		n, err = strconv.ParseInt(strings.TrimPrefix(text, " "), 10, 64) // "+" is the code of a blank: "+20" is 20
		into.SetInt(n)
	}
	if err != nil {
		return fmt.Errorf("%s must be %s: %.40q", m.name, wanted(into.Type()), text)
	}
	return nil
}

// check refuses a value that is out of bounds.
func (m member) check(v reflect.Value) error {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return m.check(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			if err := m.check(v.Index(i)); err != nil {
				return err
			}
		}
	case reflect.Int64:
		if n := v.Int(); n > int64(quota.MaxUnits) || n < -int64(quota.MaxUnits) {
			return fmt.Errorf("%s must be %s: %d", m.name, wanted(v.Type()), n)
		}
	case reflect.String:
		if len(v.String()) > m.max {
			return fmt.Errorf("%s has at most %d bytes", m.name, m.max)
		}
		if !m.anyBytes && !utf8.ValidString(v.String()) {
			return fmt.Errorf("%s: %w", m.name, errNotUTF8)
		}
	}
	return nil
}

// textOf returns the text that holds the fields of a request.
func textOf(r *http.Request, maxBody int64) (kind, text string, problem *api.Problem) {
	if !slices.Contains([]string{http.MethodPost, http.MethodPut, http.MethodPatch}, r.Method) {
		if r.ContentLength != 0 {
			return "", "", api.NewProblem(quota.BadRequest, "%s takes no body", r.Method)
		}
		return isQuery, r.URL.RawQuery, nil
	}
	if r.URL.RawQuery != "" {
		return "", "", api.NewProblem(quota.BadRequest, "fields belong in the body, not after a '?'")
	}
	text, problem = readBody(r, maxBody)
	if problem != nil || text == "" {
		return isForm, "", problem
	}
	switch mediaType(r.Header.Get("Content-Type")) {
	case "application/json":
		return isJSON, text, nil
	case "application/x-www-form-urlencoded":
		if text[0] == '{' { // curl -d
			return "", "", api.NewProblem(quota.BadRequest, "the body looks like JSON, but its content type is that of a form").
				WithHint("add the header Content-Type: application/json, or send name=value pairs")
		}
		return isForm, text, nil
	}
	return "", "", api.NewProblem(quota.BadRequest, "content type %.80q is not understood: use application/json or application/x-www-form-urlencoded, in UTF-8",
		r.Header.Get("Content-Type"))
}

// mediaType returns the type in a Content-Type without its parameters, or "" if the body is
// in another character set than UTF-8.
func mediaType(contentType string) string {
	if contentType == "application/x-www-form-urlencoded" || contentType == "application/json" { // most are
		return contentType
	}
	kind, params, err := mime.ParseMediaType(contentType)
	charset, named := params["charset"]
	if err != nil || named && !strings.EqualFold(charset, "utf-8") {
		return ""
	}
	return kind
}

// readBody reads a body of at most maxBody bytes. It discards up to maxDrain of a larger one,
// because a connection with an unread body cannot be used again.
func readBody(r *http.Request, maxBody int64) (string, *api.Problem) {
	if r.ContentLength <= maxBody {
		body, err := make([]byte, max(0, r.ContentLength)), error(nil)
		if r.ContentLength < 0 {
			body, err = io.ReadAll(io.LimitReader(r.Body, maxBody+1))
		} else {
			_, err = io.ReadFull(r.Body, body)
		}
		if err != nil {
			return "", api.NewProblem(quota.BadRequest, "the body did not arrive: %v", err)
		}
		if int64(len(body)) <= maxBody {
			return string(body), nil
		}
	}
	// A client that waits for "100 Continue" has not sent the body, and need not.
	if r.Header.Get("Expect") == "" && r.ContentLength <= maxDrain {
		io.CopyN(io.Discard, r.Body, maxDrain)
	}
	return "", tooLong(maxBody)
}

func tooLong(maxBody int64) *api.Problem {
	return api.NewProblem(quota.BadRequest, "the body has more than %d bytes", maxBody).WithStatus(http.StatusRequestEntityTooLarge)
}

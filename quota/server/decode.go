package server

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
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

const (
	maxText   = 256 // bytes of one text, unless the tag max says otherwise
	longTexts = 16  // texts of full length that a body has room for in a list of long texts
)

// A decoder reads the fields of a request into a struct with the tags of encoding/json: a JSON
// object or a form from the body if the method has one, else the query. A field that the request
// leaves out keeps its default, and one that T does not have is refused.
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
			room := 6 * int64(long) // a byte of a text takes up to six as JSON
			if f.Type.Kind() == reflect.Slice {
				room *= longTexts
			}
			d.maxBody += room
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
	i := slices.IndexFunc(d.members, func(m member) bool { return m.anyBytes })
	if i >= 0 && errors.Is(err, errNotUTF8) {
		p.Hint = "JSON is UTF-8; a form takes any bytes, as " + d.members[i].name + "=%FF"
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
	in := d.byDefault
	var err error
	if kind == isJSON {
		err = parseJSON(text, &in)
	} else {
		err = d.parseForm(kind, text, reflect.ValueOf(&in).Elem())
	}
	for i := 0; err == nil && i < len(d.members); i++ {
		err = d.members[i].check(reflect.ValueOf(&in).Elem().Field(i))
	}
	return in, err
}

// parseJSON reads one object.
func parseJSON(text string, into any) error {
	if !utf8.ValidString(text) {
		return fmt.Errorf("malformed JSON: %w", errNotUTF8)
	}
	d := json.NewDecoder(strings.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	var wrong *json.UnmarshalTypeError
	switch {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return errors.New("malformed JSON: it ends too early")
	case errors.As(err, &wrong) && wrong.Field != "":
		return fmt.Errorf("%s must be %s, not %.40s", wrong.Field, kindOf(wrong.Type), wrong.Value)
	case wrong != nil, err == nil && !strings.HasPrefix(strings.TrimSpace(text), "{"): // null
		return errors.New("malformed JSON: it is not an object")
	case err != nil && strings.HasPrefix(err.Error(), "json: "): // an unknown field
		return errors.New(strings.TrimPrefix(err.Error(), "json: "))
	case err != nil:
		return fmt.Errorf("malformed JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("malformed JSON: something follows the object")
	}
	return nil
}

// kindOf says what a field of a type takes.
func kindOf(t reflect.Type) string {
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

// parseForm reads pairs: "a=1&b=2". A name is repeated for each item of a list.
func (d decoder[T]) parseForm(kind, text string, into reflect.Value) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return fmt.Errorf("malformed %s: %w", kind, err)
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		i := slices.IndexFunc(d.members, func(m member) bool { return m.name == name })
		if i < 0 {
			return fmt.Errorf("unknown field %.40q", name)
		}
		for _, text := range values[name] {
			if !d.members[i].anyBytes && !utf8.ValidString(text) {
				return fmt.Errorf("malformed %s: %w", kind, errNotUTF8)
			}
		}
		if err := set(into.Field(i), name, values[name]); err != nil {
			return err
		}
	}
	return nil
}

// set stores the texts that a form has for a name.
func set(into reflect.Value, name string, texts []string) error {
	switch kind := into.Kind(); {
	case kind == reflect.Pointer:
		into.Set(reflect.New(into.Type().Elem()))
		return set(into.Elem(), name, texts)
	case kind == reflect.Slice:
		into.Set(reflect.MakeSlice(into.Type(), len(texts), len(texts)))
		for i := range texts {
			if err := set(into.Index(i), name, texts[i:i+1]); err != nil {
				return err
			}
		}
		return nil
	case len(texts) > 1:
		return fmt.Errorf("%s is given twice", name)
	}
	if own, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return own.UnmarshalText([]byte(texts[0]))
	}
	switch text, kind := texts[0], into.Kind(); {
	case kind == reflect.String:
		into.SetString(text)
	case kind == reflect.Bool && (text == "true" || text == "false"):
		into.SetBool(text == "true")
	case kind == reflect.Int || kind == reflect.Int64:
		digits := text
		if strings.HasPrefix(text, " ") || strings.HasPrefix(text, "+") {
			digits = text[1:] // "+20" is 20, although "+" is the code of a blank
		}
		if n, err := strconv.ParseInt(digits, 10, 64); err == nil && strconv.FormatInt(n, 10) == digits {
			into.SetInt(n)
			return nil
		}
		fallthrough
	default:
		return fmt.Errorf("%s must be %s: %.40q", name, kindOf(into.Type()), text)
	}
	return nil
}

// check checks a value against what its field may hold.
func (m member) check(value reflect.Value) error {
	switch value.Kind() {
	case reflect.Pointer:
		if !value.IsNil() {
			return m.check(value.Elem())
		}
	case reflect.Slice:
		for i := range value.Len() {
			if err := m.check(value.Index(i)); err != nil {
				return err
			}
		}
	case reflect.String:
		if value.Len() > m.max {
			return fmt.Errorf("%s has at most %d bytes", m.name, m.max)
		}
	case reflect.Int, reflect.Int64:
		if n := value.Int(); n > int64(quota.MaxUnits) || n < -int64(quota.MaxUnits) {
			return fmt.Errorf("%s must be %s: %d", m.name, kindOf(value.Type()), n)
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
		body, err := io.ReadAll(io.LimitReader(r.Body, maxBody+1))
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
	return "", api.NewProblem(quota.BadRequest, "the body has more than %d bytes", maxBody).WithStatus(http.StatusRequestEntityTooLarge)
}

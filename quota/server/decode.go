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

const (
	maxText   = 256 // bytes of one text, unless the tag max says otherwise
	longTexts = 16  // texts of full length that a body has room for in a list of long texts
)

// A decoder reads the fields of a request into a struct with the tags of
// encoding/json, from the body if the method has one, else from the query. A field that the
// request leaves out keeps its default. The decoder is stricter than encoding/json: a name
// must match exactly and appear once, and null is not a value.
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

var (
	errNotUTF8  = errors.New("it is not valid UTF-8")
	errTooEarly = errors.New("it ends too early")
)

func (d decoder[T]) parse(kind, text string) (T, error) {
	in, read := d.byDefault, formFields
	if kind == isJSON {
		read = jsonFields
	}
	fields, err := read(text)
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		err = errTooEarly
	}
	if err != nil {
		return in, fmt.Errorf("malformed %s: %w", kind, err)
	}
	into, given := reflect.ValueOf(&in).Elem(), make([]bool, len(d.members))
	var wrong error
	for _, f := range fields {
		i := slices.IndexFunc(d.members, func(m member) bool { return m.name == f.name })
		if i < 0 { // comes first: a misspelt name is why another is missing
			return in, fmt.Errorf("unknown field %.40q", f.name)
		}
		if !d.members[i].anyBytes && !utf8.ValidString(f.text) {
			return in, fmt.Errorf("malformed %s: %w", kind, errNotUTF8)
		}
		f.max, f.again, given[i] = d.members[i].max, given[i], true
		if err := f.set(into.Field(i)); err != nil && wrong == nil {
			wrong = err
		}
	}
	return in, wrong
}

// jsonFields returns the members of one object.
func jsonFields(text string) (fields []field, err error) {
	if !utf8.ValidString(text) {
		return nil, errNotUTF8
	}
	d := json.NewDecoder(strings.NewReader(text))
	if start, err := d.Token(); err != nil {
		return nil, err
	} else if start != json.Delim('{') {
		return nil, errors.New("it is not an object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, err
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return nil, err
		}
		fields = append(fields, field{name: name.(string), text: string(value), isJSON: true}) // only a string can stand there
	}
	if _, err := d.Token(); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	return fields, nil
}

// formFields returns the pairs of "a=1&b=2".
func formFields(text string) (fields []field, err error) {
	for pair := range strings.SplitSeq(text, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		if name, err = url.QueryUnescape(name); err != nil {
			return nil, err
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return nil, err
		}
		if !utf8.ValidString(name) {
			return nil, errNotUTF8
		}
		fields = append(fields, field{name: name, text: value})
	}
	return fields, nil
}

// A field is one member of a JSON object, as it is written, or one pair of a form.
type field struct {
	name, text string
	isJSON     bool
	max        int  // bytes of a text
	again      bool // its name was given before
}

// set stores the field's value in a member of a struct.
func (f field) set(into reflect.Value) error {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
	}
	if f.again && (f.isJSON || into.Kind() != reflect.Slice) {
		return fmt.Errorf("%s is given twice", f.name)
	}
	switch into.Kind() {
	case reflect.Int, reflect.Int64:
		return f.setInt(into)
	case reflect.Bool:
		return f.setBool(into)
	case reflect.Slice:
		return f.setList(into)
	}
	return f.setText(into)
}

func (f field) setText(into reflect.Value) error {
	text := f.text
	if f.isJSON {
		if f.text[0] != '"' {
			return fmt.Errorf("%s must be a string, not %.40s", f.name, f.text)
		}
		json.Unmarshal([]byte(f.text), &text) // jsonFields has read it: it is valid
		// encoding/json replaces an escape that is half a character, so that two different
		// texts could read the same.
		if strings.Count(text, string(utf8.RuneError)) > strings.Count(f.text, string(utf8.RuneError)) {
			return fmt.Errorf("%s has an escape that is not a character: %.40s", f.name, f.text)
		}
	}
	if len(text) > f.max {
		return fmt.Errorf("%s has at most %d bytes", f.name, f.max)
	}
	if own, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return own.UnmarshalText([]byte(text))
	}
	into.SetString(text)
	return nil
}

// setInt stores an integer of at most quota.MaxUnits either way, exactly: digits
// without fraction or exponent. In a form "+20" is 20, although "+" is the code of a blank there.
func (f field) setInt(into reflect.Value) error {
	digits := f.text
	if !f.isJSON && (strings.HasPrefix(digits, "+") || strings.HasPrefix(digits, " ")) {
		digits = digits[1:]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(quota.MaxUnits) || n < -int64(quota.MaxUnits) || strconv.FormatInt(n, 10) != digits {
		return fmt.Errorf("%s must be a whole number of at most %d, in digits alone: %.40s", f.name, quota.MaxUnits, f.text)
	}
	into.SetInt(n)
	return nil
}

func (f field) setBool(into reflect.Value) error {
	if f.text != "true" && f.text != "false" {
		return fmt.Errorf("%s must be true or false: %.40q", f.name, f.text)
	}
	into.SetBool(f.text == "true")
	return nil
}

// setList stores a list of strings or of numbers. A form repeats the name for each item.
func (f field) setList(into reflect.Value) error {
	items := []field{{name: f.name, text: f.text, max: f.max}}
	if f.isJSON {
		if f.text[0] != '[' {
			return fmt.Errorf("%s must be a list, not %.40s", f.name, f.text)
		}
		var texts []json.RawMessage
		json.Unmarshal([]byte(f.text), &texts) // it is valid
		items = make([]field, len(texts))
		for i, text := range texts {
			items[i] = field{name: "each of " + f.name, text: string(text), isJSON: true, max: f.max}
		}
	}
	if !f.again {
		into.Set(reflect.MakeSlice(into.Type(), 0, len(items)))
	}
	for _, item := range items {
		one := reflect.New(into.Type().Elem()).Elem()
		if err := item.set(one); err != nil {
			return err
		}
		into.Set(reflect.Append(into, one))
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

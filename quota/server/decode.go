package server

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"quotad/quota"
	"quotad/quota/api"
)

const (
	maxText   = 256 // bytes of one text
	maxFields = 32
)

// A field is one member of a JSON body, or one name of a form or a query with its
// values.
type field struct {
	name  string
	json  json.RawMessage // nil in a form
	texts []string        // of a form
}

// decode reads the fields of a request into in, a pointer to a struct that is tagged
// as for encoding/json: from the body where the method has one, else from the query.
// What a request leaves out stays as it is. It is stricter than encoding/json: a name
// is taken as it is written, and once, and null is no value.
func decode(r *http.Request, in any) *api.Problem {
	list, problem := readFields(r)
	if problem != nil {
		return problem
	}
	if err := assign(list, reflect.ValueOf(in).Elem()); err != nil {
		return api.NewProblem(quota.BadRequest, "%v", err)
	}
	return nil
}

var errNotUTF8 = errors.New("it is not valid UTF-8")

// parseJSON reads the members of one object.
func parseJSON(body []byte) ([]field, error) {
	if !utf8.Valid(body) {
		return nil, errNotUTF8
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if start, err := d.Token(); err != nil {
		return nil, tooEarly(err)
	} else if start != json.Delim('{') {
		return nil, errors.New("it is not an object")
	}
	var list []field
	for d.More() {
		f, err := member(d)
		if err != nil {
			return nil, tooEarly(err)
		}
		if list, err = add(list, f); err != nil {
			return nil, err
		}
	}
	if _, err := d.Token(); err != nil {
		return nil, tooEarly(err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the object")
	}
	return list, nil
}

func member(d *json.Decoder) (f field, err error) {
	name, err := d.Token()
	if err != nil {
		return f, err
	}
	f.name, _ = name.(string) // nothing else can stand there
	return f, d.Decode(&f.json)
}

func tooEarly(err error) error {
	if err == io.EOF || err == io.ErrUnexpectedEOF {
		return errors.New("it ends too early")
	}
	return err
}

// parseForm reads "a=1&b=2". A name may stand there more than once.
func parseForm(s string) ([]field, error) {
	var list []field
	for pair := range strings.SplitSeq(s, "&") {
		if pair == "" {
			continue
		}
		name, value, _ := strings.Cut(pair, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return nil, err
		}
		text, err := url.QueryUnescape(value)
		if err != nil {
			return nil, err
		}
		if !utf8.ValidString(name) || !utf8.ValidString(text) {
			return nil, errNotUTF8
		}
		if list, err = add(list, field{name: name, texts: []string{text}}); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// add appends a field, or a further value of one in a form.
func add(list []field, f field) ([]field, error) {
	for i := range list {
		if list[i].name != f.name {
			continue
		}
		if f.json != nil {
			return nil, fmt.Errorf("%.40s is given twice", f.name)
		}
		list[i].texts = append(list[i].texts, f.texts...)
		return list, nil
	}
	if len(list) == maxFields {
		return nil, fmt.Errorf("there are more than %d fields", maxFields)
	}
	return append(list, f), nil
}

// assign sets the members of a struct. An unknown name comes before anything else: a
// misspelt one is why another is missing.
func assign(list []field, in reflect.Value) error {
	var wrong error
	for _, f := range list {
		into, known := memberOf(in, f.name)
		if !known {
			return fmt.Errorf("unknown field %.40q", f.name)
		}
		if wrong == nil {
			wrong = f.set(into)
		}
	}
	return wrong
}

// memberOf returns the field of a struct that is tagged with a name.
func memberOf(in reflect.Value, name string) (reflect.Value, bool) {
	for i := range in.NumField() {
		tag, _, _ := strings.Cut(in.Type().Field(i).Tag.Get("json"), ",")
		if tag == name && tag != "" {
			return in.Field(i), true
		}
	}
	return reflect.Value{}, false
}

// The kinds of a value, as messages name them.
const (
	aText   = "a string"
	aNumber = "a number"
	aBool   = "true or false"
	aList   = "a list of strings"
)

// set moves the field's value into a string, an integer, a bool, a list of strings, a
// type that reads itself from text, or what points to one of these.
func (f field) set(into reflect.Value) error {
	if into.Kind() == reflect.Pointer {
		into.Set(reflect.New(into.Type().Elem()))
		into = into.Elem()
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
	text, err := f.text(aText)
	if err != nil {
		return err
	}
	if f.json != nil {
		if err := json.Unmarshal(f.json, &text); err != nil {
			return err
		}
	}
	if len(text) > maxText {
		return fmt.Errorf("%s has at most %d bytes", f.name, maxText)
	}
	if own, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return own.UnmarshalText([]byte(text))
	}
	into.SetString(text)
	return nil
}

// setInt takes an integer of at most quota.MaxUnits either way, exactly: digits
// without fraction or exponent. In a form "+20" is 20, though the "+" may have become
// the blank that it stands for there.
func (f field) setInt(into reflect.Value) error {
	text, err := f.text(aNumber)
	if err != nil {
		return err
	}
	digits := text
	if f.json == nil && (strings.HasPrefix(digits, "+") || strings.HasPrefix(digits, " ")) {
		digits = digits[1:]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(quota.MaxUnits) || n < -int64(quota.MaxUnits) || strconv.FormatInt(n, 10) != digits {
		return fmt.Errorf("%s must be a whole number of at most %d, in digits alone: %.40s", f.name, quota.MaxUnits, text)
	}
	into.SetInt(n)
	return nil
}

func (f field) setBool(into reflect.Value) error {
	text, err := f.text(aBool)
	if err != nil {
		return err
	}
	if text != "true" && text != "false" {
		return fmt.Errorf("%s must be true or false: %.40q", f.name, text)
	}
	into.SetBool(text == "true")
	return nil
}

// setList takes a list of strings; a form repeats the field for each.
func (f field) setList(into reflect.Value) error {
	list := f.texts
	if f.json != nil {
		if got := kindOf(f.json); got != aList {
			return fmt.Errorf("%s must be %s, not %s", f.name, aList, got)
		}
		var items []json.RawMessage
		if err := json.Unmarshal(f.json, &items); err != nil {
			return err
		}
		list = make([]string, len(items))
		for i, item := range items {
			if kindOf(item) != aText || json.Unmarshal(item, &list[i]) != nil {
				return fmt.Errorf("%s must be %s and nothing else", f.name, aList)
			}
		}
	}
	for _, text := range list {
		if len(text) > maxText {
			return fmt.Errorf("a string of %s has at most %d bytes", f.name, maxText)
		}
	}
	into.Set(reflect.ValueOf(list))
	return nil
}

// text returns the only value of a field, as it was sent.
func (f field) text(want string) (string, error) {
	if f.json == nil {
		if len(f.texts) > 1 {
			return "", fmt.Errorf("%s is given %d times", f.name, len(f.texts))
		}
		return f.texts[0], nil
	}
	if got := kindOf(f.json); got != want {
		return "", fmt.Errorf("%s must be %s, not %s", f.name, want, got)
	}
	return string(f.json), nil
}

func kindOf(value json.RawMessage) string {
	switch value[0] {
	case '"':
		return aText
	case '[':
		return aList
	case '{':
		return "an object"
	case 't', 'f':
		return aBool
	case 'n':
		return "null"
	}
	return aNumber
}

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

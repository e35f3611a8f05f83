package api

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"quotad/quota"
)

// Fields holds the fields of one request, from a JSON body, a form body or the
// query alike. The methods move a field into a variable that is left alone when
// the field is absent, and remember the first thing that is wrong with it. What
// nobody has asked for is an error in the end.
type Fields struct {
	list []field
	err  error
}

type field struct {
	name  string
	kind  kind
	text  string   // of a text, a number's digits, "true" or "false"
	items []string // of a list
	asked bool
}

type kind string

// The kinds of a field, as error messages name them. What a form holds is of
// every kind.
const (
	kindForm   kind = "form"
	kindText   kind = "a string"
	kindNumber kind = "a number"
	kindBool   kind = "true or false"
	kindList   kind = "a list of strings"
	kindNull   kind = "null"
)

// A Binder takes its fields out of a request.
type Binder interface {
	Bind(*Fields)
}

// Text reads a string of at most 256 bytes.
func (f *Fields) Text(name string, into *string) {
	if v := f.get(name, kindText); v != nil {
		*into = v.text
	}
}

// Int reads an integer of at most quota.MaxUnits either way, exactly: digits
// without fraction or exponent. In a form "+20" is 20, though the "+" may have become
// the blank that it stands for there.
func (f *Fields) Int(name string, into *int64) {
	v := f.get(name, kindNumber)
	if v == nil {
		return
	}
	digits := v.text
	if v.kind == kindForm && (strings.HasPrefix(digits, "+") || strings.HasPrefix(digits, " ")) {
		digits = digits[1:]
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > int64(quota.MaxUnits) || n < -int64(quota.MaxUnits) || strconv.FormatInt(n, 10) != digits {
		f.Fail("%s must be a whole number of at most %d, in digits alone: %.40s", name, quota.MaxUnits, v.text)
		return
	}
	*into = n
}

// Bool reads true or false.
func (f *Fields) Bool(name string, into *bool) {
	v := f.get(name, kindBool)
	if v == nil {
		return
	}
	if v.text != "true" && v.text != "false" {
		f.Fail("%s must be true or false: %.40q", name, v.text)
		return
	}
	*into = v.text == "true"
}

// List reads a list of strings; a form repeats the field for each.
func (f *Fields) List(name string, into *[]string) {
	if v := f.get(name, kindList); v != nil {
		*into = v.items
	}
}

// Has tells whether the field is there at all.
func (f *Fields) Has(name string) bool {
	return slices.ContainsFunc(f.list, func(v field) bool { return v.name == name })
}

// Fail remembers what is wrong with the request, unless something was wrong before.
func (f *Fields) Fail(format string, args ...any) {
	if f.err == nil {
		f.err = fmt.Errorf(format, args...)
	}
}

// get returns the field of that name if it is there and of the wanted kind.
func (f *Fields) get(name string, want kind) *field {
	for i := range f.list {
		v := &f.list[i]
		if v.name != name {
			continue
		}
		v.asked = true
		switch {
		case v.kind == kindForm && want != kindList && len(v.items) > 1:
			f.Fail("%s is given %d times", name, len(v.items))
			return nil
		case v.kind != kindForm && v.kind != want:
			f.Fail("%s must be %s, not %s", name, want, v.kind)
			return nil
		}
		return v
	}
	return nil
}

// add appends a field; only forms may repeat one.
func (f *Fields) add(v field) error {
	if len(v.name) > maxText || len(v.text) > maxText {
		return fmt.Errorf("a field's name and text have at most %d bytes: %.40q has more", maxText, v.name)
	}
	for i := range f.list {
		if f.list[i].name != v.name {
			continue
		}
		if v.kind != kindForm {
			return fmt.Errorf("%s is given twice", v.name)
		}
		f.list[i].items = append(f.list[i].items, v.text)
		return nil
	}
	if len(f.list) == maxFields {
		return fmt.Errorf("there are more than %d fields", maxFields)
	}
	if v.kind == kindForm {
		v.items = []string{v.text}
	}
	f.list = append(f.list, v)
	return nil
}

// bind moves all fields into b and returns the first thing that is wrong.
func (f *Fields) bind(b Binder) error {
	b.Bind(f)
	for _, v := range f.list {
		if !v.asked {
			// Before anything else: a misspelt name is why another is missing.
			return fmt.Errorf("unknown field %q", v.name)
		}
	}
	return f.err
}

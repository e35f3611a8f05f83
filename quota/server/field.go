package server

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"quotad/quota"
)

// A field is one member of a JSON object, as it is written, or one pair of a form.
type field struct {
	name, text string
	isJSON     bool
	most       int  // bytes that its text may have
	again      bool // its name was given before
}

// The kinds of a value, as messages name them.
const (
	aText   = "a string"
	aNumber = "a number"
	aBool   = "true or false"
	aList   = "a list"
)

// set moves the field's value into a member of a struct.
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

// check refuses a JSON value of another kind.
func (f field) check(want string) error {
	if !f.isJSON || kindOf(f.text) == want {
		return nil
	}
	return fmt.Errorf("%s must be %s, not %s", f.name, want, kindOf(f.text))
}

func (f field) setText(into reflect.Value) error {
	if err := f.check(aText); err != nil {
		return err
	}
	text, err := f.unquoted()
	if err != nil {
		return err
	}
	if len(text) > f.most {
		return fmt.Errorf("%s has at most %d bytes", f.name, f.most)
	}
	if own, ok := into.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return own.UnmarshalText([]byte(text))
	}
	into.SetString(text)
	return nil
}

// unquoted returns a text, which JSON has in quotes. encoding/json replaces an escape
// that is half a character, so that two different texts could read the same.
func (f field) unquoted() (string, error) {
	if !f.isJSON {
		return f.text, nil
	}
	var text string
	err := json.Unmarshal([]byte(f.text), &text)
	if err == nil && strings.ContainsRune(text, utf8.RuneError) && !strings.ContainsRune(f.text, utf8.RuneError) {
		return "", fmt.Errorf("%s has an escape that is no character: %.40s", f.name, f.text)
	}
	return text, err
}

// setInt takes an integer of at most quota.MaxUnits either way, exactly: digits
// without fraction or exponent. In a form "+20" is 20, though the "+" may have become
// the blank that it stands for there.
func (f field) setInt(into reflect.Value) error {
	if err := f.check(aNumber); err != nil {
		return err
	}
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
	if err := f.check(aBool); err != nil {
		return err
	}
	if f.text != "true" && f.text != "false" {
		return fmt.Errorf("%s must be true or false: %.40q", f.name, f.text)
	}
	into.SetBool(f.text == "true")
	return nil
}

// setList takes a list of strings, or of numbers; a form repeats the name for each.
func (f field) setList(into reflect.Value) error {
	items := []field{f}
	if f.isJSON {
		if err := f.check(aList); err != nil {
			return err
		}
		var texts []json.RawMessage
		if err := json.Unmarshal([]byte(f.text), &texts); err != nil {
			return err
		}
		items = make([]field, len(texts))
		for i, text := range texts {
			items[i] = field{name: "each of " + f.name, text: string(text), isJSON: true, most: f.most}
		}
	}
	if !f.again {
		into.Set(reflect.MakeSlice(into.Type(), 0, len(items)))
	}
	for _, item := range items {
		item.again = false
		one := reflect.New(into.Type().Elem()).Elem()
		if err := item.set(one); err != nil {
			return err
		}
		into.Set(reflect.Append(into, one))
	}
	return nil
}

// kindOf tells the kind of a JSON value.
func kindOf(value string) string {
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

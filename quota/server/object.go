package server

import (
	"encoding/json"
	"strconv"
	"time"
)

// An object is a JSON object that is written member by member. What is empty is left
// out, except of numbers and flags.
type object struct{ text []byte }

func newObject() *object { return &object{append(make([]byte, 0, 768), '{')} }

// name begins a member. Names are ours: there is nothing in them to escape.
func (o *object) name(name string) {
	if last := o.text[len(o.text)-1]; last != '{' {
		o.text = append(o.text, ',')
	}
	o.text = append(append(append(o.text, '"'), name...), '"', ':')
}

func (o *object) str(name, value string) {
	if value != "" {
		o.name(name)
		o.text = appendString(o.text, value)
	}
}

func (o *object) number(name string, value int64) {
	o.name(name)
	o.text = strconv.AppendInt(o.text, value, 10)
}

func (o *object) flag(name string, value bool) {
	o.name(name)
	o.text = strconv.AppendBool(o.text, value)
}

func (o *object) time(name string, value time.Time) {
	if !value.IsZero() {
		o.name(name)
		o.text = append(value.UTC().AppendFormat(append(o.text, '"'), time.RFC3339Nano), '"')
	}
}

// timeAt writes a time that may be absent.
func (o *object) timeAt(name string, value *time.Time) {
	if value != nil {
		o.time(name, *value)
	}
}

// strs writes a list of strings.
func (o *object) strs(name string, values []string) {
	if len(values) > 0 {
		o.list(name, len(values), func(i int) { o.text = appendString(o.text, values[i]) })
	}
}

// list writes a member that is a list of n, each written by one.
func (o *object) list(name string, n int, one func(i int)) {
	o.name(name)
	for i := range n {
		o.text = append(o.text, "[,"[min(i, 1)])
		one(i)
	}
	o.text = append(o.text, ']')
}

// appendString appends a JSON string.
func appendString(text []byte, s string) []byte {
	begin := len(text)
	text = append(text, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < ' ' || c > '~' || c == '<' || c == '>' || c == '&':
			escaped, _ := json.Marshal(s) // of a string it cannot fail
			return append(text[:begin], escaped...)
		case c == '"' || c == '\\':
			text = append(text, '\\', c)
		default:
			text = append(text, c)
		}
	}
	return append(text, '"')
}

// end returns the whole text, as a line.
func (o *object) end() []byte { return append(o.text, '}', '\n') }

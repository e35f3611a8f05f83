package config

import (
	"errors"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

func TestLinesOfKeys(t *testing.T) {
	tests := []struct {
		name string
		text string
		want map[string]int // path with its parts joined by "|" → line
	}{
		{"nothing", "", map[string]int{"a": 1}},
		{"plain keys", "a = 1\n\nb = 2", map[string]int{"a": 1, "b": 3}},
		{"windows line ends", "a = 1\r\nb = 2\r\n", map[string]int{"b": 2}},
		{"byte order mark", "\ufeffa = 1\nb = 2", map[string]int{"a": 1, "b": 2}},
		{"comments", "# a = 0\na = 1 # b = 0\n  # c\nb = 2", map[string]int{"a": 2, "b": 4}},
		{"tables", "[x]\na = 1\n[x.y] # z\na = 2\n[ w . v ]\na = 3", map[string]int{"x": 1, "x|a": 2, "x|y": 3, "x|y|a": 4, "w": 5, "w|v|a": 6}},
		{"a missing key has the line of its table", "\n[x]\na = 1\n[y]", map[string]int{"x|b": 2, "x|b|c": 2, "y|a": 4, "z": 1}},
		{"dotted keys", "[x]\na.b.c = 1\na.b.d = 2", map[string]int{"x|a": 2, "x|a|b": 2, "x|a|b|c": 2, "x|a|b|d": 3}},
		{"quoted keys", "[x.\"a.b\"]\n\"c d\" = 1\n'e=f'.\"g\\u0041\\\"]\" = 2\n\"\" = 3", map[string]int{"x|a.b|c d": 2, "x|a.b|e=f|gA\"]": 3}},
		{"array over lines", "a = [\n  1, # one ]\n\n  2,\n]\nb = 1", map[string]int{"a": 1, "a|[0]": 2, "a|[1]": 4, "b": 6}},
		{"nested arrays", "a = [[1,\n2], [\n3]]\nb = 1", map[string]int{"a|[0]": 1, "a|[1]": 2, "b": 4}},
		{"inline table", "a = { b = 1, \"c.d\" = { e = [\n1 ] } }\nf = 1", map[string]int{"a|b": 1, "a|c.d|e": 1, "a|c.d|e|[0]": 2, "f": 3}},
		{"inline table over lines", "a = {\n  b = 1, # }\n  c.d = 2,\n}\ne = 1", map[string]int{"a|b": 2, "a|c|d": 3, "e": 5}},
		{"strings that look like keys", "a = \"b = 1 # [c]\"\nb = 'x \"'\nc = \"\\\"\\\\\"\nd = 1", map[string]int{"b": 2, "c": 3, "d": 4}},
		{"long strings", "a = \"\"\"\n\\\"\"\" b = 1\n\"\"\"\"\nb = '''\nc = 1\n\\'''\nc = 2", map[string]int{"c": 7}},
		{"dates, floats, booleans", "a = 1979-05-27 07:32:00\nb = [1.5, true]\nc = 1", map[string]int{"b": 2, "c": 3}},
		{"a table has the line of its header", "[x.a]\nb = 1\n[x]\nc = 1", map[string]int{"x": 3, "x|a": 1, "x|c": 4}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			meta, err := toml.Decode(test.text, &map[string]any{})
			if err != nil {
				t.Fatalf("the test is not a TOML document: %v", err)
			}
			found := locate(structureOf(test.text), meta.Keys())
			for path, want := range test.want {
				if got := found.at(strings.Split(path, "|")); got != want {
					t.Errorf("%s stands on line %d, want %d", path, got, want)
				}
			}
		})
	}
}

// Unreadable has the decoder say where a value stands, as it does for no other purpose.
type unreadable struct{}

func (unreadable) UnmarshalTOML(any) error { return errors.New("unreadable") }

// opensText matches a line with the quotes that open a text of several lines.
var opensText = regexp.MustCompile(`'''|"""`)

// Whatever the text, a line is found for everything in it: for a key of the document itself
// the one that the decoder knows.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		"a.b = 1\n[c.\"d e\"]\nf = { g = [1, { h = 2 }] }\n[[i]]\nj = '''k'''\n[i.l]\n[[i]]\nm = \"\"\"\\\"\"\"",
		"a = [[], [{}], \"]\", # ]\n]", "a = '''\n'''", "a='''\n''\n'''", "\"\" = 1\n[\"\"]", "\ufeffa=1",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var tree map[string]any
		structure := structureOf(text)
		meta, err := toml.Decode(text, &tree)
		if err != nil || !utf8.ValidString(text) || tooDeep(structure) > 0 {
			return // the decoder steps over the mark of UTF-16
		}
		found := locate(structure, meta.Keys())
		var values map[string]toml.Primitive
		meta, _ = toml.Decode(text, &values)
		for key, value := range values {
			var known toml.ParseError
			errors.As(meta.PrimitiveDecode(value, unreadable{}), &known)
			_, repeated := tree[key].([]map[string]any) // of these the decoder knows the last
			line := found.at([]string{key})
			// Of a text of several lines, the decoder may know a later line than that of its key.
			_, isText := tree[key].(string)
			later := isText && line < known.Position.Line && opensText.MatchString(strings.Split(text, "\n")[line-1])
			if line != known.Position.Line && known.Position.Line > 0 && !repeated && !later {
				t.Errorf("key %q is found on line %d of %q, want %d", key, line, text, known.Position.Line)
			}
		}
		for _, path := range pathsOf(nil, tree) {
			if line := found.at(path); line < 1 || line > 1+strings.Count(text, "\n") {
				t.Errorf("path %q has the line %d in %q", path, line, text)
			}
		}
	})
}

// pathsOf returns the path of everything below value.
func pathsOf(path []string, value any) (paths [][]string) {
	within := func(name string) []string { return append(path[:len(path):len(path)], name) }
	switch value := value.(type) {
	case map[string]any:
		for key, below := range value {
			paths = append(paths, append(pathsOf(within(key), below), within(key))...)
		}
	case []any:
		for i := range value {
			paths = append(paths, within(element(i)))
		}
	}
	return paths
}

package config

import (
	"strings"
	"testing"
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
		{"array over lines", "a = [\n  1, # one ]\n\n  2,\n]\nb = 1", map[string]int{"a": 1, "a|[0]": 1, "b": 6}},
		{"nested arrays", "a = [[1,\n2], [\n3]]\nb = 1", map[string]int{"a": 1, "b": 4}},
		{"inline table", "a = { b = 1, \"c.d\" = { e = [\n1 ] } }\nf = 1", map[string]int{"a|b": 1, "a|c.d|e": 1, "f": 3}},
		{"inline table over lines", "a = {\n  b = 1, # }\n  c.d = 2,\n}\ne = 1", map[string]int{"a|b": 2, "a|c|d": 3, "e": 5}},
		{"strings that look like keys", "a = \"b = 1 # [c]\"\nb = 'x \"'\nc = \"\\\"\\\\\"\nd = 1", map[string]int{"b": 2, "c": 3, "d": 4}},
		{"long strings", "a = \"\"\"\n\\\"\"\" b = 1\n\"\"\"\"\nb = '''\nc = 1\n\\'''\nc = 2", map[string]int{"c": 7}},
		{"dates, floats, booleans", "a = 1979-05-27 07:32:00\nb = [1.5, true]\nc = 1", map[string]int{"b": 2, "c": 3}},
		{"a table has the line of its header", "[x.a]\nb = 1\n[x]\nc = 1", map[string]int{"x": 3, "x|a": 1, "x|c": 4}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			d := &document{}
			if _, err := d.parse(test.text); err != nil {
				t.Fatalf("the test is not a TOML document: %v", err)
			}
			for path, want := range test.want {
				if got := d.lineOf(strings.Split(path, "|")); got != want {
					t.Errorf("%s stands on line %d, want %d", path, got, want)
				}
			}
		})
	}
}

// Whatever the text, everything in it has a line of it.
func FuzzLines(f *testing.F) {
	for _, seed := range []string{
		"a.b = 1\n[c.\"d e\"]\nf = { g = [1, { h = 2 }] }\n[[i]]\nj = '''k'''\n[i.l]\n[[i]]\nm = \"\"\"\\\"\"\"\"",
		"a = [[], [{}], \"]\", # ]\n]", "a = '''\n'''", "\"\" = 1\n[\"\"]", "\ufeffa=1", "\"%d\" = 1", "a = 1\na = 2",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		d := &document{}
		tree, err := d.parse(text)
		if err != nil {
			return
		}
		last := 1 + strings.Count(text, "\n")
		for path, line := range d.line {
			if line < 0 || line > last {
				t.Errorf("path %q has the line %d in %q", path, line, text)
			}
		}
		for key := range tree {
			if d.line[key] < 1 && key != "" {
				t.Errorf("key %q has no line in %q", key, text)
			}
		}
	})
}

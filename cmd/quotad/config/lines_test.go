package config

import (
	"strings"
	"testing"
)

func TestLinesOfKeys(t *testing.T) {
	for _, row := range []struct {
		name string
		text string
		want map[string]int // path with its parts joined by "|" → line
	}{
		{"nothing", "", map[string]int{"a": 1}},
		{"windows line ends", "a = 1\r\nb = 2\r\n", map[string]int{"b": 2}},
		{"comments", "# a = 0\na = 1 # b = 0\n  # c\nb = 2", map[string]int{"a": 2, "b": 4}},
		{"tables", "[x]\na = 1\n[x.y] # z\na = 2\n[ w . v ]\na = 3", map[string]int{"x": 1, "x|a": 2, "x|y": 3, "x|y|a": 4, "w": 5, "w|v|a": 6}},
		{"a missing key has the line of its table", "\n[x]\na = 1\n[y]", map[string]int{"x|b": 2, "x|b|c": 2, "y|a": 4, "z": 1}},
		{"dotted keys", "[x]\na.b.c = 1\na.b.d = 2", map[string]int{"x|a": 2, "x|a|b": 2, "x|a|b|c": 2, "x|a|b|d": 3}},
		{"quoted keys", "[x.\"a.b\"]\n\"c d\" = 1\n'e=f'.\"g\\u0041\\\"]\" = 2\n\"\" = 3", map[string]int{"x|a.b|c d": 2, "x|a.b|e=f|gA\"]": 3}},
		{"inline table over lines", "a = {\n  b = 1, # }\n  c.d = 2,\n}\ne = 1", map[string]int{"a|b": 2, "a|c|d": 3, "e": 5}},
		{"strings that look like keys", "a = \"b = 1 # [c]\"\nb = \"\"\"\n\\\"\"\" c = 1\n\"\"\"\"\nc = 1", map[string]int{"c": 5}},
		{"a table has the line of its header", "[x.a]\nb = 1\n[x]\nc = 1", map[string]int{"x": 3, "x|a": 1, "x|c": 4}},
	} {
		d := &document{}
		_, err := d.parse(row.text)
		must(t, err)
		for path, want := range row.want {
			if got := d.lineOf(strings.Split(path, "|")); got != want {
				t.Errorf("%s: %s is on line %d, want %d", row.name, path, got, want)
			}
		}
	}
}

package config

import (
	"encoding/json"
	"regexp"
	"strings"
)

// A schema is a node of a JSON Schema, as editors read it: what may stand there, and what it means.
type schema = map[string]any

// ReferenceSchema returns the reference as a JSON Schema of the file, by which editors complete keys, explain them and mark
// mistakes. It demands no key: what must be there depends on presets and on other keys, and quotad --check knows.
func ReferenceSchema() string {
	root := tableSchema("quotad's configuration")
	root["$schema"] = "https://json-schema.org/draft/2020-12/schema"
	for _, t := range reference() {
		at := root
		if t.path == "window" {
			at = tableSchema(t.means)
			root["$defs"] = schema{"window": at}
		} else if t.path != "" {
			at = below(root, strings.Split(t.path, "."))
			at["description"] = t.means
			if t.true {
				at["type"] = []string{"object", "boolean"}
			}
		}
		for _, k := range t.keys {
			one := valueSchema(k.value)
			one["description"] = k.means + " " + k.absent() + "."
			in, key := place(at, k.name)
			in[key] = one
		}
	}
	text, err := json.MarshalIndent(root, "", "\t")
	if err != nil {
		panic(err) // it is made of strings, numbers and maps
	}
	return string(text) + "\n"
}

func tableSchema(means string) schema {
	return schema{"type": "object", "description": means, "additionalProperties": false}
}

// place returns where a key of a table stands: a name of the reader's choice stands for every key.
func place(table schema, name string) (in schema, key string) {
	if name == strings.ToUpper(name) {
		return table, "additionalProperties"
	}
	if table["properties"] == nil {
		table["properties"] = schema{}
	}
	return table["properties"].(schema), name
}

// below returns the table at a path, which it makes if it is not there.
func below(at schema, path []string) schema {
	for _, name := range path {
		in, key := place(at, name)
		next, known := in[key].(schema)
		if !known {
			next = tableSchema("")
			in[key] = next
		}
		at = next
	}
	return at
}

var quotedWord = regexp.MustCompile(`"([^"]*)"`)

// valueSchema returns what a value must be, by what the reference says of it.
func valueSchema(value string) schema {
	words := quotedWord.FindAllStringSubmatch(value, -1)
	rest := strings.Trim(quotedWord.ReplaceAllString(value, ""), " ,or")
	kind, _, _ := strings.Cut(value, " ")
	switch {
	case len(words) > 0 && rest == "":
		var choices []string
		for _, word := range words {
			choices = append(choices, word[1])
		}
		return schema{"enum": choices}
	case strings.Contains(value, ", or array of"):
		return schema{"type": []string{"string", "array"}}
	case strings.Contains(value, "table of [window]"):
		return schema{"anyOf": []schema{{"type": "string"}, {"$ref": "#/$defs/window"}}}
	case value == "true or false":
		return schema{"type": "boolean"}
	}
	types := map[string]string{"whole": "integer", "array": "array", "table": "object", "table:": "object"}
	if t := types[kind]; t != "" {
		return schema{"type": t}
	}
	return schema{"type": "string"}
}

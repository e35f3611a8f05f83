package config

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"quotad/quota/api"
)

// NeedsRestart returns the keys among the changes that a running quotad keeps.
func NeedsRestart(changes []api.ConfigChange) (keys []string) {
	for _, c := range changes {
		switch first, rest, _ := strings.Cut(c.Key, "."); first {
		case "name", "state_dir", "socket", "ledger", "passes", "access", "metrics", "proxy":
			keys = append(keys, c.Key)
		case "remote":
			if !strings.HasPrefix(rest, "callers") {
				keys = append(keys, c.Key)
			}
		}
	}
	return keys
}

// Changes returns what is different in another configuration, sorted by the keys of the file.
// A table with a name that only one of the two has is one change, without its keys.
func (c *Config) Changes(other *Config) []api.ConfigChange {
	was, is := map[string]any{}, map[string]any{}
	settings(nil, reflect.ValueOf(&c.fileTable).Elem(), was)
	settings(nil, reflect.ValueOf(&other.fileTable).Elem(), is)
	all := maps.Clone(was)
	maps.Copy(all, is)
	changes := []api.ConfigChange{}
	reported := "-" // the keys of this table are left out; no key begins so
	for _, key := range slices.Sorted(maps.Keys(all)) {
		before, after := was[key], is[key]
		if strings.HasPrefix(key, reported+".") || reflect.DeepEqual(before, after) || isUnset(before) && isUnset(after) {
			continue
		}
		change := api.ConfigChange{Key: key, Kind: api.Changed}
		switch {
		case before == nil:
			change.Kind = api.Added
		case after == nil:
			change.Kind = api.Removed
		}
		if all[key] == (named{}) {
			reported = key
		}
		changes = append(changes, change)
	}
	return changes
}

// Named stands for a table with a name; its keys are settings of their own.
type named struct{}

// settings collects the value of each key, or the default of an absent one.
func settings(path []string, v reflect.Value, into map[string]any) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			into[keyAt(path)] = named{}
			settings(path, v.Elem(), into)
		}
		return
	case reflect.Map:
		for name, value := range v.Seq2() {
			settings(within(path, name.String()), value, into)
		}
		return
	}
	var table tabular
	if v.CanAddr() {
		table, _ = v.Addr().Interface().(tabular)
	}
	if table == nil {
		into[keyAt(path)] = v.Interface()
		return
	}
	for key, field := range keyed(v.Type()) {
		switch value := v.FieldByIndex(field.Index); {
		case key == "*":
			settings(path, value, into)
		case table.has(key) || !value.IsZero():
			settings(within(path, key), value, into)
		}
	}
}

// isUnset reports whether a setting is absent, or has the value of an absent one without a default.
func isUnset(value any) bool {
	return value == nil || value != (named{}) && reflect.ValueOf(value).IsZero()
}

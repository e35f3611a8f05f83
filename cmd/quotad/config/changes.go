package config

import (
	"cmp"
	"maps"
	"reflect"
	"slices"
	"strings"
)

// NeedsRestart returns the keys of the file that another configuration changes, and that a running quotad keeps.
func (c *Config) NeedsRestart(is *Config) (keys []string) {
	was, now := c.fileTable.values, is.fileTable.values
	for _, key := range []string{"name", "state_dir", "socket", "ledger", "passes", "access", "metrics", "proxy"} {
		if !reflect.DeepEqual(was[key], now[key]) {
			keys = append(keys, key)
		}
	}
	if !reflect.DeepEqual(listener(was), listener(now)) {
		keys = append(keys, "remote")
	}
	return keys
}

// listener returns what is written of [remote] beside its callers.
func listener(values map[string]any) map[string]any {
	remote := map[string]any{}
	maps.Copy(remote, tableAt(values, "remote"))
	delete(remote, "callers")
	return remote
}

// Changed names the tables and keys of the file that another configuration changes: "credentials, jobs".
func (c *Config) Changed(is *Config) string {
	was, now := c.fileTable.values, is.fileTable.values
	both := maps.Clone(was)
	maps.Copy(both, now)
	changed := slices.Sorted(maps.Keys(both))
	changed = slices.DeleteFunc(changed, func(key string) bool { return reflect.DeepEqual(was[key], now[key]) })
	return cmp.Or(strings.Join(changed, ", "), "no setting") + " changed"
}

// tableAt returns the table at a path; nil: there is none.
func tableAt(values map[string]any, path ...string) map[string]any {
	for _, key := range path {
		values, _ = values[key].(map[string]any)
	}
	return values
}

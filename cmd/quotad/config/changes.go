package config

import (
	"maps"
	"reflect"
	"strings"

	"quotad/quota"
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

// Changed says how many tables of each kind another configuration adds, removes or changes: "3 jobs, 2 limits changed".
func (c *Config) Changed(is *Config) string {
	was, now := named(c.fileTable.values), named(is.fileTable.values)
	var parts []string
	for i, kind := range []struct{ one, more string }{
		{"job", "jobs"}, {"limit", "limits"}, {"credential", "credentials"}, {"client limit", "client limits"},
		{"remote caller", "remote callers"},
	} {
		if n := differing(was[i], now[i]); n > 0 {
			parts = append(parts, quota.Count(n, kind.one, kind.more))
		}
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ") + " changed"
	case !reflect.DeepEqual(c.fileTable.values, is.fileTable.values):
		return "settings changed"
	}
	return "no key changed"
}

// named returns the tables of a file that have names, by kind: a credential's are without its limits.
func named(values map[string]any) [5]map[string]any {
	limits, credentials := map[string]any{}, map[string]any{}
	for name := range tableAt(values, "credentials") {
		one := maps.Clone(tableAt(values, "credentials", name))
		for limit, table := range tableAt(one, "limits") {
			limits[name+" "+limit] = table
		}
		delete(one, "limits")
		credentials[name] = one
	}
	callers := tableAt(values, "remote", "callers")
	return [...]map[string]any{tableAt(values, "jobs"), limits, credentials, tableAt(values, "clients"), callers}
}

// differing counts the names that have another value, or are in one of two tables only.
func differing(was, is map[string]any) (n int) {
	all := map[string]any{}
	maps.Copy(all, was)
	maps.Copy(all, is)
	for name := range all {
		if !reflect.DeepEqual(was[name], is[name]) {
			n++
		}
	}
	return n
}

// tableAt returns the table at a path; nil: there is none.
func tableAt(values map[string]any, path ...string) map[string]any {
	for _, key := range path {
		values, _ = values[key].(map[string]any)
	}
	return values
}

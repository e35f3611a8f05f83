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
	was, now := c.fileTable.values, is.fileTable.values
	limits, credentials := 0, 0
	all := maps.Clone(tableAt(was, "credentials"))
	maps.Copy(all, tableAt(now, "credentials"))
	for name := range all {
		before, after := maps.Clone(tableAt(was, "credentials", name)), maps.Clone(tableAt(now, "credentials", name))
		limits += differing(tableAt(before, "limits"), tableAt(after, "limits"))
		delete(before, "limits")
		delete(after, "limits")
		credentials += differing(map[string]any{name: before}, map[string]any{name: after})
	}
	var parts []string
	for _, kind := range []struct {
		count     int
		one, more string
	}{
		{differing(tableAt(was, "jobs"), tableAt(now, "jobs")), "job", "jobs"},
		{limits, "limit", "limits"},
		{credentials, "credential", "credentials"},
		{differing(tableAt(was, "clients"), tableAt(now, "clients")), "client limit", "client limits"},
		{differing(tableAt(was, "remote", "callers"), tableAt(now, "remote", "callers")), "remote caller", "remote callers"},
	} {
		if kind.count > 0 {
			parts = append(parts, quota.Count(kind.count, kind.one, kind.more))
		}
	}
	switch {
	case len(parts) > 0:
		return strings.Join(parts, ", ") + " changed"
	case !reflect.DeepEqual(was, now):
		return "settings changed"
	}
	return "no key changed"
}

// differing counts the names that have another value, or are in one of two tables only.
func differing(was, is map[string]any) (n int) {
	for name := range was {
		if !reflect.DeepEqual(was[name], is[name]) {
			n++
		}
	}
	for name := range is {
		if _, both := was[name]; !both {
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

package config

import (
	"slices"
	"time"

	"quotad/quota"
	"quotad/quota/clientlimit"
)

// defaultLimit is the name of the limit in [clients.NAME] itself.
const defaultLimit = "default"

// decode refuses limits and operations without a name of clients.
func (t *clientsTable) decode(n node) {
	name := n.path[len(n.path)-1]
	if _, isTable := n.value.(map[string]any); !isTable || slices.Contains([]string{"limits", "operations"}, name) {
		n.fail("is in no table of clients: give them a name, such as [clients.public]")
		return
	}
	n.intoTable(t)
}

// clients checks the clients of each name on their own.
func (t *fileTable) clients() (all []*clientlimit.Clients) {
	for _, name := range t.names("clients") {
		one := t.Clients[name]
		c := one.clients(name)
		// If limits lack keys, all further errors would follow from that.
		if len(c.Limits) > 0 || one.has("limits") && len(one.Limits) == 0 {
			one.check(c.Validate())
		}
		all = append(all, c)
	}
	return all
}

func (t *clientsTable) clients(name string) *clientlimit.Clients {
	c := &clientlimit.Clients{
		Name: name, Algorithm: clientlimit.Algorithm(t.Algorithm), Operations: t.Operations, Plain: t.Subjects == "plain", OpenOnOutage: t.OnOutage == "open",
	}
	add := func(name string, limit *clientLimitTable) {
		limit.require("units", "60")
		limit.require("window", `"1m"`)
		if limit.has("units") && limit.has("window") {
			c.Limits = append(c.Limits, quota.Limit{Name: name, Units: limit.Units, Window: limit.Window.Window, DryRun: !limit.Enforce})
		}
	}
	if !t.has("limits") {
		add(defaultLimit, &clientLimitTable{t.table, t.Units, t.Window, t.Enforce})
		return c
	}
	for _, key := range []string{"units", "window", "enforce"} {
		if t.has(key) {
			t.fail(key, "cannot be combined with limits: move it into one of them, such as [%s]", keyAt(within(t.path, "limits", "minute")))
		}
	}
	for _, name := range t.names("limits") {
		add(name, t.Limits[name])
	}
	return c
}

// check records errors. A limit without a table of its own has its keys in the table of
// the clients.
func (t *clientsTable) check(wrong []*quota.FieldError) {
	for _, one := range wrong {
		if !t.has("limits") && len(one.Path) > 2 && one.Path[0] == "limits" {
			one.Path = one.Path[2:]
		}
	}
	t.addErrors(wrong)
}

// warnOfClients warns of each limit of clients that never denies, because another one
// grants no more in a longer window.
func (c *Config) warnOfClients() {
	for _, clients := range c.Clients {
		for _, l := range clients.Limits {
			i := slices.IndexFunc(clients.Limits, func(other quota.Limit) bool {
				return !other.DryRun && other.Window.Length > l.Window.Length && other.Units <= l.Units
			})
			if i >= 0 {
				c.file.at(c.pathOf(clients, l, "units")...).warn("it never denies anything: limit %s has %s, and a longer window", clients.Limits[i].Name, quota.Thousands(clients.Limits[i].Units))
			}
		}
	}
}

// LongerClientWindows returns, after a reload, a warning for each limit whose window became
// longer: a record that had expired does not count in it.
func (c *Config) LongerClientWindows(was *Config) (all Errors) {
	for _, clients := range c.Clients {
		for _, before := range was.Clients {
			if before.Name != clients.Name || before.Algorithm != clients.Algorithm {
				continue
			}
			for _, l := range clients.Limits {
				if shorter := windowBefore(before, l); shorter > 0 && shorter < l.Window.Length {
					all = append(all, c.document.at(c.pathOf(clients, l, "window"),
						"it was %s: existing records still count, but a client whose record had expired begins at 0. For %s such a client may be granted what %s allowed and what this allows",
						quota.Brief(shorter), quota.Brief(l.Window.Length), quota.Brief(shorter)))
				}
			}
		}
	}
	return all
}

// windowBefore returns the former window of the limit of that name, else the longest; 0 if a limit
// had the same window.
func windowBefore(before *clientlimit.Clients, l quota.Limit) (window time.Duration) {
	for _, other := range before.Limits {
		switch {
		case other.Window == l.Window:
			return 0
		case other.Name == l.Name:
			return other.Window.Length
		}
		window = max(window, other.Window.Length)
	}
	return window
}

// pathOf returns the path of a key of a limit in the file.
func (c *Config) pathOf(clients *clientlimit.Clients, l quota.Limit, key string) []string {
	if c.file.Clients[clients.Name].has("limits") {
		return []string{"clients", clients.Name, "limits", l.Name, key}
	}
	return []string{"clients", clients.Name, key}
}

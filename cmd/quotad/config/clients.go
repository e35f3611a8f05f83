package config

import (
	"slices"
	"strings"
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

// groups returns the names of the clients.
func (t *fileTable) groups() []string {
	return slices.DeleteFunc(t.names("clients"), func(key string) bool { return key == "secret_file" })
}

// secret returns the text of its file, without space around it.
func (t *clientGroups) secret() string {
	secret := strings.TrimSpace(t.SecretFile.text)
	if t.SecretFile.read && len(secret) < clientlimit.LeastSecret {
		t.fail("secret_file", "%s has fewer than %d bytes: write what openssl rand -hex 32 prints", t.SecretFile.path, clientlimit.LeastSecret)
	}
	return secret
}

// clients checks the clients of each name on their own.
func (t *fileTable) clients() (all []*clientlimit.Clients) {
	for _, name := range t.groups() {
		one := t.Clients.Groups[name]
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
		Name: name, Algorithm: clientlimit.Algorithm(t.Algorithm), Operations: t.Operations, OpenOnOutage: t.OnOutage == "open",
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

// ChangedClientRecords returns, after a reload, a warning for each group with another algorithm or other
// windows: its clients begin at 0.
func (c *Config) ChangedClientRecords(was *Config) (all Errors) {
	if len(c.Clients) > 0 && c.ClientSecret != was.ClientSecret {
		all = append(all, c.document.at([]string{"clients", "secret_file"}, "the secret is another one: every client begins at 0"))
	}
	for _, clients := range c.Clients {
		for _, before := range was.Clients {
			if before.Name != clients.Name {
				continue
			}
			if now, then := recordsOf(clients), recordsOf(before); now != then {
				all = append(all, c.document.at([]string{"clients", clients.Name}, "it was %s, and is %s: every client begins at 0", then, now))
			}
		}
	}
	return all
}

// recordsOf says what the records of clients count.
func recordsOf(clients *clientlimit.Clients) string {
	var windows []time.Duration
	for _, l := range clients.Limits {
		windows = append(windows, l.Window.Length)
	}
	slices.Sort(windows)
	text := string(clients.Algorithm) + " of"
	for _, window := range windows {
		text += " " + quota.Brief(window)
	}
	return text
}

// pathOf returns the path of a key of a limit in the file.
func (c *Config) pathOf(clients *clientlimit.Clients, l quota.Limit, key string) []string {
	if c.file.Clients.Groups[clients.Name].has("limits") {
		return []string{"clients", clients.Name, "limits", l.Name, key}
	}
	return []string{"clients", clients.Name, key}
}

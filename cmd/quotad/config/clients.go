package config

import (
	"slices"
	"strings"

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

// clients sets the clients of each name, which it checks on their own, and the secret: the text of its file, without
// space around it.
func (c *Config) clients() {
	file := c.fileTable.Clients.SecretFile
	c.ClientSecret = strings.TrimSpace(file.text)
	if file.read && len(c.ClientSecret) < clientlimit.LeastSecret {
		c.fileTable.Clients.fail("secret_file", "%s has fewer than %d bytes: write what openssl rand -hex 32 prints", file.path, clientlimit.LeastSecret)
	}
	for _, name := range c.groups() {
		one := c.fileTable.Clients.Groups[name]
		group := one.clients(name)
		// If limits lack keys, all further errors would follow from that.
		if len(group.Limits) > 0 || one.has("limits") && len(one.Limits) == 0 {
			one.check(group.Validate())
		}
		c.Clients = append(c.Clients, group)
	}
}

func (t *clientsTable) clients(name string) *clientlimit.Clients {
	c := t.Clients
	c.Name, c.OpenOnOutage = name, t.OnOutage == "open"
	add := func(name string, at table, l clientLimit) {
		at.require("units", "60")
		at.require("window", `"1m"`)
		if at.has("units") && at.has("window") {
			c.Limits = append(c.Limits, quota.Limit{Name: name, Units: l.Units, Window: l.Window, DryRun: l.DryRun})
		}
	}
	if !t.has("limits") {
		add(defaultLimit, t.table, t.clientLimit)
		return &c
	}
	for _, key := range []string{"units", "window", "enforce"} {
		if t.has(key) {
			t.fail(key, "cannot be combined with limits: move it into one of them, such as [%s]", keyAt(within(t.path, "limits", "minute")))
		}
	}
	for _, name := range t.names("limits") {
		add(name, table{t.at("limits", name), tableAt(t.values, "limits", name)}, t.Limits[name])
	}
	return &c
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

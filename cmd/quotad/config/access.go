package config

import (
	"os/user"

	"quotad/quota/server"
)

// An Access says who may do what, and how many may be there at once.
type Access struct {
	AdminGroup         string // whose members may do what root may; empty: the API's default
	Connections        int    // the most at once
	ConnectionsPerUser int    // of these, of one uid
}

// maxConnections keeps room for other descriptors: most systems give a process
// half a million of them.
const maxConnections = 100_000

func (r *reader) access(t *table) Access {
	a := Access{
		AdminGroup:  r.adminGroup(t),
		Connections: connections(t, "connections", server.DefaultConnections, maxConnections),
	}
	byDefault := min(server.DefaultConnectionsPerUser, a.Connections)
	a.ConnectionsPerUser = connections(t, "connections_per_user", byDefault, a.Connections)
	t.end()
	return a
}

func connections(t *table, key string, fallback, most int) int {
	n := t.integer(key, int64(fallback))
	if n < 1 || n > int64(most) {
		t.fail(key, "must be from 1 to %d: %d", most, n)
		return fallback
	}
	return int(n)
}

func (r *reader) adminGroup(t *table) string {
	group := t.text("admin_group", "")
	if group == "" {
		return ""
	}
	if _, err := user.LookupGroup(group); err != nil {
		t.fail("admin_group", "no group %q on this host: create it (groupadd --system %s) or name another", group, group)
	}
	return group
}

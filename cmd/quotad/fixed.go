package main

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"quotad/cmd/quotad/config"
	"quotad/quota/redisledger"
)

// A fixed setting is one that a running daemon keeps.
type fixed struct {
	key  string
	same bool
}

// checkFixed refuses a configuration that a running daemon could follow in part
// only.
func (d *daemon) checkFixed(was, is *config.Config) error {
	var keys []string
	for _, setting := range slices.Concat(d.fixedSettings(was, is), fixedLedger(was, is)) {
		if !setting.same {
			keys = append(keys, setting.key)
		}
	}
	if len(keys) == 0 {
		return nil
	}
	return fmt.Errorf("%s cannot change while quotad runs: restart it, or leave that as it was", strings.Join(keys, ", "))
}

func (d *daemon) fixedSettings(was, is *config.Config) []fixed {
	return []fixed{
		{"state_dir", was.StateDir == is.StateDir},
		{"socket", was.Socket == is.Socket || d.systemd.api != nil}, // systemd's is served all the same
		{"metrics.listen", was.Metrics == is.Metrics},
		{"access.admin_group", was.Access.AdminGroup == is.Access.AdminGroup},
		{"access.connections", was.Access.Connections == is.Access.Connections},
		{"access.connections_per_user", was.Access.ConnectionsPerUser == is.Access.ConnectionsPerUser},
		{"passes.parallel", was.Passes.Parallel == is.Passes.Parallel},
		{"passes.drain", was.Passes.Drain == is.Passes.Drain},
		{"passes.user (or its groups)", reflect.DeepEqual(was.Passes.User, is.Passes.User)},
		{"passes.cgroups", was.Passes.CgroupRoot == is.Passes.CgroupRoot},
		{"ledger.backend", was.Ledger.Backend == is.Ledger.Backend},
		{"ledger.deadline", was.Ledger.Deadline == is.Ledger.Deadline},
		{"ledger.sync", was.Ledger.Unsynced == is.Ledger.Unsynced},
	}
}

// fixedLedger returns what concerns a ledger in Redis, if there is one.
func fixedLedger(was, is *config.Config) []fixed {
	if was.Ledger.Backend != config.OnRedis || is.Ledger.Backend != config.OnRedis {
		return nil
	}
	a, b := was.Ledger.Redis, is.Ledger.Redis
	return []fixed{
		{"ledger.redis.addrs", slices.Equal(a.Addrs, b.Addrs)},
		{"ledger.redis.master_name", a.MasterName == b.MasterName},
		{"ledger.redis.username", a.Username == b.Username},
		{"ledger.redis.password_file (or what stands in it)", a.Password == b.Password},
		{"ledger.redis.db", a.DB == b.DB},
		{"ledger.redis.key_prefix", a.KeyPrefix == b.KeyPrefix},
		{"ledger.redis.tls (or what stands in its files)", sameTLS(a, b)},
		// What the journal forgot already could not be put back after a loss.
		{"the longest window of a credential", journalKept(is.Credentials) <= journalKept(was.Credentials)},
	}
}

func sameTLS(a, b redisledger.Config) bool {
	if a.TLS == nil || b.TLS == nil {
		return a.TLS == b.TLS
	}
	sameCertificate := func(a, b tls.Certificate) bool { return slices.EqualFunc(a.Certificate, b.Certificate, bytes.Equal) }
	return a.TLS.ServerName == b.TLS.ServerName && a.TLS.RootCAs.Equal(b.TLS.RootCAs) &&
		slices.EqualFunc(a.TLS.Certificates, b.TLS.Certificates, sameCertificate)
}

package config

import (
	"cmp"
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"

	"quotad/quota/redisledger"
)

// The backends of a Ledger.
const (
	Embedded = "embedded" // a file in the state directory
	OnRedis  = "redis"
)

// complete sets what follows from several keys.
func (t *Ledger) complete() {
	if t.has("redis") && t.Backend == Embedded {
		t.fail("redis", `is not used by the embedded ledger: set backend = "redis" in [ledger], or remove this table`)
	}
	if t.Backend == OnRedis {
		t.Redis.Deadline = t.Deadline
	}
	t.Redis.complete()
}

const unixScheme = "unix://"

func (t *redisTable) complete() {
	t.KeyPrefix = cmp.Or(t.KeyPrefix, redisledger.DefaultKeyPrefix)
	if !t.has("addrs") {
		t.Addrs = []string{"127.0.0.1:6379"}
	}
	t.checkAddrs()
	if strings.ContainsAny(t.KeyPrefix, "{}") {
		t.fail("key_prefix", "must hold no braces, they mark what a Redis Cluster hashes: %q", t.KeyPrefix)
	}
	t.Password, t.TLS = t.password(), t.TLSTable.config()
}

func (t *redisTable) checkAddrs() {
	if len(t.Addrs) == 0 {
		t.fail("addrs", `must hold at least one "host:port" or "unix:///path"`)
	}
	for _, addr := range t.Addrs {
		one := t.at("addrs")
		switch {
		case !isAddr(addr):
			one.fail(`%q is not an address: write "host:port" or "unix:///path"`, addr)
		case strings.HasPrefix(addr, unixScheme) && (len(t.Addrs) > 1 || t.MasterName != ""):
			one.fail("%q leads to one server: remove the other addresses and master_name", addr)
		}
	}
}

func isAddr(addr string) bool {
	if path, ok := strings.CutPrefix(addr, unixScheme); ok {
		return strings.HasPrefix(path, "/")
	}
	_, port, err := net.SplitHostPort(addr)
	return err == nil && port != ""
}

// password returns the text of its file, without the newline at the end.
func (t *redisTable) password() string {
	password := strings.TrimRight(t.PasswordFile.text, "\r\n")
	if t.PasswordFile.read && password == "" {
		t.fail("password_file", "%q is empty: write the password into it, or leave the key out", t.PasswordFile.path)
	}
	return password
}

// config trusts the authorities of the system if no file names others.
func (t *tlsTable) config() *tls.Config {
	if t == nil {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if pair := t.pair(t.CertFile, t.KeyFile); pair != nil {
		config.Certificates = []tls.Certificate{*pair} // that the daemon shows to the server
	}
	if t.CAFile.read {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(t.CAFile.text)) {
			t.fail("ca_file", "%q holds no certificate in PEM form", t.CAFile.path)
		}
	}
	return config
}

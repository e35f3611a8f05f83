package config

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"strings"
	"time"

	"quotad/quota/redisledger"
)

// A Ledger says where the log of debits is kept.
type Ledger struct {
	Backend  string             // Embedded or OnRedis
	Unsynced bool               // of Embedded: see boltledger.Config
	Deadline time.Duration      // for one decision
	Redis    redisledger.Config // but for the name of the daemon
}

// The backends of a Ledger.
const (
	Embedded = "embedded" // a file in the state directory
	OnRedis  = "redis"
)

// When the embedded ledger waits for the disk.
const (
	syncAlways = "always" // before it answers
	syncOff    = "off"    // never
)

func (r *reader) ledger(t *table) Ledger {
	l := Ledger{
		Backend:  t.oneOf("backend", Embedded, Embedded, OnRedis),
		Unsynced: t.oneOf("sync", syncAlways, syncAlways, syncOff) == syncOff,
		Deadline: t.duration("deadline", 250*time.Millisecond),
		Redis:    r.redis(t.table("redis")),
	}
	named := t.values["backend"]
	if t.has("redis") && (named == nil || named == Embedded) {
		t.fail("redis", `is not used by the embedded ledger: set backend = "redis" in [ledger], or remove this table`)
	}
	t.end()
	return l
}

const unixScheme = "unix://"

func (r *reader) redis(t *table) redisledger.Config {
	redis := redisledger.Config{
		Addrs:      []string{"127.0.0.1:6379"},
		MasterName: t.text("master_name", ""),
		Username:   t.text("username", ""),
		Password:   r.secret(t, "password_file"),
		KeyPrefix:  t.text("key_prefix", redisledger.DefaultKeyPrefix),
		DB:         int(t.integer("db", 0)),
		TLS:        r.tls(t),
	}
	if addrs := t.texts("addrs"); len(addrs) > 0 {
		redis.Addrs = addrs
	} else if array, ok := t.values["addrs"].([]any); ok && len(array) == 0 {
		t.fail("addrs", `must hold at least one "host:port" or "unix:///path"`)
	}
	r.checkAddrs(t, redis)
	if strings.ContainsAny(redis.KeyPrefix, "{}") {
		t.fail("key_prefix", "must hold no braces, they mark what a Redis Cluster hashes: %q", redis.KeyPrefix)
	}
	if redis.DB < 0 {
		t.fail("db", "must not be below zero: %d", redis.DB)
	}
	if redis.DB > 0 && redis.MasterName == "" && len(redis.Addrs) > 1 {
		t.fail("db", "a Redis Cluster has no databases beside 0: leave it out")
	}
	t.end()
	return redis
}

func (r *reader) checkAddrs(t *table, redis redisledger.Config) {
	for i, addr := range redis.Addrs {
		path := t.at("addrs", element(i))
		switch {
		case !isAddr(addr):
			t.document.fail(path, `%q is no address: write "host:port" or "unix:///path"`, addr)
		case strings.HasPrefix(addr, unixScheme) && (len(redis.Addrs) > 1 || redis.MasterName != ""):
			t.document.fail(path, "%q leads to one server: no other address and no master_name may stand beside it", addr)
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

// secret reads the file that a key names, less the newline at its end.
func (r *reader) secret(t *table, key string) string {
	text, path, ok := r.file(t, key)
	if !ok {
		return ""
	}
	secret := strings.TrimRight(text, "\r\n")
	if secret == "" {
		t.fail(key, "%q is empty: write the password into it, or leave the key out", path)
	}
	return secret
}

// tls is true for the system's authorities, or a table that names files.
func (r *reader) tls(t *table) *tls.Config {
	if on, ok := t.values["tls"].(bool); ok {
		t.has("tls")
		if !on {
			return nil
		}
		return &tls.Config{MinVersion: tls.VersionTLS12}
	}
	files := t.table("tls")
	if files.values == nil {
		return nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12, ServerName: files.text("server_name", "")}
	config.RootCAs = r.authorities(files)
	config.Certificates = r.certificate(files)
	files.end()
	return config
}

// authorities returns those of ca_file; nil means those of the system.
func (r *reader) authorities(t *table) *x509.CertPool {
	text, path, ok := r.file(t, "ca_file")
	if !ok {
		return nil
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM([]byte(text)) {
		t.fail("ca_file", "%q holds no certificate in PEM form", path)
	}
	return pool
}

// certificate returns what the daemon shows to the server, if anything.
func (r *reader) certificate(t *table) []tls.Certificate {
	certText, certFile, certRead := r.file(t, "cert_file")
	keyText, keyFile, keyRead := r.file(t, "key_file")
	switch {
	case certFile == "" && keyFile != "":
		t.require("cert_file", `"…", the certificate of key_file`)
	case keyFile == "" && certFile != "":
		t.require("key_file", `"…", the key of cert_file`)
	}
	if !certRead || !keyRead {
		return nil
	}
	certificate, err := tls.X509KeyPair([]byte(certText), []byte(keyText))
	if err != nil {
		t.fail("cert_file", "cannot be used with key_file: %v", err)
		return nil
	}
	return []tls.Certificate{certificate}
}

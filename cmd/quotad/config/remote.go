package config

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"quotad/quota"
	"quotad/quota/server"
)

// remote checks where remote callers are answered, and sets which there are.
func (c *Config) remote() {
	r := &c.Remote
	r.check()
	seen := map[[sha256.Size]byte]string{}
	for _, name := range r.names("callers") {
		c.Callers = append(c.Callers, c.remoteCaller(name, r.Callers[name], seen))
	}
	switch {
	case r.Listen == "" && len(c.Callers) > 0:
		r.at("callers").warn(`does nothing without an address: add listen = ":9466" to [remote]`)
	case r.Listen != "" && len(c.Callers) == 0:
		r.at("listen").warn("no caller is configured: add [remote.callers.NAME] with its token_file and credentials")
	}
}

// check checks the address, and the certificate as the daemon will read it. An expired one is no error: jobs and local
// callers do not need it.
func (t *Remote) check() {
	secured := t.has("cert_file") || t.has("key_file")
	if secured && !t.has("listen") {
		t.require("listen", `":9466"`)
	}
	if t.Listen == "" {
		return
	}
	address, err := netip.ParseAddrPort(t.Listen)
	if !secured && (err != nil || !address.Addr().IsLoopback() && !address.Addr().IsPrivate()) {
		t.fail("listen", `%q can be reached from everywhere, and without TLS tokens would travel in plain text: `+
			"add cert_file and key_file; or write an address of a private network or, where a proxy on this host has the "+
			`certificate, "127.0.0.1:9466"`, t.Listen)
	}
	pair, now := t.pair(t.CertFile, t.KeyFile), t.document.host.Now
	if pair != nil && !now.IsZero() && now.After(pair.Leaf.NotAfter) {
		t.at("cert_file").warn("expired on %s: callers refuse it; renew it, and quotad takes the new one by itself",
			pair.Leaf.NotAfter.UTC().Format(time.DateOnly))
	}
}

// remoteCaller checks one caller; seen are the tokens of those before it.
func (c *Config) remoteCaller(name string, one *callerTable, seen map[[sha256.Size]byte]string) server.RemoteCaller {
	if err := quota.CheckName(name); err != nil {
		one.node.fail("%v", err)
	}
	for _, digest := range one.TokenFile.digests {
		if whose, taken := seen[digest]; taken && whose != name {
			one.fail("token_file", "holds a token of caller %q too: give each caller its own", whose)
		}
		seen[digest] = name
	}
	if !one.has("subjects") {
		one.require("credentials", `["`+append(c.names("credentials"), "youtube")[0]+`"]`)
	}
	var operations []string
	for _, credential := range one.Credentials {
		if of := c.fileTable.Credentials[credential]; of != nil {
			operations = slices.AppendSeq(operations, maps.Keys(of.Operations))
		}
	}
	one.known("credentials", "credential", one.Credentials, c.names("credentials"))
	one.known("subjects", "table [clients.NAME]", one.Clients, c.groups())
	one.known("operations", "operation", one.Operations, operations)
	caller := one.RemoteCaller
	caller.Name, caller.Tokens = name, one.TokenFile.digests
	return caller
}

// known records an error for each name that is unknown or listed twice.
func (t *callerTable) known(key, kind string, names []string, known []string) {
	if t.has(key) && len(names) == 0 {
		t.fail(key, "must name at least one %s, or be left out", kind)
	}
	for i, name := range names {
		switch {
		case slices.Contains(names[:i], name):
			t.fail(key, "%q is listed twice: remove one", name)
		case !slices.Contains(known, name):
			t.fail(key, "there is no %s %q%s", kind, name, suggest(name, known))
		}
	}
}

// sharers returns the jobs and remote callers that a key names, as quotad knows them: "@shop" is a caller.
func sharers(names []string) (known []string) {
	for _, name := range names {
		if caller, isRemote := strings.CutPrefix(name, "@"); isRemote {
			name = quota.RemotePrefix + caller
		}
		known = append(known, name)
	}
	return known
}

// A tokenFile holds the tokens of a caller. Only their digests are kept.
type tokenFile struct {
	path    string
	digests [][sha256.Size]byte
}

const (
	minToken  = 32 // bytes: 128 bits in hex
	maxToken  = 512
	maxTokens = 2 // the old one and the new one
)

func (t *tokenFile) decode(n node) {
	var file contents
	file.decode(n)
	t.path = file.path
	if !file.read {
		return
	}
	lines := bytes.Fields([]byte(file.text))
	switch {
	case len(lines) == 0:
		n.fail("%s is empty: write a token into it, such as openssl rand -hex 32 prints", t.path)
	case len(lines) > maxTokens:
		n.fail("%s holds %d tokens: at most %d, the old one and the new one, each on a line by itself", t.path, len(lines), maxTokens)
	}
	for i, line := range lines {
		if len(line) < minToken || len(line) > maxToken || bytes.ContainsFunc(line, func(r rune) bool { return r <= ' ' || r > '~' }) {
			n.fail("the token on line %d of %s must have %d to %d plain characters: openssl rand -hex 32 prints one", i+1, t.path, minToken, maxToken)
			continue
		}
		t.digests = append(t.digests, sha256.Sum256(line))
	}
}

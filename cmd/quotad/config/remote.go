package config

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"quotad/quota"
	"quotad/quota/server"
)

// A Remote says where callers from other hosts are answered, and which callers there are.
type Remote struct {
	Listen            string // empty: nowhere
	CertFile, KeyFile string // empty: plain HTTP, on a loopback or private address
	Callers           []server.RemoteCaller
}

func (t *fileTable) remote() Remote {
	r := &t.Remote
	c := Remote{Listen: string(r.Listen), CertFile: string(r.CertFile), KeyFile: string(r.KeyFile)}
	r.checkListen()
	r.checkCertificate()
	seen := map[[sha256.Size]byte]string{}
	for _, name := range r.names("callers") {
		c.Callers = append(c.Callers, t.remoteCaller(name, r.Callers[name], seen))
	}
	switch {
	case c.Listen == "" && len(c.Callers) > 0:
		r.at("callers").warn(`does nothing without an address: add listen = ":9466" to [remote]`)
	case c.Listen != "" && len(c.Callers) == 0:
		r.at("listen").warn("no caller is configured: add [remote.callers.NAME] with its token_file and credentials")
	}
	return c
}

func (t *remoteTable) checkListen() {
	if t.Listen == "" {
		if !t.has("listen") && (t.has("cert_file") || t.has("key_file")) {
			t.require("listen", `":9466"`)
		}
		return
	}
	if address, err := netip.ParseAddrPort(string(t.Listen)); !t.requirePair() && (err != nil || !address.Addr().IsLoopback() && !address.Addr().IsPrivate()) {
		t.fail("listen", `%q can be reached from everywhere, and without TLS tokens would travel in plain text: add cert_file and key_file; or write an address of a private network or, where a proxy on this host has the certificate, "127.0.0.1:9466"`, t.Listen)
	}
}

// checkCertificate reads the pair as the daemon will. An expired certificate is no error: jobs and
// local callers do not need it.
func (t *remoteTable) checkCertificate() {
	if t.CertFile == "" || t.KeyFile == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(string(t.CertFile), string(t.KeyFile))
	now := t.document.host.Now
	switch {
	case errors.Is(err, os.ErrNotExist) && t.document.host.Checking: // the service brings it
	case err != nil:
		t.fail("cert_file", "cannot be used with key_file: %v", err)
	case !now.IsZero() && now.After(pair.Leaf.NotAfter):
		t.at("cert_file").warn("expired on %s: callers refuse it; renew it, and quotad takes the new one by itself", pair.Leaf.NotAfter.UTC().Format(time.DateOnly))
	case !now.IsZero() && now.Before(pair.Leaf.NotBefore):
		t.at("cert_file").warn("is not valid before %s, and this host's clock shows %s: is that right?", pair.Leaf.NotBefore.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	}
}

// remoteCaller checks one caller; seen are the tokens of those before it.
func (t *fileTable) remoteCaller(name string, one *callerTable, seen map[[sha256.Size]byte]string) server.RemoteCaller {
	if err := quota.CheckName(name); err != nil {
		one.node.fail("%v", err)
	}
	for _, digest := range one.TokenFile.digests {
		if whose, taken := seen[digest]; taken && whose == name {
			one.fail("token_file", "holds the same token twice: remove one")
		} else if taken {
			one.fail("token_file", "holds a token of caller %q too: give each caller its own", whose)
		}
		seen[digest] = name
	}
	if !one.has("subjects") {
		one.require("credentials", `["`+append(t.names("credentials"), "youtube")[0]+`"]`)
	}
	one.known("credentials", "credential", one.Credentials, t.names("credentials"))
	one.known("subjects", "table [clients.NAME]", one.Subjects, t.groups())
	one.known("operations", "operation", one.Operations, t.operationsOf(one.Credentials))
	return server.RemoteCaller{
		Name: name, Tokens: one.TokenFile.digests, Credentials: one.Credentials, Operations: one.Operations, Clients: one.Subjects,
	}
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

// operationsOf returns all operations of some credentials.
func (t *fileTable) operationsOf(credentials []string) (all []string) {
	for _, name := range credentials {
		if c := t.Credentials[name]; c != nil {
			for operation := range c.Operations {
				all = append(all, operation)
			}
		}
	}
	return all
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

// An anyAddress is an address that other hosts may reach: a port alone, or with an IP
// address.
type anyAddress string

// UnmarshalText reads ":9466" or "192.0.2.1:9466".
func (a *anyAddress) UnmarshalText(text []byte) error {
	whole := string(text)
	if strings.HasPrefix(whole, ":") {
		whole = "[::]" + whole
	}
	if _, err := netip.ParseAddrPort(whole); err != nil {
		return fmt.Errorf(`%q is not an address and a port in numbers: write ":9466", "192.0.2.1:9466" or "[2001:db8::1]:9466"`, text)
	}
	*a = anyAddress(text)
	return nil
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

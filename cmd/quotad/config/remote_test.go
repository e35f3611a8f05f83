package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// distant is a file of which one thing is changed.
const distant = `[credentials.c]
limits.daily.units = 100
limits.few = { units = 10, jobs = ["shop", "@shop"] }
operations = { list = 1, search = 10 }
[credentials.d]
limits.daily.units = 100
operations.get = 1
[clients.public]
units = 60
window = "1m"
[jobs.shop]
credential = "c"
regions = ["US"]
schedule = "manual"
command = ["fetch"]
[remote]
listen = ":9466"
cert_file = "c.pem"
key_file = "c.key"
[remote.callers.shop]
token_file = "shop.token"
credentials = ["c"]
operations = ["list"]
subjects = ["public"]
[remote.callers.blog]
token_file = "blog.token"
credentials = ["c", "d"]
`

func distantDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, "c.key", writeCertificates(t, dir, "c.pem"))
	writeCertificates(t, dir, "other.pem")
	write(t, dir, "empty.pem", "")
	for name, text := range map[string]string{
		"c.key": "", "shop.token": strings.Repeat("1", 64) + "\n" + strings.Repeat("2", 64) + "\n", "blog.token": strings.Repeat("3", 64),
		"empty.token": " \n", "short.token": "hunter2", "three.token": "a\nb\nc", "twice.token": strings.Repeat("4", 32) + "\n" + strings.Repeat("4", 32), "odd.token": strings.Repeat("ä", 32),
	} {
		if text != "" {
			write(t, dir, name, text)
		}
		must(t, os.Chmod(filepath.Join(dir, name), 0o600))
	}
	write(t, dir, "public.token", strings.Repeat("5", 64))
	write(t, dir, "public.key", "a key")
	for _, name := range []string{"public.token", "public.key"} {
		must(t, os.Chmod(filepath.Join(dir, name), 0o644))
	}
	return dir
}

func TestRemote(t *testing.T) {
	dir := distantDir(t)
	c, err := load(t, dir, distant)
	must(t, err)
	r := c.Remote
	if r.Listen != ":9466" || r.CertFile != filepath.Join(dir, "c.pem") || len(c.Callers) != 2 {
		t.Errorf("got %+v", r)
	}
	if shop := c.Callers[0]; shop.Name != "shop" || len(shop.Tokens) != 2 || len(shop.Credentials) != 1 || len(shop.Operations) != 1 || len(shop.Clients) != 1 {
		t.Errorf("got %+v", shop)
	}
	if got := strings.Join(c.Credentials[0].Limits[1].Jobs, " "); got != "shop remote/shop" {
		t.Errorf("the share counts %q", got)
	}
	if without, err := load(t, dir, good); err != nil || without.Remote.Listen != "" {
		t.Errorf("got %+v, %v", without, err)
	}
}

func TestBadRemotes(t *testing.T) {
	dir := distantDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, row := range []struct{ name, old, new, want string }{
		{"no number", `":9466"`, `"localhost:9466"`, `remote.listen: "localhost:9466" is not an address and a port in numbers`},
		{"no listen", `listen = ":9466"`, ``, `remote.listen: is missing: add listen = ":9466"`},
		{"half a certificate", `key_file = "c.key"`, ``, `remote.key_file: is missing`},
		{"another half", `cert_file = "c.pem"`, ``, `remote.cert_file: is missing: add cert_file`},
		{"a private address", "listen = \":9466\"\ncert_file = \"c.pem\"\nkey_file = \"c.key\"", `listen = "8.8.8.8:9466"`, `remote.listen: "8.8.8.8:9466" can be reached from everywhere`},
		{"every address", "listen = \":9466\"\ncert_file = \"c.pem\"\nkey_file = \"c.key\"", `listen = "0.0.0.0:9466"`, `remote.listen: "0.0.0.0:9466" can be reached from everywhere`},
		{"plain text", "cert_file = \"c.pem\"\nkey_file = \"c.key\"", ``, `remote.listen: ":9466" can be reached from everywhere, and without TLS tokens would travel in plain text`},
		{"behind a proxy", `key_file = "c.key"`, "key_file = \"c.key\"\nbehind = \"127.0.0.1\"", `remote.behind: is no key any more: remove it: without cert_file`},
		{"certificate of another key", `"c.pem"`, `"other.pem"`, `remote.cert_file: cannot be used with key_file: tls: private key does not match public key`},
		{"empty certificate", `"c.pem"`, `"empty.pem"`, `remote.cert_file: cannot be used with key_file: tls: failed to find any PEM data`},
		{"no certificate", `"c.pem"`, `"none.pem"`, `remote.cert_file: cannot be read: open ` + at("none.pem") + `: no such file`},
		{"key for everybody", `"c.key"`, `"public.key"`, `remote.key_file: everybody on this host may read ` + at("public.key") + `, and with it the key of the certificate: chmod o-r`},
		{"token for everybody", `"shop.token"`, `"public.token"`, `remote.callers.shop.token_file: everybody on this host may read ` + at("public.token") + `, and with it a token: chmod o-r`},
		{"no token", `token_file = "shop.token"`, ``, `remote.callers.shop.token_file: is missing`},
		{"no token file", `"shop.token"`, `"none.token"`, `remote.callers.shop.token_file: cannot be read`},
		{"empty token", `"shop.token"`, `"empty.token"`, `remote.callers.shop.token_file: ` + at("empty.token") + ` is empty: write a token into it, such as openssl rand -hex 32 prints`},
		{"short token", `"shop.token"`, `"short.token"`, `the token on line 1 of ` + at("short.token") + ` must have 32 to 512 plain characters`},
		{"odd token", `"shop.token"`, `"odd.token"`, `the token on line 1 of ` + at("odd.token") + ` must have 32 to 512 plain characters`},
		{"three tokens", `"shop.token"`, `"three.token"`, `holds 3 tokens: at most 2`},
		{"a token twice", `"shop.token"`, `"twice.token"`, `remote.callers.shop.token_file: holds the same token twice: remove one`},
		{"another's token", `"blog.token"`, `"shop.token"`, `remote.callers.blog.token_file: holds a token of caller "shop" too`},
		{"name", `[remote.callers.blog]`, `[remote.callers."my blog"]`, `remote.callers."my blog": a name is made of letters`},
		{"no name", `[remote.callers.blog]`, `[remote.callers]`, `is in no table of its own: give that a name, such as [remote.callers.shop]`},
		{"no credentials", `credentials = ["c", "d"]`, ``, `remote.callers.blog.credentials: is missing: add credentials = ["c"]`},
		{"empty credentials", `credentials = ["c", "d"]`, `credentials = []`, `remote.callers.blog.credentials: must name at least one credential`},
		{"unknown credential", `["c", "d"]`, `["c", "e"]`, `remote.callers.blog.credentials: there is no credential "e": did you mean "c"?`},
		{"a credential twice", `["c", "d"]`, `["c", "c"]`, `remote.callers.blog.credentials: "c" is listed twice: remove one`},
		{"unknown operation", `["list"]`, `["lists"]`, `remote.callers.shop.operations: there is no operation "lists": did you mean "list"?`},
		{"another credential's operation", `["list"]`, `["get"]`, `remote.callers.shop.operations: there is no operation "get"`},
		{"no operation", `["list"]`, `[]`, `remote.callers.shop.operations: must name at least one operation, or be left out`},
		{"unknown clients", `["public"]`, `["private"]`, `remote.callers.shop.subjects: there is no table [clients.NAME] "private": known are "public"`},
		{"unknown caller of a share", `"@shop"`, `"@shops"`, `credentials.c.limits.few.jobs: there is no [remote.callers.shops]: did you mean "shop"?`},
		{"no caller of a share", `["shop", "@shop"]`, `[]`, `credentials.c.limits.few.jobs: must name at least one job`},
		{"a caller twice", `["shop", "@shop"]`, `["@shop", "@shop"]`, `credentials.c.limits.few.jobs: caller "shop" is listed twice: remove one`},
		{"caller of another credential", "operations.get = 1", "operations.get = 1\nlimits.few = { units = 1, jobs = [\"@shop\"] }", `credentials.d.limits.few.jobs: caller "shop" may not spend from this credential: add "d" to its credentials`},
		{"callers and except_jobs", `jobs =`, `except_jobs = ["shop"], jobs =`, `credentials.c.limits.few.except_jobs: cannot be combined with jobs: remove one of them`},
		{"the key of before", `jobs = ["shop", "@shop"]`, `callers = ["shop"]`, `credentials.c.limits.few.callers: is no key any more: write "@shop" in jobs`},
		{"a rate", `subjects = ["public"]`, `rate = 5`, `remote.callers.shop.rate: is no key any more: remove it`},
		{"misspelt", `subjects =`, `subject =`, `remote.callers.shop.subject: unknown key: did you mean "subjects"?`},
	} {
		t.Run(row.name, func(t *testing.T) {
			_, err := load(t, dir, edited(t, distant, row.old, row.new))
			if !errors.As(err, new(Errors)) || !strings.Contains(err.Error(), row.want) || strings.Contains(err.Error(), strings.Repeat("1", 32)) {
				t.Errorf("got %v\nwant %s, and no token", err, row.want)
			}
		})
	}
}

// What is no error, but hardly meant.
func TestOddRemotes(t *testing.T) {
	dir := distantDir(t)
	nobody, _, _ := strings.Cut(distant, "[remote.callers")
	for _, row := range []struct{ name, text, want string }{
		{"nobody", strings.Replace(nobody, `, "@shop"`, "", 1), "remote.listen: no caller is configured"},
		{"nowhere", strings.Replace(distant, "listen = \":9466\"\ncert_file = \"c.pem\"\nkey_file = \"c.key\"\n", "", 1), `remote.callers: does nothing without an address: add listen = ":9466" to [remote]`},
	} {
		if got := said(t, dir, row.text); !strings.Contains(got, "warning: "+row.want) {
			t.Errorf("%s: got %s, want %s", row.name, got, row.want)
		}
	}
}

package config

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"quotad/quota/proxy"
)

func writeKey(t *testing.T, dir, text string) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, "a.key"), []byte(text), 0o600))
}

// proxied is a file of which one thing is changed.
const proxied = `[proxy]
listen = "127.0.0.1:9465"
[credentials.c]
limits.daily.units = 100
operations = { list = 1, search = 10 }
[credentials.c.proxy]
upstream = "https://api.example.com/base/"
key_file = "a.key"
[credentials.c.proxy.routes]
"GET /search" = "search"
"GET /*" = "list"
`

func TestProxy(t *testing.T) {
	dir := t.TempDir()
	writeKey(t, dir, " the-key-of-sixteen\r\n")
	c, err := load(t, dir, proxied)
	must(t, err)
	got := c.Targets[0]
	if c.Proxy != "127.0.0.1:9465" || len(c.Targets) != 1 || len(c.Warnings()) != 0 {
		t.Errorf("got %+v", c)
	}
	if got.Credential != "c" || got.Upstream.String() != "https://api.example.com/base" || !reflect.DeepEqual(got.Key, proxy.FixedKey("the-key-of-sixteen")) || got.KeyHeader != "Authorization" ||
		len(got.Free) != 0 || got.Refusals != proxy.Problem || got.Routes.Len() != 2 {
		t.Errorf("got %+v", got)
	}
}

// The file adds routes to those of the preset, and replaces them; without a key of its own
// a preset proxies nothing.
func TestFileAddsRoutes(t *testing.T) {
	dir := t.TempDir()
	writeKey(t, dir, "the-key-of-sixteen")
	const preset = "[credentials.c]\npreset = \"youtube-classic\"\n"
	bare, err := load(t, dir, preset)
	if err != nil || len(bare.Targets) != 0 || len(bare.Warnings()) != 0 {
		t.Fatalf("got %v, %v", bare, err)
	}
	with, err := load(t, dir, "[proxy]\nlisten = \"127.0.0.1:0\"\n"+preset+"proxy.key_file = \"a.key\"\n")
	must(t, err)
	more, err := load(t, dir, "[proxy]\nlisten = \"127.0.0.1:0\"\n"+preset+
		"proxy = { key_file = \"a.key\", upstream = \"http://localhost:8080\", routes = { \"GET /own\" = \"videos.list\", \"GET /youtube/v3/search\" = \"videos.list\" } }\n")
	must(t, err)
	if n := with.Targets[0].Routes.Len(); more.Targets[0].Routes.Len() != n+1 || more.Targets[0].Upstream.Host != "localhost:8080" {
		t.Errorf("got %d routes beside %d", more.Targets[0].Routes.Len(), n)
	}
}

// A header for the key takes the place of the preset's parameter.
func TestFileSendsTheKeyInAHeader(t *testing.T) {
	dir := t.TempDir()
	writeKey(t, dir, "the-key-of-sixteen")
	const file = "[proxy]\nlisten = \"127.0.0.1:0\"\n[credentials.c]\npreset = \"openalex\"\nproxy.key_file = \"a.key\"\n"
	for header, want := range map[string]string{"": " api_key", "proxy.key_header = \"X-Key\"\n": "X-Key "} {
		c, err := load(t, dir, file+header)
		must(t, err)
		target := c.Targets[0]
		if got := strings.TrimPrefix(target.KeyHeader, "Authorization") + " " + target.KeyParameter; got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestProxyErrors(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"not loopback", `"127.0.0.1:9465"`, `"0.0.0.0:9465"`, `2: proxy.listen: "0.0.0.0:9465" can be reached from other hosts`},
		{"upstream in plain text", `https://api`, `http://api`, `7: credentials.c.proxy.upstream: "http://api.example.com/base/" would have the key travel in plain text: write https://api.example.com`},
		{"no address", `"https://api.example.com/base/"`, `"api.example.com"`, `7: credentials.c.proxy.upstream: "api.example.com" is not the address of an API: write "https://www.googleapis.com"`},
		{"key in the address", `/base/`, `/?key=Sesame`, `7: credentials.c.proxy.upstream: holds more than a host and a path: write a key into key_file`},
		{"upstream missing", `upstream = "https://api.example.com/base/"`, ``, `6: credentials.c.proxy.upstream: is missing: add upstream = "https://www.googleapis.com"`},
		{"an upstream without a key", `key_file = "a.key"`, ``, ``},
		{"a short key", `"a.key"`, `"short.key"`, ``},
		{"a key in quotes", `"a.key"`, `"quoted.key"`, `8: credentials.c.proxy.key_file: DIR/quoted.key holds the key in quotes: leave them out`},
		{"a key with its name", `"a.key"`, `"named.key"`, `8: credentials.c.proxy.key_file: DIR/named.key holds NAME= before the key: leave it out`},
		{"a key after a mark", `"a.key"`, `"marked.key"`, `8: credentials.c.proxy.key_file: DIR/marked.key begins with a byte order mark: save it as UTF-8 without one`},
		{"a key in base64", `"a.key"`, `"base64.key"`, ``},
		{"key nowhere", `"a.key"`, `"b.key"`, `8: credentials.c.proxy.key_file: cannot be read: open `},
		{"key that others read", `"a.key"`, `"open.key"`, `8: credentials.c.proxy.key_file: everybody on this host may read DIR/open.key, and with it the key: chmod o-r DIR/open.key`},
		{"no key in it", `"a.key"`, `"empty.key"`, `8: credentials.c.proxy.key_file: DIR/empty.key is empty: it must hold the key`},
		{"more than a key", `"a.key"`, `"two.key"`, `8: credentials.c.proxy.key_file: DIR/two.key must hold the key on a line by itself, and nothing else`},
		{"header", `key_file = "a.key"`, "key_file = \"a.key\"\nkey_header = \"X-Key: \"", `9: credentials.c.proxy.key_header: "X-Key: " is not the name of a header: write "Authorization", which sends Bearer before the key, or "X-Goog-Api-Key"`},
		{"two keys", `key_file = "a.key"`, "key_file = \"a.key\"\nkey_command = [\"true\"]", `9: credentials.c.proxy.key_command: the key comes from key_file already: remove one of the two`},
		{"a caller's key and another one", `key_file = "a.key"`, "key = \"caller\"\nkey_command = [\"true\"]", `8: credentials.c.proxy.key: the key comes from key_command already: remove one of the two`},
		{"the key itself", `key_file = "a.key"`, `key = "Sesame-open-Sesame"`, `8: credentials.c.proxy.key: must be "caller": the key itself is in key_file, or key_command prints it`},
		{"a caller's key", `key_file = "a.key"`, `key = "caller"`, ``},
		{"a key of a command", `key_file = "a.key"`, `key_command = ["true"]`, ``},
		{"a command that is no program", `key_file = "a.key"`, `key_command = ["no-such-program"]`, `8: credentials.c.proxy.key_command: `},
		{"a command line", `key_file = "a.key"`, `key_command = "op read x"`, `8: credentials.c.proxy.key_command: must be an array of strings, ["op", "read", "x"], not the string "op read x"`},
		{"a command of no words", `key_file = "a.key"`, `key_command = []`, `8: credentials.c.proxy.key_command: must name a program, such as ["/usr/local/bin/token"]`},
		{"a parameter", `key_file = "a.key"`, "key_file = \"a.key\"\nkey_parameter = \"api key\"", `9: credentials.c.proxy.key_parameter: "api key" is not the name of a parameter: write "api_key"`},
		{"a parameter and a header", `key_file = "a.key"`, "key_file = \"a.key\"\nkey_parameter = \"api_key\"\nkey_header = \"X-Key\"", `9: credentials.c.proxy.key_parameter: sends the key in the query, and key_header sends it in a header: remove one`},
		{"billing", `key_file = "a.key"`, "key_file = \"a.key\"\nbilling = \"not-304\"", `9: credentials.c.proxy.billing: is no key any more: write free = [304]`},
		{"dialect", `key_file = "a.key"`, "key_file = \"a.key\"\ndialect = \"github\"", `9: credentials.c.proxy.dialect: is no key any more: write refusals = "google", or "problem"`},
		{"a status that is none", `key_file = "a.key"`, "key_file = \"a.key\"\nfree = [304, 3040]", `9: credentials.c.proxy.free: must be a status from 100 to 599: 3040`},
		{"unknown operation", `= "search"`, `= "serch"`, `10: credentials.c.proxy.routes."GET /search": unknown operation "serch" (give it a cost in [credentials.c.operations]): did you mean "search"?`},
		{"no route", `"GET /*"`, `"GET *"`, `11: credentials.c.proxy.routes."GET *": is not a route: write a method, or *, and a path, such as "GET /youtube/v3/search"`},
		{"overlap", `"GET /*"`, `"* /search"`, ``},
		{"a query without a space", `"GET /search" = "search"`, `"GET /search?q" = "search"`, `10: credentials.c.proxy.routes."GET /search?q": has the segment "search?q": a path is not encoded, and parameters follow it after a space, such as "GET /works ?search"`},
		{"no routes", "[credentials.c.proxy.routes]\n\"GET /search\" = \"search\"\n\"GET /*\" = \"list\"\n", ``, `6: credentials.c.proxy.routes: is missing: add routes = { "GET /youtube/v3/search" = "search.list" }, or name a preset`},
	} {
		t.Run(c.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range map[string]string{
				"a.key": "the-key-of-sixteen", "open.key": "Sesame", "empty.key": "\n", "two.key": "Sesame\nopen\n",
				"short.key": "DEMO_KEY", "quoted.key": `"Sesame-open-Sesame"`, "named.key": "YOUTUBE_API_KEY=Sesame-open-Sesame",
				"marked.key": "\ufeffSesame-open-Sesame\n", "base64.key": "U2VzYW1lLW9wZW4tU2VzYW1l==",
			} {
				must(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
			}
			must(t, os.Chmod(filepath.Join(dir, "open.key"), 0o644))
			_, err := load(t, dir, edited(t, proxied, c.old, c.new))
			got := strings.ReplaceAll(fmt.Sprint(err), dir, "DIR")
			switch {
			case c.want == "" && err != nil, c.want != "" && !strings.Contains(got, c.want):
				t.Errorf("got %s\nwant %s", got, c.want)
			case strings.Count(got, "\n") > 0:
				t.Errorf("got more than one error: %s", got)
			case strings.Contains(got, "Sesame"):
				t.Errorf("the error holds the key: %s", got)
			}
		})
	}
}

// An address without credentials, and credentials without an address, are hardly meant.
func TestIdleProxy(t *testing.T) {
	dir := t.TempDir()
	writeKey(t, dir, "the-key-of-sixteen")
	for _, c := range []struct{ old, want string }{
		{`listen = "127.0.0.1:9465"`, `6: warning: credentials.c.proxy: does nothing without an address: add listen = "127.0.0.1:9465" to [proxy]`},
		{proxied[strings.Index(proxied, "[credentials.c.proxy]"):], `2: warning: proxy.listen: no credential is proxied: add [credentials.NAME.proxy]`},
	} {
		if got := said(t, dir, edited(t, proxied, c.old, "")); got != c.want {
			t.Errorf("got %v, want %s", got, c.want)
		}
	}
}

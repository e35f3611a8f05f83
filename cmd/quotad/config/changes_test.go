package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"quotad/quota/api"
)

// everyKey is a file in which each key stands, and what each may be changed to.
var everyKey = []struct{ key, was, is string }{
	{"name", `"one"`, `"two"`},
	{"state_dir", `"one"`, `"two"`},
	{"socket", `"one.sock"`, `"two.sock"`},
	{"ledger.backend", `"redis"`, ``}, // the other one has no use for what is below
	{"ledger.deadline", `"250ms"`, `"1s"`},
	{"ledger.redis.addrs", `["one:1"]`, `["two:1"]`},
	{"ledger.redis.master_name", `"one"`, `"two"`},
	{"ledger.redis.username", `"one"`, `"two"`},
	{"ledger.redis.password_file", `"one"`, `"two"`},
	{"ledger.redis.key_prefix", `"one"`, `"two"`},
	{"ledger.redis.tls.ca_file", `"one.pem"`, `"two.pem"`},
	{"ledger.redis.tls.cert_file", `"one.pem"`, `"two.pem"`},
	{"ledger.redis.tls.key_file", `"one.key"`, `"two.key"`},
	{"credentials.c.limits.daily.units", `100`, `1_000`},
	{"credentials.c.limits.daily.reserve", `1`, `2`},
	{"credentials.c.limits.daily.window", `{ every = "24h", from = "2026-01-01T11:30:15Z" }`, `{ every = "24h", from = "2026-01-01T11:30:16Z" }`},
	{"credentials.c.limits.daily.only", `["list"]`, `["list", "search"]`},
	{"credentials.c.limits.daily.upstream.names", `["one"]`, `["two"]`},
	{"credentials.c.limits.daily.upstream.resets", `{ calendar = "day", timezone = "UTC" }`, `{ calendar = "hour", timezone = "UTC" }`},
	{"credentials.c.limits.calls.units", `10`, `20`},
	{"credentials.c.operations.list", `1`, `{ daily = 1, calls = 2 }`},
	{"credentials.c.operations.search", `{ calls = 1 }`, `{ calls = 2 }`},
	{"credentials.c.keep", `"7d"`, `"14d"`},
	{"credentials.c.answers.reason", `"/code"`, `["/code", "/status"]`},
	{"credentials.c.answers.refused", `"counted"`, `"free"`},
	{"credentials.c.answers.reasons.gone", `"day"`, `"minute"`},
	{"credentials.c.answers.headers.limit", `"one"`, `"two"`},
	{"credentials.c.answers.headers.used", `"one"`, `"two"`},
	{"credentials.c.answers.headers.remaining", `"one"`, `"two"`},
	{"credentials.c.answers.headers.resource", `"one"`, `"two"`},
	{"credentials.c.answers.headers.reset", `"one"`, `"two"`},
	{"credentials.c.answers.headers.reset_is", `"epoch"`, `"seconds"`},
	{"credentials.c.proxy.upstream", `"https://one"`, `"https://two"`},
	{"credentials.c.proxy.key_file", `"one"`, `"two"`},
	{"credentials.c.proxy.key_header", `"One"`, `"Two"`},
	{"credentials.d.proxy.upstream", `"https://one"`, ``},
	{"credentials.d.proxy.routes", `{ "GET /one" = "list" }`, ``},
	{"credentials.d.proxy.key_command", `["true"]`, `["false"]`},
	{"credentials.d.proxy.key_parameter", `"one"`, `"two"`},
	{"credentials.c.proxy.free", `[304]`, `[304, 404]`},
	{"credentials.c.proxy.refusals", `"google"`, `"problem"`},
	{"credentials.c.proxy.routes.\"GET /one\"", `"list"`, `"search"`},
	{"credentials.c.on_outage.default", `"closed"`, `"open"`},
	{"credentials.c.on_outage.open_units", `1`, `2`},
	{"credentials.c.on_outage.list", `"open"`, `"closed"`},
	{"clients.a.units", `60`, `30`},
	{"clients.a.window", `"1m"`, `"2m"`},
	{"clients.a.enforce", `true`, `false`},
	{"clients.a.algorithm", `"log"`, `"counter"`},
	{"clients.secret_file", `"one"`, `"two"`},
	{"clients.a.operations.search", `10`, `5`},
	{"clients.a.on_outage", `"open"`, `"closed"`},
	{"clients.b.limits.minute.units", `60`, `30`},
	{"clients.b.limits.minute.window", `"1m"`, `"2m"`},
	{"clients.b.limits.minute.enforce", `true`, `false`},
	{"jobs.a.credential", `"c"`, `"d"`},
	{"jobs.a.host", `"one"`, `"two"`},
	{"jobs.a.regions", `["US", "GB"]`, `["GB", "US"]`},
	{"jobs.a.every", `"1h"`, `"2h"`},
	{"jobs.a.stagger", `"1s"`, `"even"`},
	{"jobs.a.parallel", `1`, `2`},
	{"jobs.a.run_at_start", `true`, `false`},
	{"jobs.a.missed", `"once"`, ``}, // see jobs.b
	{"jobs.a.max_wait", `"1s"`, `"10s"`},
	{"jobs.a.expects.list", `1`, `2`},
	{"jobs.a.use_reserve", `true`, `false`},
	{"jobs.a.retry", `1`, `2`},
	{"jobs.a.retry_after", `"1s"`, `"10s"`},
	{"jobs.a.command", `["fetch"]`, `["fetch", "more"]`},
	{"jobs.a.dir", `"first"`, `"second"`},
	{"jobs.a.env_file", `"one.env"`, `"two.env"`},
	{"jobs.a.env.LEVEL", `"1"`, `"2"`},
	{"jobs.a.timeout", `"1m"`, `"2m"`},
	{"jobs.b.credential", `"d"`, `"c"`},
	{"jobs.b.regions", `["US"]`, `["GB"]`},
	{"jobs.b.cron", `"0 9 * * *"`, `"0 8 * * *"`},
	{"jobs.b.timezone", `"UTC"`, `"Europe/Berlin"`},
	{"jobs.b.missed", `"once"`, `"skip"`},
	{"jobs.b.after", `"c"`, `"s"`},
	{"jobs.b.command", `["fetch"]`, `["fetch", "more"]`},
	{"jobs.c.schedule", `"manual"`, ``}, // there is nothing else that it could be
	{"jobs.c.credential", `"d"`, `"c"`},
	{"jobs.c.regions", `["München"]`, `["München", "c++"]`},
	{"jobs.c.command", `["fetch"]`, `["fetch", "more"]`},
	{"credentials.e.limits.daily.units", `10`, ``}, // shares of two jobs
	{"credentials.e.operations.list", `1`, ``},
	{"credentials.e.limits.few.units", `5`, ``},
	{"credentials.e.limits.few.jobs", `["s"]`, `["s", "t"]`},
	{"credentials.e.limits.most.units", `8`, ``},
	{"credentials.e.limits.most.window", `{ calendar = "day", timezone = "UTC" }`, ``},
	{"credentials.e.limits.most.enforce", `true`, `false`},
	{"credentials.e.limits.most.except_jobs", `["s"]`, `["t"]`},
	{"jobs.s", `{ credential = "e", regions = ["US"], schedule = "manual", command = ["fetch"] }`, ``},
	{"jobs.t", `{ credential = "e", regions = ["US"], schedule = "manual", command = ["fetch"] }`, ``},
	{"credentials.e.limits.away.units", `5`, ``}, // a share of a caller
	{"credentials.e.limits.away.jobs", `["@shop"]`, `["@shop", "@blog"]`},
	{"remote.listen", `"127.0.0.1:9466"`, `"127.0.0.1:9467"`},
	{"remote.cert_file", `"one.pem"`, `"two.pem"`},
	{"remote.key_file", `"one.key"`, `"two.key"`},
	{"remote.callers.shop.token_file", `"one.token"`, `"two.token"`},
	{"remote.callers.shop.credentials", `["c", "e"]`, `["e"]`},
	{"remote.callers.shop.operations", `["list"]`, `["list", "search"]`},
	{"remote.callers.shop.subjects", `["a"]`, `["b"]`},
	{"remote.callers.blog", `{ token_file = "blog.token", credentials = ["e"] }`, ``},
	{"passes.drain", `"1s"`, `"2s"`},
	{"passes.user", `""`, ``}, // nor is another user
	{"access.admin_group", `"root"`, `"daemon"`},
	{"metrics.listen", `"127.0.0.1:1"`, `"127.0.0.1:2"`},
	{"proxy.listen", `"127.0.0.1:1"`, `"127.0.0.1:2"`},
	{"on_event.near_limit", `["fetch"]`, `["fetch", "more"]`},
	{"on_event.exhausted", `["fetch"]`, `["fetch", "more"]`},
	{"on_event.outage_began", `["fetch"]`, `["fetch", "more"]`},
	{"on_event.outage_ended", `["fetch"]`, `["fetch", "more"]`},
	{"on_event.job_failing", `["fetch"]`, `["fetch", "more"]`},
	{"on_event.run_started", `["fetch"]`, `["fetch", "more"]`},
	{"on_event.run_ended", `["fetch"]`, `["fetch", "more"]`},
	{"on_event.limit_closed", `["fetch"]`, `["fetch", "more"]`},
	{"on_event.overspent", `["fetch"]`, `["fetch", "more"]`},
	{"on_event.upstream_refuses", `["fetch"]`, `["fetch", "more"]`},
	{"on_event.timeout", `"1s"`, `"2s"`},
	{"log.level", `"info"`, `"debug"`},
}

// Whatever key is changed, a reload finds that one.
func TestEveryKeyIsCompared(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"one": strings.Repeat("1", 16), "two": strings.Repeat("2", 16), "one.env": "A=1", "two.env": "A=2",
		"one.token": strings.Repeat("1", 32), "two.token": strings.Repeat("2", 32), "blog.token": strings.Repeat("3", 32)} {
		write(t, dir, name, text)
	}
	makeDir(t, dir, "first")
	makeDir(t, dir, "second")
	key := writeCertificates(t, dir, "one.pem", "two.pem")
	write(t, dir, "one.key", key)
	write(t, dir, "two.key", key)
	file := func(changed string) *Config {
		text := "credentials.d.limits.daily.units = 1\ncredentials.d.operations.list = 1\n"
		for _, row := range everyKey {
			value := row.was
			if row.key == changed {
				value = row.is
			}
			text += row.key + " = " + value + "\n"
		}
		c, err := load(t, dir, text)
		must(t, err)
		return c
	}
	was := file("")
	for _, row := range everyKey {
		if row.is == "" {
			continue
		}
		t.Run(row.key, func(t *testing.T) {
			changes := was.Changes(file(row.key))
			if len(changes) != 1 || changes[0].Key != row.key {
				t.Errorf("got %v", changes)
			}
		})
	}
	for _, key := range keysBelow("", reflect.TypeFor[fileTable]()) {
		pattern := regexp.MustCompile("^" + key + `(\.(\w+|".*"))?$`)
		if !slices.ContainsFunc(everyKey, func(row struct{ key, was, is string }) bool { return pattern.MatchString(row.key) && row.is != "" }) &&
			!slices.Contains([]string{`ledger\.backend`, `credentials\.\w+\.preset`, `jobs\.\w+\.schedule`, `passes\.user`, `credentials\.\w+\.proxy\.key`}, key) {
			t.Errorf("the test does not change %s", key)
		}
	}
}

// keysBelow returns a pattern for each key of a table.
func keysBelow(prefix string, table reflect.Type) (keys []string) {
	for name, field := range keyed(table) {
		inner, each := tableIn(field.Type)
		key := prefix + name
		if name == "*" {
			key = strings.TrimSuffix(prefix, `\.`)
		}
		switch {
		case inner != nil:
			keys = append(keys, keysBelow(key+strings.Replace(each, ".NAME", `\.\w+`, 1)+`\.`, inner)...)
		case name != "*":
			keys = append(keys, key)
		}
	}
	return keys
}

// writeCertificates writes two certificates of one key, and returns the key.
func writeCertificates(t *testing.T, dir string, names ...string) (key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	for i, name := range names {
		template := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name}}
		certificate, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
		must(t, err)
		write(t, dir, name, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})))
	}
	der, err := x509.MarshalPKCS8PrivateKey(secret)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// A key that means the same in both files is no difference.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "fetch.env", "TOKEN=hunter2hunter2\n")
	from := strings.Replace(good, `timeout = "2m"`, "timeout = \"2m\"\nenv_file = \"fetch.env\"\nenv = { LEVEL = \"1\" }", 1)
	for _, row := range []struct {
		name, old, new string
		want           []api.ConfigChange
	}{
		{"nothing", "", "", nil},
		{"another way to write it", `timeout = "2m"`, `timeout = "120s"`, nil},
		{"a default", `[ledger]`, "passes.drain = \"30s\"\n[ledger]", nil},
		{"a zero for an absent key", `only = ["search.list"]`, "only = [\"search.list\"]\nreserve = 0", nil},
		{"units", `units = 10_000`, `units = 5_000`, []api.ConfigChange{{Key: "credentials.youtube.limits.daily.units", Kind: api.Changed}}},
		{"a key less", "reserve = 500\n", "", []api.ConfigChange{{Key: "credentials.youtube.limits.daily.reserve", Kind: api.Removed}}},
		{"another window", `window = "24h"`, `window = { calendar = "day", timezone = "Europe/Berlin" }`, []api.ConfigChange{
			{Key: "credentials.youtube.limits.daily.window", Kind: api.Changed}}},
		{"a cost", `"search.list" = 100`, `"search.list" = { daily = 100, search = 1_000 }`, []api.ConfigChange{
			{Key: `credentials.youtube.operations."search.list"`, Kind: api.Changed}}},
		{"an operation more", `"videos.list" = 1`, "\"videos.list\" = 1\nlist = 1", []api.ConfigChange{{Key: "credentials.youtube.operations.list", Kind: api.Added}}},
		{"a limit more", `[credentials.youtube.operations]`, "[credentials.youtube.limits.third]\nunits = 10_000\nwindow = \"1h\"\n[credentials.youtube.operations]", []api.ConfigChange{
			{Key: "credentials.youtube.limits.third", Kind: api.Added}}},
		{"another schedule", `every = "30m"`, `cron = "*/30 * * * *"`, []api.ConfigChange{
			{Key: "jobs.trending.cron", Kind: api.Added}, {Key: "jobs.trending.every", Kind: api.Removed}}},
		{"regions", `regions = ["US", "GB", "DE"]`, `regions = ["US"]`, []api.ConfigChange{{Key: "jobs.trending.regions", Kind: api.Changed}}},
		{"a job by another name", `[jobs.trending]`, `[jobs.charts]`, []api.ConfigChange{{Key: "jobs.charts", Kind: api.Added}, {Key: "jobs.trending", Kind: api.Removed}}},
		{"a command", `"trending"]`, `"--key", "hunter2"]`, []api.ConfigChange{{Key: "jobs.trending.command", Kind: api.Changed}}},
		{"a variable", `LEVEL = "1"`, `LEVEL = "2"`, []api.ConfigChange{{Key: "jobs.trending.env.LEVEL", Kind: api.Changed}}},
	} {
		t.Run(row.name, func(t *testing.T) {
			was, err := load(t, dir, from)
			must(t, err)
			is, err := load(t, dir, strings.Replace(from, row.old, row.new, 1))
			must(t, err)
			if got := was.Changes(is); !slices.Equal(got, row.want) {
				t.Errorf("got\n%+v\nwant\n%+v", got, row.want)
			}
		})
	}
}

// What a key names changes without the file, too.
func TestChangesElsewhere(t *testing.T) {
	dir, bin := t.TempDir(), t.TempDir()
	text := strings.Replace(good, `backend = "embedded"`, "backend = \"redis\"\nredis.password_file = \"password\"", 1)
	text = strings.Replace(text, `["fetch", "trending"]`, `["elsewhere"]`+"\nenv_file = \"fetch.env\"", 1)
	program(t, bin, "elsewhere")
	t.Setenv("PATH", bin)
	read := func(password, env string) *Config {
		write(t, dir, "password", password)
		write(t, dir, "fetch.env", env)
		c, err := load(t, dir, text)
		must(t, err)
		return c
	}
	was := read("one", "A=1")
	program(t, dir, "elsewhere")
	want := []api.ConfigChange{
		{Key: "jobs.trending.command", Kind: api.Changed},
		{Key: "jobs.trending.env_file", Kind: api.Changed},
		{Key: "ledger.redis.password_file", Kind: api.Changed},
	}
	got := was.Changes(read("two", "A=2"))
	if !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if keys := NeedsRestart(got); !slices.Equal(keys, []string{"ledger.redis.password_file"}) {
		t.Errorf("%v need a restart", keys)
	}
}

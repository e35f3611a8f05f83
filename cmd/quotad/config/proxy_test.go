package config

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"quotad/quota/proxy"
)

func TestProxy(t *testing.T) {
	c, err := load(t, oddDir(t), proxied)
	must(t, err)
	got := c.Targets[0]
	if c.Proxy.Listen != "127.0.0.1:9465" || len(c.Targets) != 1 || len(c.Warnings()) != 0 || got.Credential != "c" || got.Upstream.String() != "https://api.example.com/base" ||
		!reflect.DeepEqual(got.Key, proxy.FixedKey("the-key-of-sixteen")) || got.KeyHeader != "Authorization" || len(got.Free) != 0 || got.Refusals != proxy.Problem || got.Routes.Len() != 2 {
		t.Errorf("got %+v, %+v", c, got)
	}
	const answers = "free = [304]\n[credentials.c.answers]\nrefused = \"free\"\nreason = \"/code\"\n"
	is, err := load(t, oddDir(t), strings.Replace(proxied, "[credentials.c.proxy.routes]",
		answers+"[credentials.c.proxy.routes]", 1))
	must(t, err)
	if one := is.Targets[0]; got.RefusedFree || got.ReadsAll || !one.RefusedFree || !one.ReadsAll ||
		is.Routes("c") == c.Routes("c") {
		t.Errorf("got %+v, %+v", got, one)
	}
	if cure := c.KeyCure("c"); !strings.HasPrefix(cure, "replace /") || !strings.HasSuffix(cure,
		"/a.key, then quotactl reload") {
		t.Errorf("the cure is %q", cure)
	}
}

// The file adds routes to those of the preset, and replaces them; without a key of its own a preset proxies nothing. A
// header for the key takes the place of the preset's parameter.
func TestProxyBesideAPreset(t *testing.T) {
	dir := oddDir(t)
	const youtube = "[credentials.c]\npreset = \"youtube-classic\"\n"
	listen := "[proxy]\nlisten = \"127.0.0.1:0\"\n"
	bare, err := load(t, dir, youtube)
	if err != nil || len(bare.Targets) != 0 || len(bare.Warnings()) != 0 {
		t.Fatalf("got %v, %v", bare, err)
	}
	with, err := load(t, dir, listen+youtube+"proxy.key_file = \"a.key\"\n")
	must(t, err)
	more, err := load(t, dir, listen+youtube+
		"proxy = { key_file = \"a.key\", upstream = \"http://localhost:8080\", routes = { \"GET /own\" = \"videos.list\", \"GET /youtube/v3/search\" = \"videos.list\" } }\n")
	must(t, err)
	if n := with.Targets[0].Routes.Len(); more.Targets[0].Routes.Len() != n+1 || more.Targets[0].Upstream.Host != "localhost:8080" {
		t.Errorf("got %d routes beside %d", more.Targets[0].Routes.Len(), n)
	}
	for header, want := range map[string]string{"": "Authorization api_key", "proxy.key_header = \"x-key\"\n": "X-Key "} {
		c, err := load(t, dir, listen+"[credentials.c]\npreset = \"openalex\"\nproxy.key_file = \"a.key\"\n"+header)
		must(t, err)
		if got := fmt.Sprint(c.Targets[0].KeyHeader, " ", c.Targets[0].KeyParameter); got != want && got != strings.TrimPrefix(want, "Authorization") {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// Remote callers have tokens, of which the digests are kept, and may be named in shares.
func TestRemote(t *testing.T) {
	dir := oddDir(t)
	c, err := load(t, dir, distant)
	must(t, err)
	if r := c.Remote; r.Listen != ":9466" || r.CertFile != dir+"/c.pem" || len(c.Callers) != 2 {
		t.Errorf("got %+v", r)
	}
	if shop := c.Callers[0]; shop.Name != "shop" || len(shop.Tokens) != 2 || len(shop.Credentials) != 1 || len(shop.Operations) != 1 || len(shop.Clients) != 1 {
		t.Errorf("got %+v", shop)
	}
	c, err = Load(c.File, Host{StateDirectory: "/state", Programs: dir, Now: time.Now()})
	if got := c.Warnings().Error(); err != nil || !strings.Contains(got, "remote.cert_file: expired on 0001-01-01") {
		t.Errorf("got %v, %s", err, got)
	}
	if got := strings.Join(c.Credentials[0].Limits[1].Jobs, " "); got != "shop remote/shop" {
		t.Errorf("the share counts %q", got)
	}
}

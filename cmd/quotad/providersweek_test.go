package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"quotad/cmd/quotad/config"
	"quotad/quota"
	"quotad/quota/ledgertest"
	"quotad/quota/proxy"
	"quotad/quota/seedtest"
	"quotad/quota/server/servertest"
	"quotad/quota/upstream"
)

// A providerWeek is a week of calls through the proxy to five fakes, on a clock that a test moves.
type providerWeek struct {
	*testing.T
	clock   *ledgertest.Clock
	service *quota.Service
	proxy   *proxy.Proxy
	list    []*provider
	denied  map[string]int            // calls that quotad refused, by preset
	days    map[string]map[string]int // what a provider counted on a day of its own
	minted  chan time.Time            // the end of each token that was minted
	token   *proxy.Key                // of GitHub
}

// smaller are limits that a week of few calls reaches.
var smaller = map[string]int{"youtube-classic": 1_000, "openalex": 200, "twelve-data": 40}

func newProviderWeek(t *testing.T, from time.Time) *providerWeek {
	w := &providerWeek{T: t, clock: ledgertest.NewClock(from), list: providers(t), denied: map[string]int{}, days: map[string]map[string]int{}, minted: make(chan time.Time, 100)}
	dir, file := t.TempDir(), "[proxy]\nlisten = \"127.0.0.1:0\"\n"
	program := filepath.Join(dir, "github-rest.mint")
	write(t, dir, "github-rest.mint", "#!/bin/sh\n")
	must(t, os.Chmod(program, 0o700))
	tokens := new(servertest.Tokens)
	for _, p := range w.list {
		w.days[p.preset] = map[string]int{}
		key := "the-key-of-" + p.preset
		if p.preset == "search-console" {
			key = ownToken
		}
		write(t, dir, p.preset+".key", key)
		file += fmt.Sprintf("[credentials.%s]\npreset = %q\nproxy = { upstream = %q, %s }\n", p.preset, p.preset, p.start(t, key).URL, p.login)
		p.now = w.clock.Now
		if units := smaller[p.preset]; units > 0 {
			file += fmt.Sprintf("limits.daily.units = %d\n", units)
		}
		tokens.Issue(strings.ToUpper(p.preset), "fetch", "US", p.preset)
	}
	write(t, dir, "config.toml", file)
	c, err := config.Load(filepath.Join(dir, "config.toml"), config.Host{StateDirectory: dir})
	must(t, err)
	if w.service, err = quota.NewService(ledgertest.NewModel(w.clock.Now), c.Credentials, time.Minute); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	w.proxy = proxy.New(proxy.Config{Address: listener.Addr().String(), Service: w.service, Tokens: tokens, Emit: func(any) {},
		Observer: upstream.NewObserver(w.service, c.Profiles, func(upstream.Outcome) {})})
	for _, target := range c.Targets {
		if p := w.of(target.Credential); p.preset == "github-rest" {
			ends := time.Now().Add(1000 * time.Hour)
			w.token = proxy.NewKey(func(context.Context) (string, time.Time, error) {
				p.mu.Lock()
				defer p.mu.Unlock()
				ends = ends.Add(time.Minute) // another one each time
				w.minted <- ends
				return p.token, ends, nil
			}, nil)
			target.Key = w.token
		}
	}
	w.proxy.SetTargets(c.Targets)
	served := make(chan error, 1)
	go func() { served <- w.proxy.Serve(listener) }()
	t.Cleanup(func() {
		w.proxy.Shutdown(servertest.Canceled())
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return w
}

func (w *providerWeek) of(preset string) *provider {
	for _, p := range w.list {
		if p.preset == preset {
			return p
		}
	}
	w.Fatalf("no provider %s", preset)
	return nil
}

// day is the provider's own.
func (w *providerWeek) day(p *provider) string {
	zone := time.UTC
	if p.preset == "youtube-classic" {
		zone = pacific(w.T)
	}
	return w.clock.Now().In(zone).Format(time.DateOnly)
}

func pacific(t *testing.T) *time.Location {
	zone, err := time.LoadLocation("America/Los_Angeles")
	must(t, err)
	return zone
}

// hour makes the calls of a provider's job.
func (w *providerWeek) hour(p *provider) {
	before := p.total()
	for _, call := range p.calls {
		method, path, _ := strings.Cut(call, " ")
		r, err := http.NewRequest(method, w.proxy.AddressFor(p.preset, strings.ToUpper(p.preset))+path, nil)
		if err != nil {
			w.Fatal(err)
		}
		for _, line := range p.headers {
			name, value, _ := strings.Cut(line, ": ")
			r.Header.Set(name, value)
		}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			w.Fatal(err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		switch {
		case strings.Contains(string(body), "quotad") || strings.Contains(string(body), "quota-exceeded"):
			w.denied[p.preset]++
		case res.StatusCode == http.StatusUnauthorized:
			w.awaitToken()
		}
	}
	w.days[p.preset][w.day(p)] += p.total() - before
}

// awaitToken waits until the next token that is minted serves.
func (w *providerWeek) awaitToken() {
	ends := <-w.minted
	eventually(w.T, func() bool { return w.token.State(time.Now()).Ends.Equal(ends) })
}

// total is what a provider has counted.
func (p *provider) total() (units int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, n := range p.counted {
		units += n
	}
	return units
}

// A week of five providers: a day of 25 hours, resets, answers 503 and 304, free calls, a token that ends
// three times a night, and a quota that others use up. What each has counted is what the ledger holds, to
// the unit; no day of a provider has more than its limit, and a quota that is gone costs one call.
func TestAWeekOfProviders(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	from := time.Date(2026, 10, 29, 0, 0, 0, 0, time.UTC) // the clocks of California change on 1 November
	w := newProviderWeek(t, from)
	w.awaitToken()
	tube, hub, alex := w.of("youtube-classic"), w.of("github-rest"), w.of("openalex")
	spentOn := map[string]string{}
	expiries := 0
	for h := range 7*24 + 1 {
		w.clock.Set(from.Add(time.Duration(h) * time.Hour))
		if err := w.service.SetCredentials(w.service.Credentials()); err != nil { // denials are cached for a second of this host
			t.Fatal(err)
		}
		for _, p := range w.list {
			p.mu.Lock()
			if h%7 == 3 {
				p.fails = 1
			}
			if p.spent && w.day(p) != spentOn[p.preset] {
				p.spent = false
			}
			if p == tube && h == 2*24+12 || p == alex && h == 4*24+6 {
				p.spent, spentOn[p.preset] = true, w.day(p)
			}
			if p == hub && h > 0 && h%24 < 6 && h%2 == 0 {
				expiries++
				p.token = fmt.Sprintf("ghs_token-of-hour-%04d", h)
			}
			p.mu.Unlock()
			w.hour(p)
		}
	}
	if expiries != 21 || len(w.minted) != 0 {
		t.Errorf("%d tokens ended, and %d were minted in vain", expiries, len(w.minted))
	}
	for _, p := range w.list {
		w.compare(p)
		for day, units := range w.days[p.preset] {
			if most := smaller[p.preset]; most > 0 && units > most {
				t.Errorf("%s counted %d on %s, of %d", p.preset, units, day, most)
			}
		}
		if p.strange != nil {
			t.Errorf("%s does not know %q", p.preset, p.strange)
		}
	}
	if tube.refused != 1 || alex.refused != 1 {
		t.Errorf("quotas that were gone cost %d and %d calls, want one each", tube.refused, alex.refused)
	}
	for _, day := range []string{"2026-10-30", "2026-11-01", "2026-11-03"} {
		if units := w.days[tube.preset][day]; units < 900 {
			t.Errorf("YouTube counted %d on %s, want nearly all of 1,000", units, day)
		}
	}
	for _, preset := range []string{"youtube-classic", "openalex", "twelve-data"} {
		if w.denied[preset] == 0 {
			t.Errorf("nothing was denied of %s: %v", preset, w.denied)
		}
	}
}

// compare compares what a provider has counted with the ledger.
func (w *providerWeek) compare(p *provider) {
	w.Helper()
	booked := map[string]int{}
	err := w.service.Walk(context.Background(), p.preset, time.Unix(0, 0), func(e quota.Entry) bool {
		for _, charge := range e.Charges {
			if charge.Units > 0 && charge.Limit != "minute" && !strings.HasSuffix(charge.Limit, "_day") {
				booked[charge.Limit] += int(charge.Units)
			}
		}
		return true
	})
	if err != nil {
		w.Fatal(err)
	}
	if !maps.Equal(booked, p.counted) {
		w.Errorf("%s: booked %v, and the provider counted %v of %d calls", p.preset, booked, p.counted, len(p.got))
	}
}

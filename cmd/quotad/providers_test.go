package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"quotad/quota/api"
	"quotad/quota/seedtest"
)

// A provider is a fake of one whose preset there is. It counts by the provider's documentation, not by
// the preset, requires its login, and refuses with bodies that people have shown in public.
type provider struct {
	preset string
	login  string // lines of the configuration
	// headers are those that a client of the provider sends, with a login of its own, and calls what the
	// clients ask for: "GET path".
	headers, calls []string
	// price returns what a call costs, and of which limit; no limit: there is no such call.
	price func(r *http.Request) (limit string, units int)
	// opens reports whether a request has the login.
	opens func(r *http.Request, token string) bool
	says  func(w http.ResponseWriter, now time.Time) (status int, body string) // a refusal
	now   func() time.Time

	mu      sync.Mutex // guards what follows
	token   string
	counted map[string]int // units by limit
	got     []string       // as the requests came
	strange []string       // requests that it does not know
	fails   int            // how many calls get a 503
	spent   bool           // its day is exhausted, by others
	refused int            // calls that it answered so
}

const ownToken = "ya29.token-of-the-job"

// publicBody returns a body of config/testdata/bodies.json, which names its source.
func publicBody(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile("config/testdata/bodies.json")
	must(t, err)
	var bodies []struct{ Name, Body string }
	must(t, json.Unmarshal(text, &bodies))
	for _, b := range bodies {
		if b.Name == name {
			return b.Body
		}
	}
	t.Fatalf("no public body is called %q", name)
	return ""
}

func providers(t *testing.T) []*provider {
	body := func(status int, name string) func(http.ResponseWriter, time.Time) (int, string) {
		text := publicBody(t, name)
		return func(http.ResponseWriter, time.Time) (int, string) { return status, text }
	}
	bearer := func(r *http.Request, token string) bool { return r.Header.Get("Authorization") == "Bearer "+token }
	parameter := func(name string) func(*http.Request, string) bool {
		return func(r *http.Request, token string) bool {
			values := r.URL.Query()[name]
			return len(values) == 1 && values[0] == token
		}
	}
	budget := publicBody(t, "OpenAlex: the day (J535D165/pyalex#111)")
	const site = "webmasters/v3/sites/https%3A%2F%2Fexample.com%2F"
	return []*provider{
		{ // developers.google.com/youtube/v3/determine_quota_cost, of 2025: any answer costs
			preset: "youtube-classic", login: `key_file = "youtube-classic.key"`,
			calls: []string{"GET youtube/v3/videos?part=id&chart=mostPopular&key=none", "GET youtube/v3/search?part=snippet&q=a%20b&key=none", "GET youtube/v3/videos?part=none&key=none"},
			price: func(r *http.Request) (string, int) {
				return "daily", map[string]int{"GET /youtube/v3/videos": 1, "GET /youtube/v3/search": 100}[r.Method+" "+r.URL.Path]
			},
			opens: func(r *http.Request, token string) bool {
				return r.Header.Get("X-Goog-Api-Key") == token && !r.URL.Query().Has("key")
			},
			says: body(403, "YT classic pool"),
		},
		{ // docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api and …/best-practices: a 304 is free
			preset: "github-rest", login: `key_command = ["./github-rest.mint"]`,
			headers: []string{"Authorization: token none", `If-None-Match: "seen"`},
			calls:   []string{"GET repos/a/b", "GET repos/a/seen", "GET rate_limit", "GET search/issues?q=a", "GET search/code?q=a", "GET repos/a/none"},
			price: func(r *http.Request) (string, int) {
				switch {
				case strings.HasPrefix(r.URL.Path, "/search/code"):
					return "code_search", 1
				case strings.HasPrefix(r.URL.Path, "/search/"):
					return "search", 1
				case r.URL.Path == "/rate_limit":
					return "core", 0
				}
				return "core", 1
			},
			opens: bearer, says: body(403, "GitHub primary"),
		},
		{ // developers.google.com/webmaster-tools/limits
			preset: "search-console", login: `key = "caller"`, headers: []string{"Authorization: Bearer " + ownToken},
			calls: []string{"POST " + site + "/searchAnalytics/query", "GET " + site, "GET webmasters/v3/sites", "POST v1/urlInspection/index:inspect"},
			price: func(r *http.Request) (string, int) {
				return map[string]string{"POST /" + site + "/searchAnalytics/query": "analytics", "GET /" + site: "other", "GET /webmasters/v3/sites": "other",
					"POST /v1/urlInspection/index:inspect": "inspection"}[r.Method+" "+r.RequestURI], 1
			},
			opens: bearer, says: body(403, "Search Console: the load, by its preset"),
		},
		{ // developers.openalex.org/api-reference/authentication
			preset: "openalex", login: `key_file = "openalex.key"`,
			calls: []string{"GET works?filter=type:article&api_key=none", "GET works?search=kelp&api_key=none", "GET works/W2741809807?api_key=none", "GET works/doi:10.7717/peerj.4375?api_key=none"},
			price: func(r *http.Request) (string, int) {
				switch {
				case strings.HasPrefix(r.URL.Path, "/works/"):
					return "daily", 0
				case r.URL.Path == "/works" && r.URL.Query().Has("search"):
					return "daily", 10
				}
				return "daily", 1
			},
			opens: parameter("api_key"),
			says: func(w http.ResponseWriter, now time.Time) (int, string) {
				reset := fmt.Sprint(int(now.UTC().Truncate(24 * time.Hour).Add(24 * time.Hour).Sub(now).Seconds()))
				w.Header().Set("Retry-After", reset)
				w.Header().Set("X-Ratelimit-Remaining", "0")
				w.Header().Set("X-Ratelimit-Reset", reset)
				return http.StatusTooManyRequests, budget
			},
		},
		{ // support.twelvedata.com/en/articles/5615854-credits
			preset: "twelve-data", login: `key_file = "twelve-data.key"`,
			calls: []string{"GET price?symbol=AAPL&apikey=none", "GET time_series?symbol=NOPE&interval=1day&apikey=none"},
			price: func(*http.Request) (string, int) { return "daily", 1 },
			opens: parameter("apikey"), says: body(429, "Twelve Data: the day"),
		},
	}
}

// ServeHTTP counts a call, and answers it.
func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	io.Copy(io.Discard, r.Body)
	p.mu.Lock()
	defer p.mu.Unlock()
	limit, units := p.price(r)
	p.got = append(p.got, r.Method+" "+strings.ReplaceAll(r.RequestURI, p.token, "KEY"))
	if limit == "" {
		p.strange = append(p.strange, r.Method+" "+r.RequestURI)
		w.WriteHeader(http.StatusNotFound)
		return
	}
	if units > 0 {
		p.counted[limit] += units
	}
	w.Header().Set("Content-Type", "application/json; charset=UTF-8")
	isNone := strings.Contains(r.URL.Path+r.URL.RawQuery, "none") || strings.Contains(r.URL.RawQuery, "NOPE")
	switch {
	case !p.opens(r, p.token):
		w.WriteHeader(http.StatusUnauthorized)
		io.WriteString(w, `{"error":{"code":401,"message":"Request had invalid authentication credentials.","errors":[{"reason":"authError"}],"status":"UNAUTHENTICATED"}}`)
	case p.spent && units > 0:
		p.refused++
		status, text := p.says(w, p.now())
		w.WriteHeader(status)
		io.WriteString(w, text)
	case p.fails > 0:
		p.fails--
		w.WriteHeader(http.StatusServiceUnavailable)
		io.WriteString(w, `{"error":{"code":503,"message":"The service is currently unavailable.","errors":[{"reason":"backendError"}]}}`)
	case strings.HasSuffix(r.URL.Path, "/seen") && r.Header.Get("If-None-Match") != "":
		p.counted[limit] -= units
		w.WriteHeader(http.StatusNotModified)
	case isNone:
		w.WriteHeader(http.StatusBadRequest)
		io.WriteString(w, `{"error":{"code":400,"message":"Invalid value","errors":[{"reason":"invalidParameter"}]}}`)
	default:
		io.WriteString(w, `{"items":[],"results":[]}`)
	}
}

// start serves a provider, which requires a key.
func (p *provider) start(t *testing.T, key string) *httptest.Server {
	p.token, p.counted, p.now = key, map[string]int{}, time.Now
	server := httptest.NewServer(p)
	t.Cleanup(server.Close)
	return server
}

// plainClients are those that are there without a registry: curl, the standard library of Python, Node's
// fetch and PHP's streams.
var plainClients = []struct{ name, program, script string }{
	{"curl", "curl", "plain.sh"}, {"python", "python3", "plain.py"}, {"node", "node", "plain.js"}, {"php", "php", "plain.php"},
}

// Programs that know nothing of quotad call five providers with the login that each requires, unmodified
// but for the address: what each provider has counted is what the ledger holds, to the unit.
func TestProvidersByPlainClients(t *testing.T) {
	seedtest.SkipUnderRace(t)
	t.Parallel()
	var regions []string
	for _, c := range plainClients {
		if _, err := exec.LookPath(c.program); err == nil {
			regions = append(regions, c.name)
		}
	}
	if len(regions) == 0 {
		t.Skip("no client is here")
	}
	dir := shortDir(t)
	file := "[proxy]\nlisten = \"127.0.0.1:0\"\n"
	list := providers(t)
	text := func(value any) string {
		written, err := json.Marshal(value) // as TOML has it too
		must(t, err)
		return string(written)
	}
	for _, c := range plainClients {
		place(t, dir, c.script)
	}
	for _, p := range list {
		key := "the-key-of-" + p.preset
		if p.preset == "search-console" {
			key = ownToken
		}
		server := p.start(t, key)
		write(t, dir, p.preset+".key", key)
		mintName := filepath.Join(dir, p.preset+".mint")
		minted := fmt.Sprintf("#!/bin/sh\necho '{\"key\": %q, \"expires\": %q}'\n", key, time.Now().Add(time.Hour).UTC().Format(time.RFC3339))
		must(t, os.WriteFile(mintName, []byte(minted), 0o700))
		file += fmt.Sprintf(`
[credentials.%[1]s]
preset = %[1]q
proxy = { upstream = %[2]q, %[3]s }
[jobs.%[1]s]
credential = %[1]q
regions = %[4]s
schedule = "manual"
timeout = "2m"
command = ["sh", %[5]q]
env = { LC_ALL = "C.UTF-8", CLIENTS = %[6]q, HEADERS = %[7]s, CALLS = %[8]s }
`, p.preset, server.URL, p.login, text(regions), filepath.Join(dir, "plain.sh"), dir, text(strings.Join(p.headers, "\n")), text(strings.Join(p.calls, "\n")))
	}
	write(t, dir, "config.toml", file)
	startIn(t, dir)
	client := clientIn(dir)
	for _, p := range list {
		t.Run(p.preset, func(t *testing.T) {
			run := quotactlIn(dir, "run", p.preset, "--wait")
			output, _ := run.CombinedOutput()
			usage, err := client.Usage(t.Context(), p.preset, api.UsageQuery{})
			must(t, err)
			booked := map[string]int{}
			for limit, units := range usage.Total.Limits {
				if !strings.HasSuffix(limit, "_day") && limit != "minute" && units > 0 {
					booked[limit] = int(units)
				}
			}
			maps.DeleteFunc(p.counted, func(_ string, units int) bool { return units == 0 })
			if !maps.Equal(booked, p.counted) {
				t.Errorf("booked %v, and the provider counted %v\n%s\n%s", booked, p.counted, output, tails(lastRun(t, client, p.preset)))
			}
			want := map[string]int{}
			for _, call := range p.calls {
				method, path, _ := strings.Cut(call, " ")
				path = strings.NewReplacer("key=none", "", "api_key=none", "").Replace(path)
				want[method+" "+strings.TrimRight(strings.Split(path, "?")[0], "&?")] += len(regions)
			}
			got := map[string]int{}
			for _, call := range p.got {
				method, path, _ := strings.Cut(call, " /")
				got[method+" "+strings.Split(path, "?")[0]]++
			}
			if !maps.Equal(got, want) || p.strange != nil {
				t.Errorf("the provider got %v, want %v; strange: %q", got, want, p.strange)
			}
			if ended := lastRun(t, client, p.preset); strings.Count(tails(ended), "401") > 0 {
				t.Errorf("a login was refused: %s", tails(ended))
			}
		})
	}
}

package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"quotad/quota/api"
)

// A proxied job leaves its address for the test.
const proxiedJob = `
passes.drain = "1ms"
[log]
level = "debug"
[proxy]
listen = "127.0.0.1:0"
[on_event]
command = ["sh", "-c", "env; cat"]
[credentials.api]
%s
[jobs.fetch]
credential = "api"
regions = ["one"]
cron = "$FAR * * *"
run_at_start = true
timeout = "1h"
command = ["sh", "-c", "echo $QUOTAD_PROXY >address.new; mv address.new address; sleep 3600"]
dir = "."
`

// ownUpstream is a credential that costs one unit a call.
const ownUpstream = `
limits.daily.units = 100
operations.list = 1
proxy = { upstream = %q, key_file = "api.key", routes = { "GET /list/**" = "list" } }
`

// A proxied pass calls its upstream through the proxy of a daemon.
type proxied struct {
	*testing.T
	dir, address string
	daemon       *child
	operator     *api.Client
	pass         *api.Client // with its token
}

func startProxied(t *testing.T, credential string) *proxied {
	t.Helper()
	return startProxiedIn(t, shortDir(t), credential)
}

func startProxiedIn(t *testing.T, dir, credential string) *proxied {
	t.Helper()
	c := &proxied{T: t, dir: dir}
	write(t, c.dir, "api.key", apiKey+"\n")
	write(t, c.dir, "config.toml", fmt.Sprintf(proxiedJob, credential))
	c.daemon = startIn(t, c.dir)
	t.Cleanup(func() {
		c.daemon.stop(t)
	})
	c.address = awaitFile(t, filepath.Join(c.dir, "address"))
	c.operator, c.pass = clientIn(c.dir), clientIn(c.dir)
	c.pass.Token = strings.Split(c.address, "/")[3]
	return c
}

// call returns the status of an answer, and all that is in it.
func (c *proxied) call(method, path string) (int, string) {
	c.Helper()
	r, err := http.NewRequest(method, c.address+path, nil)
	must(c, err)
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	return res.StatusCode, fmt.Sprint(res.Status, res.Header, string(body), res.Trailer, err)
}

func (c *proxied) used() int64 {
	c.Helper()
	status, err := c.pass.Status(context.Background())
	must(c, err)
	return status.Credentials[0].Limits[0].Used
}

// A pass gets back, by its token, nothing of a call that its upstream may have counted: not
// while the call is under way, and not afterwards.
func TestPassCannotReleaseProxiedCalls(t *testing.T) {
	received, more := make(chan struct{}, 100), make(chan struct{})
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { received <- struct{}{}; <-more }))
	defer upstream.Close()
	c := startProxied(t, fmt.Sprintf(ownUpstream, upstream.URL))
	release := func() {
		t.Helper()
		page, err := c.operator.Log(context.Background(), api.LogQuery{})
		if err != nil || len(page.Entries) == 0 {
			t.Fatal(page, err)
		}
		for _, e := range page.Entries {
			if d, _ := c.pass.Release(context.Background(), e.ID); d.Granted || d.Reason != "forbidden" {
				t.Errorf("released %s: %+v", e.ID, d)
			}
			if d, _ := c.pass.Settle(context.Background(), e.ID, 0); d.Granted || !strings.Contains(d.Hint, "settled by the proxy") {
				t.Errorf("settled %s: %+v", e.ID, d)
			}
		}
	}
	ended := make(chan struct{})
	go func() { defer close(ended); c.call("GET", "list") }()
	<-received
	release()
	close(more)
	<-ended
	for range 19 {
		c.call("GET", "list")
		release()
	}
	if sent := len(received) + 1; sent != 20 || c.used() != 20 {
		t.Errorf("the upstream got %d calls, %d units are debited, want 20", sent, c.used())
	}
}

// keyLeaks are answers that hold the key.
func keyLeaks(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	raw := func(text string) {
		conn, _, err := w.(http.Hijacker).Hijack()
		if err == nil {
			defer conn.Close()
			io.WriteString(conn, text)
			if strings.HasSuffix(r.URL.Path, "/unasked") {
				io.Copy(io.Discard, conn) // until the proxy has read it, and hung up
			}
		}
	}
	switch strings.TrimPrefix(r.URL.Path, "/list/") {
	case "refusal":
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprintf(w, `{"error":{"message":"Consumer 'api_key:%s' has no bill","errors":[{"reason":"billingNotEnabled"}]}}`, key)
	case "nonsense":
		raw(key + "\r\n\r\n")
	case "bad-chunk":
		raw("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + key + "\r\n")
	case "unasked":
		raw("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}HTTP/1.1 200 " + key + "\r\n\r\n")
	}
}

// An upstream that tells the key in an error tells nobody but quotad: neither the job, nor the log, the
// ledger, what the API answers, or the commands of events.
func TestProxyKeepsTheKey(t *testing.T) {
	t.Parallel()
	upstream := httptest.NewServer(http.HandlerFunc(keyLeaks))
	defer upstream.Close()
	c := startProxied(t, fmt.Sprintf(ownUpstream, upstream.URL))
	var answers string
	for _, leak := range []string{"nonsense", "bad-chunk", "unasked", "refusal"} {
		status, answer := c.call("GET", "list/"+leak)
		answers += fmt.Sprintln(leak, status, answer)
	}
	for _, said := range []string{"^httputil: ReverseProxy read error", "^Unsolicited response", "^event command done$"} {
		c.daemon.logs(t, said)
	}
	answers += string(everyAnswer(t, c.pass))
	c.daemon.stop(t)
	log := c.daemon.whole()
	if !strings.Contains(log, "QUOTAD_SAYS=") || !strings.Contains(log, "api_key:***") {
		t.Errorf("the log is not a log of everything:\n%s", c.daemon.text())
	}
	for what, content := range map[string][]byte{"log": []byte(log), "answers": []byte(answers), "state": everyFile(t, filepath.Join(c.dir, ".quotad"))} {
		search(t, what, content, apiKey)
	}
}

// A key that is suspended ends the run of a job that does not look at answers: one region asks, and
// nobody takes the rest for served.
func TestASuspendedKeyEndsTheRun(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not here")
	}
	var calls atomic.Int64
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		calls.Add(1)
		w.WriteHeader(http.StatusForbidden)
		io.WriteString(w, `{"error":{"code":403,"message":"Consumer 'api_key:AIza' has been <b>suspended</b>.","errors":[{"reason":"forbidden"}],"status":"PERMISSION_DENIED",
			"details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"CONSUMER_SUSPENDED","domain":"googleapis.com"}]}}`)
	}))
	defer upstream.Close()
	dir := shortDir(t)
	write(t, dir, "api.key", apiKey+"\n")
	write(t, dir, "config.toml", fmt.Sprintf(`
[proxy]
listen = "127.0.0.1:0"
[credentials.youtube]
preset = "youtube-classic"
proxy = { upstream = %q, key_file = "api.key" }
[jobs.j]
credential = "youtube"
regions = ["US", "GB", "DE", "FR"]
schedule = "manual"
command = ["sh", "-c", "curl -so /dev/null \"${QUOTAD_PROXY}youtube/v3/videos?part=id\"; exit 0"]
`, upstream.URL))
	daemon := startIn(t, dir)
	t.Cleanup(func() {
		daemon.stop(t)
	})
	run := quotactlIn(dir, "run", "j", "--wait")
	output, err := run.CombinedOutput()
	if run.ProcessState.ExitCode() != 1 || calls.Load() != 1 {
		t.Errorf("exit code %d (%v) after %d calls, want 1 after one:\n%s", run.ProcessState.ExitCode(), err, calls.Load(), output)
	}
	if text := string(output); !strings.Contains(text, "upstream refuses") || !strings.Contains(text, "3 not reached") || strings.Contains(text, "<b>") {
		t.Errorf("got\n%s", text)
	}
}

// The routes of a preset count a call against the limit that its provider does, or refuse it. What
// is free moves nothing.
func TestProxyOfPresets(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer upstream.Close()
	type call struct{ method, path, operation string }
	for preset, calls := range map[string][]call{
		"github-rest": {
			{"GET", "repos/a/b", "core"},
			{"GET", "search/code?q=a", "search.code"},
			{"GET", "search/issues?q=a", "search"},
			{"GET", "search/code.json?q=a", ""},
			{"GET", "search", ""},
			{"POST", "search/code", ""},
			{"POST", "graphql", ""},
			{"POST", "graphql/", ""},
			{"GET", "graphql", ""},
			{"TRACE", "repos/a/b", ""},
			{"GET", "rate_limit", "free"},
			{"POST", "rate_limit", "core"},
		},
		"youtube-2026-06": {
			{"GET", "youtube/v3/videos:batchGetStats?part=statistics&id=a,b", "videos.batchGetStats"},
			{"GET", "youtube/v3/videos?part=id&id=a", "videos.list"},
			{"POST", "youtube/v3/videos:batchGetStats", ""},
			{"GET", "youtube/v3/videos:other", ""},
		},
		"openalex": {
			{"GET", "works?filter=institution.id:I123&per_page=100", "list"},
			{"GET", "works?search=kelp&filter=type:article", "search"},
			{"GET", "authors?search.semantic=kelp&search=kelp", "search"},
			{"GET", "works/W123", "free"},
			{"GET", "works/doi:10.1234/foo", "free"},
			{"GET", "works/https%3A%2F%2Fdoi.org%2F10.1234%2Ffoo", "free"},
			{"GET", "autocomplete/works?q=kelp", "list"},
			{"GET", "text/topics?title=kelp", "text"},
			{"POST", "works", ""},
		},
		"twelve-data": {
			{"GET", "time_series?symbol=AAPL&interval=1day", "time_series"},
			{"GET", "price?symbol=AAPL", "price"},
			{"GET", "income_statement?symbol=AAPL", ""},
			{"GET", "api_usage", ""},
		},
		"search-console": {
			{"POST", "webmasters/v3/sites/https%3A%2F%2Fexample.com%2F/searchAnalytics/query", "searchanalytics.query"},
			{"POST", "webmasters/v3/sites/sc-domain%3Aexample.com/searchAnalytics/query?alt=json", "searchanalytics.query"},
			{"GET", "webmasters/v3/sites/sc-domain:example.com", "sites.get"},
			{"GET", "webmasters/v3/sites", "sites.list"},
			{"PUT", "webmasters/v3/sites/https%3A%2F%2Fexample.com%2F/sitemaps/https%3A%2F%2Fexample.com%2Fsitemap.xml", "sitemaps.submit"},
			{"POST", "v1/urlInspection/index:inspect", "urlInspection.index.inspect"},
			{"POST", "v1/urlInspection/index:other", ""},
		},
	} {
		t.Run(preset, func(t *testing.T) {
			more := map[string]string{"openalex": "operations = { search = 1, text = 1 }\n"}[preset] // the run has 10
			c := startProxied(t, fmt.Sprintf("preset = %q\n%sproxy = { upstream = %q, key_file = \"api.key\" }", preset, more, upstream.URL))
			for _, row := range calls {
				before, err := c.operator.Log(context.Background(), api.LogQuery{})
				must(t, err)
				status, answer := c.call(row.method, row.path)
				after, err := c.operator.Log(context.Background(), api.LogQuery{})
				must(t, err)
				operation := ""
				if len(after.Entries) > len(before.Entries) {
					operation = after.Entries[len(after.Entries)-1].Operation
				} else if status == 200 {
					operation = "free"
				}
				if operation != row.operation || (status == 200) != (operation != "") {
					t.Errorf("%s /%s is %q and answered %d %s, want %q", row.method, row.path, operation, status, answer, row.operation)
				}
			}
		})
	}
}

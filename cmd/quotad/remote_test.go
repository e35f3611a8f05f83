package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"io/fs"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"quotad/quota/api"
)

// remoteConfig has two callers, of whom one is named like a job, and a job; %s is more of it.
const remoteConfig = `
passes.drain = "1ms"
[credentials.youtube]
limits.daily.units = 100
limits.shops = { units = 40, jobs = ["@shop"] }
limits.page = { units = 90, jobs = ["page"] }
operations."videos.list" = 1
operations."search.list" = 10
[credentials.other]
limits.daily.units = 100
operations.list = 1
[clients.public]
units = 60
window = "1m"
[clients.staff]
units = 60
window = "1m"
[jobs.page]
credential = "youtube"
regions = ["one"]
schedule = "manual"
command = ["sh", "-c", "echo $QUOTAD_TOKEN >token.new && mv token.new token && exec sleep 600"]
timeout = "10m"
[remote]
listen = "127.0.0.1:0"
cert_file = "cert.pem"
key_file = "key.pem"
[remote.callers.shop]
token_file = "shop.token"
credentials = ["youtube"]
subjects = ["public"]
[remote.callers.page]
token_file = "page.token"
credentials = ["youtube", "other"]
operations = ["videos.list", "list"]
%s`

// A distant is a daemon with callers on other hosts, and a host that calls it.
type distant struct {
	*testing.T
	dir, address string
	daemon       *child
	local        *api.Client
	shop, page   string // tokens
	pool         *x509.CertPool
}

func startDistant(t *testing.T, more string) *distant {
	t.Helper()
	d := &distant{T: t, dir: shortDir(t), shop: newToken(t), page: newToken(t), pool: x509.NewCertPool()}
	d.certify(time.Now().Add(-time.Hour), time.Now().Add(100*24*time.Hour))
	write(t, d.dir, "shop.token", d.shop+"\n")
	write(t, d.dir, "page.token", d.page+"\n")
	write(t, d.dir, "config.toml", fmt.Sprintf(remoteConfig, more))
	d.start()
	return d
}

func (d *distant) start() {
	d.Helper()
	d.daemon, d.local = startIn(d.T, d.dir), clientIn(d.dir)
	d.address = d.daemon.logged(d.T, "serving remote callers", "address")
}

func newToken(t testing.TB) string {
	t.Helper()
	random := make([]byte, 32)
	rand.Read(random)
	return hex.EncodeToString(random)
}

// certify puts a certificate in the place of the one that is there. Callers trust it.
func (d *distant) certify(from, until time.Time) {
	d.Helper()
	certificate, key := newCertificate(d.T, from, until)
	d.pool.AppendCertsFromPEM(certificate)
	write(d.T, d.dir, "ca.pem", string(certificate))
	d.replace("key.pem", key)
	d.replace("cert.pem", certificate)
}

// replace puts a file in the place of another at once.
func (d *distant) replace(name string, text []byte) {
	d.Helper()
	write(d.T, d.dir, name+".new", string(text))
	must(d, os.Rename(filepath.Join(d.dir, name+".new"), filepath.Join(d.dir, name)))
}

func newCertificate(t testing.TB, from, until time.Time) (certificate, key []byte) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "quotad"}, NotBefore: from, NotAfter: until,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
	must(t, err)
	private, err := x509.MarshalPKCS8PrivateKey(secret)
	must(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
}

// host returns a client of its own connections.
func (d *distant) host() *http.Client {
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: d.pool}, ForceAttemptHTTP2: true}
	d.Cleanup(transport.CloseIdleConnections)
	return &http.Client{Transport: transport}
}

// A reply is what a remote caller gets.
type reply struct {
	status int
	header http.Header
	body   string
	fields api.Decision
	reason string
}

// call makes a request by a token; empty: without one.
func (d *distant) call(token, method, path string, fields string) reply {
	d.Helper()
	host := d.host()
	defer host.CloseIdleConnections()
	return d.callOf(host, token, method, path, fields)
}

func (d *distant) callOf(host *http.Client, token, method, path, fields string) reply {
	d.Helper()
	r, err := http.NewRequestWithContext(d.Context(), method, "https://"+d.address+path, strings.NewReader(fields))
	must(d, err)
	if method == "GET" || method == "DELETE" {
		r.Body, r.ContentLength = nil, 0
	}
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := host.Do(r)
	must(d, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(d, err)
	got := reply{status: answer.StatusCode, header: answer.Header, body: string(body)}
	var problem api.Problem
	json.Unmarshal(body, &got.fields)
	json.Unmarshal(body, &problem)
	got.reason = string(problem.Reason)
	return got
}

// want holds the status and the reason of an answer.
func (d *distant) want(what string, got reply, status int, reason string) {
	d.Helper()
	if got.status != status || reason != "" && got.reason != reason {
		d.Errorf("%s: got %d %s, want %d %s", what, got.status, got.body, status, reason)
	}
}

// used is what a limit of youtube holds.
func (d *distant) used(limit string) int64 {
	d.Helper()
	c, err := d.local.Credential(context.Background(), "youtube")
	must(d, err)
	for _, l := range c.Limits {
		if l.Name == limit {
			return l.Used
		}
	}
	d.Fatalf("there is no limit %s", limit)
	return 0
}

// Every route of the API has its answer for a remote caller, and a token of the other kind is none.
func TestRemoteRoutes(t *testing.T) {
	t.Parallel()
	d := startDistant(t, "")
	own := d.call(d.shop, "POST", "/v1/acquire", "operation=videos.list").fields.GrantID
	allowed := map[string]struct {
		path, fields string
		status       int
	}{
		"POST /v1/acquire":                {"", "operation=videos.list", 200},
		"POST /v1/grants/{id}/settle":     {"/v1/grants/" + own + "/settle", "units=1", 200},
		"DELETE /v1/grants/{id}":          {"/v1/grants/" + own, "", 200},
		"POST /v1/observe":                {"", "status=200&grant_id=" + own, 200},
		"GET /v1/status":                  {"", "", 200},
		"GET /v1/credentials":             {"", "", 200},
		"POST /v1/clients/{name}/acquire": {"/v1/clients/public/acquire", "subject=a", 200},
		"GET /v1":                         {"", "", 200},
		"GET /healthz":                    {"", "", 200},
		"GET /readyz":                     {"", "", 200},
		"GET /version":                    {"", "", 200},
	}
	var list struct{ Routes []route }
	must(t, d.local.Get(t.Context(), "/v1", &list))
	seen := 0
	for _, r := range list.Routes {
		name := r.Method + " " + r.Path
		row, may := allowed[name]
		if !may {
			path := strings.NewReplacer("{name}", "youtube", "{job}", "page", "{run}", "1", "{region}", "one", "{id}", own).Replace(r.Path)
			d.want(name, d.call(d.shop, r.Method, path, ""), 403, "forbidden")
			continue
		}
		seen++
		if row.path == "" {
			row.path = r.Path
		}
		d.want(name, d.call(d.shop, r.Method, row.path, row.fields), row.status, "")
		if got := d.call("", r.Method, row.path, row.fields); got.status != 401 || got.header.Get("Server") != "" {
			t.Errorf("%s without a token: %d %s by %q", name, got.status, got.body, got.header.Get("Server"))
		}
	}
	if seen != len(allowed) {
		t.Errorf("%d of %d routes are there", seen, len(allowed))
	}
}

// A caller reads and spends what is its own.
func TestRemoteRights(t *testing.T) {
	t.Parallel()
	d := startDistant(t, "")
	acquire := func(token, fields string) reply { return d.call(token, "POST", "/v1/acquire", fields) }

	of := acquire(d.shop, "operation=videos.list&request_id=a")
	other := acquire(d.page, "credential=youtube&operation=videos.list&request_id=a")
	again := acquire(d.shop, "operation=videos.list&request_id=a")
	d.want("the same id", again, 200, "")
	if of.fields.GrantID == other.fields.GrantID || again.fields.GrantID != of.fields.GrantID || !again.fields.Replayed || other.fields.Replayed {
		t.Errorf("ids of two callers meet: %s, %s, and again %s", of.body, other.body, again.body)
	}
	d.want("the same id with other arguments", acquire(d.shop, "operation=search.list&request_id=a"), 409, "request_id_conflict")
	for what, fields := range map[string]string{
		"another credential": "credential=other&operation=list", "one that is not there": "credential=none&operation=list", "the reserve": "operation=videos.list&use_reserve=true",
	} {
		d.want(what, acquire(d.shop, fields), 403, "forbidden")
	}
	d.want("another operation", acquire(d.page, "credential=youtube&operation=search.list"), 403, "forbidden")
	if got := acquire(d.page, "operation=list"); got.status != 400 || strings.Contains(got.body, "none") || !strings.Contains(got.body, "youtube, other") {
		t.Errorf("without a credential of two: %d %s", got.status, got.body)
	}
	if got := acquire(d.shop, "operation=video.list"); got.status != 404 || got.reason != "unknown_operation" {
		t.Errorf("an operation that is not there: %d %s", got.status, got.body)
	}

	local, err := d.local.Acquire(t.Context(), api.AcquireRequest{Credential: "youtube", Operation: "videos.list"})
	must(t, err)
	for what, id := range map[string]string{"another caller's": other.fields.GrantID, "a user's": local.GrantID, "another credential's": "other:" + strings.SplitN(of.fields.GrantID, ":", 2)[1], "nonsense": "x"} {
		d.want("settle "+what, d.call(d.shop, "POST", "/v1/grants/"+id+"/settle", "units=0"), 403, "forbidden")
		d.want("release "+what, d.call(d.shop, "DELETE", "/v1/grants/"+id, ""), 403, "forbidden")
		d.want("observe for "+what, d.call(d.shop, "POST", "/v1/observe", "status=429&grant_id="+id), 403, "forbidden")
	}
	d.want("observe without a grant", d.call(d.shop, "POST", "/v1/observe", "status=429&operation=videos.list"), 403, "forbidden")
	d.want("read another credential", d.call(d.shop, "GET", "/v1/credentials?credential=other", ""), 403, "forbidden")
	d.want("read the only one", d.call(d.shop, "GET", "/v1/credentials?credential=-", ""), 200, "")
	d.want("ask about other clients", d.call(d.shop, "POST", "/v1/clients/staff/acquire", "subject=a"), 403, "forbidden")
	d.want("ask about clients that are not there", d.call(d.shop, "POST", "/v1/clients/none/acquire", "subject=a"), 403, "forbidden")
	d.want("settle upwards", d.call(d.shop, "POST", "/v1/grants/"+of.fields.GrantID+"/settle", "units=3"), 200, "")
	if got := d.used("shops"); got != 3 {
		t.Errorf("the share of the shop holds %d, want 3", got)
	}

	// Nor does what closed a limit say who did.
	if out, err := d.quotactl("close", "youtube", "daily", "--until", "3h"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	closed := d.call(d.shop, "POST", "/v1/observe", "status=403&grant_id="+of.fields.GrantID+"&body="+url.QueryEscape(`{"error":{"errors":[{"reason":"quotaExceeded"}]}}`))
	if closed.status != 200 || strings.Contains(closed.body, "@") {
		t.Errorf("an observation of a closed limit: %d %s", closed.status, closed.body)
	}
	if out, err := d.quotactl("open", "youtube", "daily"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}

	// Nothing of others stands in what it reads.
	d.call(d.shop, "POST", "/v1/acquire", "operation=videos.list&count=41")
	for _, got := range []reply{
		d.call(d.shop, "GET", "/v1/status", ""), d.call(d.shop, "GET", "/v1/credentials", ""), d.call(d.shop, "GET", "/v1/credentials?credential=youtube", ""), of,
		d.call(d.shop, "POST", "/v1/acquire", "operation=videos.list&count=40"), d.call(d.shop, "GET", "/readyz", ""), d.call(d.shop, "GET", "/v1/credentials?credential=other", ""),
	} {
		if found := regexp.MustCompile(`page|jobs|triage|rates|config|"other"|staff|` + d.dir).FindString(strings.ReplaceAll(got.body, `may not read credential \"other\"`, "")); found != "" {
			t.Errorf("it reads of %s: %s", found, got.body)
		}
	}
	page := d.call(d.page, "GET", "/v1/credentials?credential=youtube", "").body
	if strings.Contains(page, "search.list") || strings.Contains(page, "shops") || strings.Contains(page, `"page"`) {
		t.Errorf("a caller reads of operations and shares that are not its own: %s", page)
	}

	// The log names callers, and the job of the same name is another.
	var log api.LogPage
	must(t, d.local.Get(t.Context(), "/v1/log?credential=youtube&most=1000", &log))
	by := map[string]int{}
	for _, e := range log.Entries {
		if e.Kind == "grant" {
			by[e.By]++
		}
	}
	if by["remote/shop"] != 1 || by["remote/page"] != 1 || by["page"] != 0 {
		t.Errorf("the log has grants by %v", by)
	}
	if got := d.used("page"); got != 0 {
		t.Errorf("the share of the job holds %d of a caller's", got)
	}
}

// Wrong tokens are refused, and none of any kind is shown.
func TestRemoteTokens(t *testing.T) {
	t.Parallel()
	d := startDistant(t, "[log]\nlevel = \"debug\"\n")
	if out, err := d.quotactl("run", "page"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	run := awaitFile(t, filepath.Join(d.dir, ".quotad/data/page/token"))
	status := func(token string) reply { return d.call(token, "GET", "/v1/status", "") }

	next := newToken(t)
	d.want("a good one", status(d.shop), 200, "")
	d.want("wrong", status(newToken(t)), 401, "unauthorized")
	d.want("cut", status(d.shop[:63]), 401, "unauthorized")
	d.want("longer", status(d.shop+"0"), 401, "unauthorized")
	d.want("a run token", status(run), 401, "unauthorized")
	for _, name := range []string{"token", "access_token"} {
		got := d.call("", "GET", "/v1/status?"+name+"="+d.shop, "")
		d.want("in the query", got, 401, "unauthorized")
		if !strings.Contains(got.body, "Authorization: Bearer") || !strings.Contains(got.body, "replace that token") || got.header.Get("WWW-Authenticate") != "Bearer" {
			t.Errorf("in the query: %s has no cure", got.body)
		}
	}
	if _, err := d.local.Acquire(t.Context(), api.AcquireRequest{Credential: "youtube", Operation: "videos.list"}); err != nil {
		t.Fatal(err)
	}
	over := clientIn(d.dir)
	over.Token = d.shop
	if _, err := over.Acquire(t.Context(), api.AcquireRequest{Credential: "youtube", Operation: "videos.list"}); err == nil || !strings.Contains(err.Error(), "unknown") {
		t.Errorf("a remote caller's token over the socket: %v", err)
	}

	// Two at once, then the old one is gone.
	write(t, d.dir, "shop.token", d.shop+"\n"+next+"\n")
	d.reload()
	d.want("the old one of two", status(d.shop), 200, "")
	d.want("the new one of two", status(next), 200, "")
	write(t, d.dir, "shop.token", next+"\n")
	d.reload()
	d.want("the old one", status(d.shop), 401, "unauthorized")
	d.want("the new one", status(next), 200, "")
	d.want("another's", status(d.page), 200, "")

	// A reload that cannot be leaves the callers as they were.
	write(t, d.dir, "shop.token", "")
	if out, err := d.quotactl("reload"); err == nil || !strings.Contains(out, "shop.token is empty") {
		t.Errorf("an empty file: %v %s", err, out)
	}
	d.want("after a reload that failed", status(next), 200, "")

	shown := d.daemon.all() + d.get("/metrics") + d.get("/v1/status") + d.get("/v1/log?denied=true") + d.get("/v1/log")
	for _, token := range []string{d.shop, next, d.page, run} {
		digest := sha256Hex(token)
		if strings.Contains(shown, token) || strings.Contains(shown, digest) || filesHold(t, filepath.Join(d.dir, ".quotad"), token) && token != run {
			t.Errorf("a token is shown, or kept")
		}
	}
}

func sha256Hex(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// filesHold tells whether a file below a directory holds a text.
func filesHold(t *testing.T, dir, text string) (held bool) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		held = held || bytes.Contains(content, []byte(text))
		return err
	})
	must(t, err)
	return held
}

func (d *distant) quotactl(args ...string) (string, error) {
	out, err := exec.Command("quotactl", append([]string{"--socket", d.local.Socket}, args...)...).CombinedOutput()
	return string(out), err
}

func (d *distant) reload() {
	d.Helper()
	if out, err := d.quotactl("reload"); err != nil {
		d.Fatalf("%v: %s", err, out)
	}
}

// get returns what a user of the daemon's own host reads.
func (d *distant) get(path string) string {
	d.Helper()
	host := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(context.Context, string, string) (net.Conn, error) {
		return net.Dial("unix", d.local.Socket)
	}}}
	answer, err := host.Get("http://quotad" + path)
	must(d, err)
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	must(d, err)
	return string(body)
}

// all is the whole log.
func (c *child) all() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.log, "\n")
}

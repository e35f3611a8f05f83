package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"quotad/jobs"
	"quotad/jobs/process"
)

// commanded is a credential whose key a command prints.
const commanded = `
limits.daily.units = 100
operations = { list = 1, look = 0 }
proxy = { upstream = %q, key_command = ["./mint"], routes = { "GET /list/**" = "list", "GET /look" = "look" } }
`

// A keyhole is an upstream that one key opens, and that repeats the key that it got.
type keyhole struct {
	*httptest.Server
	opens atomic.Value // the key
}

func newKeyhole(t *testing.T) *keyhole {
	l := &keyhole{}
	l.opens.Store("")
	l.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer "+l.opens.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
			fmt.Fprintf(w, `{"error":{"code":401,"message":"the key %s is not valid","errors":[{"reason":"authError"}],"status":"UNAUTHENTICATED"}}`, got)
			return
		}
		io.WriteString(w, "open")
	}))
	t.Cleanup(l.Close)
	return l
}

// mint has the command of a key print something, and end with an exit code. It counts its runs.
func mint(t *testing.T, dir, stdout, stderr string, code int) {
	t.Helper()
	text := fmt.Sprintf("#!/bin/sh\necho >>%s/runs\ncat <<'EOF'\n%s\nEOF\ncat >&2 <<'EOF'\n%s\nEOF\nexit %d\n", dir, stdout, stderr, code)
	path := filepath.Join(dir, "mint")
	must(t, os.WriteFile(path+".new", []byte(text), 0o700))
	must(t, os.Rename(path+".new", path))
}

func (c *proxied) runs() int {
	text, _ := os.ReadFile(filepath.Join(c.dir, "runs"))
	return len(text)
}

// says waits until the status of the daemon says something.
func (c *proxied) says(want string) {
	c.Helper()
	text := ""
	eventually(c.T, func() bool {
		out, _ := quotactlIn(c.dir, "status", "-o", "json").Output()
		text = string(out)
		return strings.Contains(text, want)
	})
}

// The key of a command is replaced after a 401, once, and when a reload asks; while the command fails
// the key before serves, and its stderr is the trouble. None of the keys is in anything but calls.
func TestKeyCommand(t *testing.T) {
	t.Parallel()
	l := newKeyhole(t)
	dir := shortDir(t)
	first, second, third := "The-first-key-0123456789", "The-second-key-0123456789", "The-third-key-0123456789"
	mint(t, dir, first, "all is well", 0)
	l.opens.Store(first)
	c := startProxiedIn(t, dir, fmt.Sprintf(commanded, l.URL))
	call := func(want int) {
		t.Helper()
		if status, answer := c.call("GET", "look"); status != want {
			t.Errorf("answered %s, want %d", answer, want)
		}
	}
	reload := func() {
		t.Helper()
		if _, err := c.operator.Reload(context.Background()); err != nil {
			t.Fatal(err)
		}
	}
	call(200)
	call(200)
	if c.runs() != 1 {
		t.Errorf("the command ran %d times, want once", c.runs())
	}
	c.says(`"says": "nothing needs attention"`)

	l.opens.Store(second)
	mint(t, dir, `{"key": "`+second+`", "expires": null}`, "", 0)
	call(401)
	eventually(t, func() bool { return c.runs() == 2 })
	eventually(t, func() bool { status, _ := c.call("GET", "look"); return status == 200 })

	mint(t, dir, "", "vault: no item "+second+" of mine", 3)
	reload()
	c.says("api's key_command fails, its last key still serves: " +
		"it ended with exit code 3: vault: no item ************************* of mine")
	call(200)
	mint(t, dir, `{"key": "`+third+`", "expires": "2001-01-01T00:00:00Z"}`, "", 0)
	reload()
	c.says("it printed a key that is over: it ended at 2001-01-01T00:00:00Z")
	call(200)

	mint(t, dir, second, "", 0)
	reload()
	c.says(`"says": "nothing needs attention"`)
	ran := c.runs()
	l.opens.Store(third)
	for range 3 {
		call(401)
	}
	eventually(t, func() bool { return c.runs() == ran+1 })
	call(401)
	c.says("api's key is refused: the key Bearer ************************* is not valid")
	if c.runs() != ran+1 {
		t.Errorf("the command ran %d times while the key stayed refused, want once", c.runs()-ran)
	}

	answers := everyAnswer(t, c.pass)
	c.daemon.stop(t)
	if log := c.daemon.whole(); !strings.Contains(log, "upstream refuses") {
		t.Errorf("the log is not a log of everything:\n%s", c.daemon.text())
	}
	for what, content := range map[string][]byte{"log": []byte(c.daemon.whole()), "answers": answers, "state": everyFile(t, filepath.Join(c.dir, ".quotad"))} {
		search(t, what, content, first, second, third)
	}
}

// Without a key nothing is sent and nothing is debited. The first one comes by itself or by a reload.
func TestKeyCommandWithoutAKey(t *testing.T) {
	t.Parallel()
	l := newKeyhole(t)
	dir := shortDir(t)
	mint(t, dir, "", "vault: sealed", 1)
	c := startProxiedIn(t, dir, fmt.Sprintf(commanded, l.URL))
	status, answer := c.call("GET", "list/a")
	const why = `there is no key of credential \"api\": it ended with exit code 1: vault: sealed`
	if status != 503 || !strings.Contains(answer, why) || c.used() != 0 {
		t.Errorf("answered %s, and %d units are debited", answer, c.used())
	}
	c.says("api has no key: its key_command fails: it ended with exit code 1: vault: sealed")
	c.daemon.logs(t, "^trouble$")
	l.opens.Store("The-first-key-0123456789")
	mint(t, dir, "The-first-key-0123456789", "", 0)
	if out, err := quotactlIn(dir, "reload").CombinedOutput(); err != nil {
		t.Fatalf("%s", out)
	}
	if status, answer := c.call("GET", "list/a"); status != 200 || c.used() != 1 {
		t.Errorf("answered %s, and %d units are debited", answer, c.used())
	}
	c.says(`"says": "nothing needs attention"`)
}

// A job's own key reaches the upstream, and comes back to the job. It is in nothing that quotad writes or
// answers: not in the log, the ledger, the status, a refusal or the command of an event.
func TestCallersKey(t *testing.T) {
	t.Parallel()
	const inHeader, inQuery, inCookie = "Key-of-the-caller-in-a-header", "Key-of-the-caller-in-the-query", "Key-of-the-caller-in-a-cookie"
	var got atomic.Value
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.Join([]string{r.Header.Get("Authorization"), r.URL.Query().Get("apikey"), r.Header.Get("Cookie")}, " ")
		got.Store(key)
		w.Header().Set("X-Echo", key)
		w.Header().Set("Location", "https://other.example/?apikey="+inQuery)
		w.Header().Set("Retry-After", inQuery)
		switch status := strings.TrimPrefix(r.URL.Path, "/list/"); status {
		case "401":
			w.WriteHeader(401)
			fmt.Fprintf(w, `{"error":{"code":401,"message":"the key %s is not valid","errors":[{"reason":%q}],"status":"UNAUTHENTICATED"}}`, key, inHeader)
		case "403":
			w.WriteHeader(403)
			fmt.Fprintf(w, `{"error":{"code":403,"message":"Consumer 'api_key:%s' is over its quota","errors":[{"reason":"quotaExceeded","domain":%q}]}}`, inQuery, key)
		case "500":
			w.WriteHeader(500)
			io.WriteString(w, key)
		case "cut":
			conn, _, err := w.(http.Hijacker).Hijack()
			if err == nil {
				io.WriteString(conn, key+"\r\n\r\n")
				conn.Close()
			}
		default:
			io.WriteString(w, key)
		}
	}))
	defer upstream.Close()
	c := startProxied(t, fmt.Sprintf("limits.daily.units = 5\noperations.list = 1\nproxy = { upstream = %q, key = \"caller\", routes = { \"GET /list/**\" = \"list\" } }", upstream.URL))
	all := ""
	for _, path := range []string{"list/ok", "list/500", "list/cut", "list/401", "list/403", "list/ok", "elsewhere", "list/a%zz", "list/ok?a=b;c"} {
		r, err := http.NewRequest("GET", c.address+strings.Replace(path, "%zz", "", 1), nil)
		must(t, err)
		if strings.Contains(path, "%zz") {
			r.URL.Opaque = "/" + strings.SplitN(c.address, "/", 4)[3] + path
		}
		r.URL.RawQuery = strings.TrimPrefix(r.URL.RawQuery+"&apikey="+inQuery, "&")
		r.Header = http.Header{"Authorization": {"Bearer " + inHeader}, "Cookie": {"session=" + inCookie}}
		res, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			t.Fatal(path, err)
		}
		body, _ := io.ReadAll(res.Body)
		res.Body.Close()
		if want := "Bearer " + inHeader + " " + inQuery + " session=" + inCookie; path == "list/ok" && res.StatusCode == 200 && (string(body) != want || got.Load() != want) {
			t.Errorf("the upstream got %q, the job %q", got.Load(), body)
		}
		if res.Header.Get("X-Echo") == "" { // quotad's own answer
			all += fmt.Sprint(res.Status, res.Header, string(body))
		}
	}
	if c.used() != 5 || !strings.Contains(all, "429 Too Many") || !strings.Contains(all, "no route of credential") || !strings.Contains(all, "can be read in more than one way") {
		t.Errorf("%d units are debited, refused: %s", c.used(), all)
	}
	c.says("api's key is refused: the key Bearer *")
	c.daemon.logs(t, "^trouble$")
	all += string(everyAnswer(t, c.pass))
	status, _ := quotactlIn(c.dir, "status").CombinedOutput()
	if all += string(status); !strings.Contains(all, "give the job another key") {
		t.Errorf("the status is\n%s", status)
	}
	c.daemon.stop(t)
	for what, content := range map[string][]byte{"log": []byte(c.daemon.whole()), "answers": []byte(all), "state": everyFile(t, filepath.Join(c.dir, ".quotad"))} {
		search(t, what, content, inHeader, inQuery, inCookie)
	}
}

// What a command may print, and what is said of anything else.
func TestWhatAKeyCommandPrints(t *testing.T) {
	const key = "The-only-key-0123456789"
	print := func(took time.Duration, args ...string) (string, time.Time, error) {
		return printKey(context.Background(), process.Launcher{}, jobs.Command{Args: args, Dir: t.TempDir(), Timeout: took})
	}
	for _, c := range []struct{ name, script, want, ends string }{
		{"a key", "echo " + key, key, ""},
		{"a key without a newline", "printf " + key, key, ""},
		{"a key between empty lines", "echo; echo '  " + key + " '; echo", key, ""},
		{"JSON", `echo '{"key": "` + key + `", "expires": "2030-01-01T12:00:00+01:00", "token_type": "Bearer"}'`, key, "2030-01-01T11:00:00Z"},
		{"JSON on lines", `printf '{\n "key": "` + key + `",\n "expires": null\n}\n'`, key, ""},
		{"JSON without an end", `echo '{"key": "` + key + `"}'`, key, ""},
		{"two lines", "echo " + key + "; echo " + key + "2", "what it printed must hold the key on a line by itself, and nothing else", ""},
		{"nothing", "true", "what it printed is empty: it must hold the key", ""},
		{"in quotes", `echo '"` + key + `"'`, "what it printed holds the key in quotes: leave them out", ""},
		{"with a name", "echo TOKEN=" + key, "what it printed holds NAME= before the key: leave it out", ""},
		{"not JSON", "echo '{" + key + "'", `what it printed must be a key, or {"key": "…", "expires": "2026-01-01T12:00:00Z"}`, ""},
		{"JSON without a key", `echo '{"token": "` + key + `"}'`, "key in what it printed is empty: it must hold the key", ""},
		{"an end in words", `echo '{"key": "` + key + `", "expires": "in an hour"}'`, `what it printed must be a key, or {"key": "…", "expires": "2026-01-01T12:00:00Z"}`, ""},
		{"a failure", "echo " + key + "; echo one >&2; echo 'no: " + key + "' >&2; exit 4", "it ended with exit code 4: no: …", ""},
		{"a silent failure", "exit 4", "it ended with exit code 4: it wrote nothing", ""},
		{"a signal", "kill -9 $$", "it ended with SIGKILL: it wrote nothing", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ends, err := print(time.Minute, "/bin/sh", "-c", c.script)
			if err != nil {
				got += err.Error()
			}
			if at := ends.UTC().Format(time.RFC3339); got != c.want || c.ends != "" && at != c.ends || c.ends == "" && !ends.IsZero() {
				t.Errorf("got %q, %s, want %q, %s", got, at, c.want, c.ends)
			}
		})
	}
	const waits = "echo The-only-key-0123456789; echo waiting for a touch >&2; sleep 3600"
	if key, _, err := print(50*time.Millisecond, "/bin/sh", "-c", waits); key != "" || err == nil || !strings.HasPrefix(err.Error(), "it took longer than 50ms: ") {
		t.Errorf("got %q, %v", key, err)
	}
	if _, _, err := print(time.Minute, "/no/such/program"); err == nil || !strings.Contains(err.Error(), `cannot start "/no/such/program"`) {
		t.Errorf("got %v", err)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"quotad/quota/api"
)

// An unaware is a client of YouTube or GitHub as its provider ships it, that knows nothing of quotad.
// SetUp makes it ready in a directory and returns the command of a job, or why it cannot be had.
type unaware struct {
	name    string
	version string
	github  bool
	setUp   func(t *testing.T, dir string) (command []string, lacking string)
	want    [3]string // of the scenes
}

// What the jobs end like in each of the scenes: by the exit code of quotactl run --wait, the passes,
// and what was booked and received.
const (
	dayEnds    = "75: US ok 3, GB exhausted 2; booked 5, received 5"
	minuteEnds = "0: US ok 4, GB ok 3, DE ok 3; booked 10, received 10" // who waits, or tries again
	runWaits   = "0: US exhausted 2, US ok 3, GB ok 3, DE ok 3; booked 11, received 11"
	suspended  = "1: US failed 1; booked 1, received 1"
)

// In the order of the table of cmd/quotad/PROXY.md.
var unawares = []unaware{
	{"curl", "7.88.1", false, func(t *testing.T, dir string) ([]string, string) {
		return []string{"sh", place(t, dir, "curl.sh")}, debian(dir, "curl", "7.88.1")
	}, [3]string{dayEnds, minuteEnds, suspended}},
	{"requests", "2.28.1", false, func(t *testing.T, dir string) ([]string, string) {
		return []string{debianPython, place(t, dir, "session.py")}, debian(dir, "python3-requests", "2.28.1")
	}, [3]string{dayEnds, minuteEnds, suspended}},
	{"googleapiclient", "1.7.12", false, func(t *testing.T, dir string) ([]string, string) {
		return []string{debianPython, place(t, dir, "googleapi.py"), place(t, dir, "youtube.json")}, debian(dir, "python3-googleapi", "1.7.12")
	}, [3]string{dayEnds, minuteEnds, suspended}},
	{"googleapis", "178.0.0", false, func(t *testing.T, dir string) ([]string, string) {
		return []string{"node", place(t, dir, "googleapis.mjs")}, npm(dir, "googleapis@178.0.0")
	}, [3]string{dayEnds, minuteEnds, suspended}},
	{"google.golang.org/api", "0.250.0", false, func(t *testing.T, dir string) ([]string, string) {
		must(t, os.Rename(place(t, dir, "google.go.txt"), filepath.Join(dir, "fetch.go")))
		write(t, dir, "go.mod", "module fetch\n")
		lacking := lacks(dir, "go", "get", "google.golang.org/api/youtube/v3@v0.250.0")
		return []string{filepath.Join(dir, "fetch")}, lacking + lacks(dir, "go", "build", "-o", "fetch", ".")
	}, [3]string{dayEnds, runWaits, suspended}},
	{"Octokit", "7.0.8", true, func(t *testing.T, dir string) ([]string, string) {
		return []string{"node", place(t, dir, "octokit.mjs")}, npm(dir, "@octokit/core@7.0.8",
			"@octokit/plugin-paginate-rest@16.0.0", "@octokit/plugin-retry@8.1.1", "@octokit/plugin-throttling@11.0.5")
	}, [3]string{dayEnds, minuteEnds, suspended}},
	{"gh", "2.23.0", true, func(t *testing.T, dir string) ([]string, string) {
		return []string{"sh", place(t, dir, "gh.sh")}, debian(dir, "gh", "2.23.0")
	}, [3]string{dayEnds, runWaits, suspended}},
}

const debianPython = "/usr/bin/python3" // whose packages apt installs

// debian looks for a version of a package.
func debian(dir, name, version string) (lacking string) {
	return lacks(dir, "sh", "-c", `dpkg-query -W "$1"; dpkg-query -W -f '${Version}' "$1" | grep -q "^$2-\|^$2+"`, "sh", name, version)
}

func npm(dir string, packages ...string) (lacking string) {
	return lacks(dir, "npm", append([]string{"install", "--no-audit", "--no-fund", "--ignore-scripts"}, packages...)...)
}

// lacks returns what a command says that fails.
func lacks(dir, name string, args ...string) string {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	if output, err := cmd.CombinedOutput(); err != nil {
		return fmt.Sprintf("%s: %v: %s", name, err, output[max(0, len(output)-500):])
	}
	return ""
}

// place copies a file of the clients' into a directory.
func place(t *testing.T, dir, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/clients", name))
	must(t, err)
	write(t, dir, name, string(text))
	return filepath.Join(dir, name)
}

// A scene is what a client meets: a day that ends at the third call of the second region, by our
// count; a minute that ends at the second call of the first, by the upstream's; a key that is
// suspended.
var scenes = []string{"a day", "a minute", "a key"}

// A fakeUpstream answers as YouTube or GitHub does, and counts.
type fakeUpstream struct {
	scene    string
	github   bool
	mu       sync.Mutex // guards received and wrong
	received int
	wrong    []string // requests without the real key
}

const realKey = "the-real-upstream-key"

func (u *fakeUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	u.mu.Lock()
	u.received++
	call := u.received
	if !strings.Contains(r.Header.Get("X-Goog-Api-Key")+r.Header.Get("Authorization"), realKey) || strings.Contains(r.URL.RawQuery, "key=") {
		u.wrong = append(u.wrong, r.URL.String())
	}
	u.mu.Unlock()
	status, body := http.StatusOK, u.page(w, r)
	switch {
	case u.scene == "a key" && u.github:
		status, body = http.StatusUnauthorized, `{"message":"Bad credentials","documentation_url":"https://docs.github.com/rest"}`
	case u.scene == "a key":
		status, body = http.StatusForbidden, `{"error":{"code":403,"message":"Permission denied: Consumer 'api_key:x' has been suspended.","errors":[{"domain":"global","reason":"forbidden"}],
"status":"PERMISSION_DENIED","details":[{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"CONSUMER_SUSPENDED","domain":"googleapis.com"}]}}`
	case u.scene == "a minute" && call == 2 && u.github:
		w.Header().Set("Retry-After", "1")
		status, body = http.StatusForbidden, `{"message":"You have exceeded a secondary rate limit. Please wait a few minutes before you try again."}`
	case u.scene == "a minute" && call == 2:
		w.Header().Set("Retry-After", "1")
		status, body = http.StatusTooManyRequests, `{"error":{"code":429,"message":"Rate limit exceeded.","errors":[{"domain":"global","reason":"rateLimitExceeded"}],"status":"RESOURCE_EXHAUSTED"}}`
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprint(w, body)
}

// page returns one of three pages.
func (u *fakeUpstream) page(w http.ResponseWriter, r *http.Request) string {
	name := "pageToken"
	if u.github {
		name = "page"
	}
	page := 1
	if text := r.URL.Query().Get(name); text != "" {
		page, _ = strconv.Atoi(text)
	}
	switch {
	case u.github && page < 3:
		w.Header().Set("Link", fmt.Sprintf(`<http://%s%s?page=%d>; rel="next"`, r.Host, r.URL.Path, page+1))
		fallthrough
	case u.github:
		return `[{"number":1}]`
	case page < 3:
		return fmt.Sprintf(`{"items":[{"id":"a"}],"nextPageToken":"%d"}`, page+1)
	}
	return `{"items":[{"id":"a"}]}`
}

// The clients, unmodified but for their endpoint: what is granted, booked and received is the same,
// and a refusal is understood. QUOTAD_TEST_CLIENTS=1 asks for it: they come from their registries.
func TestUnawareClients(t *testing.T) {
	if os.Getenv("QUOTAD_TEST_CLIENTS") == "" {
		t.Skip("QUOTAD_TEST_CLIENTS=1 installs clients of YouTube and GitHub, and tries them")
	}
	for _, c := range unawares {
		t.Run(c.name, func(t *testing.T) {
			command, lacking := c.setUp(t, shortDir(t))
			if lacking != "" {
				t.Fatal(lacking)
			}
			for i, scene := range scenes {
				t.Run(scene, func(t *testing.T) { c.meets(t, scene, command, c.want[i]) })
			}
		})
	}
}

// The table of the proxy names the clients that are played, each with its version.
func TestTableOfClients(t *testing.T) {
	_, table, _ := strings.Cut(readPage(t, "PROXY.md"), "| client | version | its endpoint |\n|---|---|---|\n")
	table, _, _ = strings.Cut(table, "\n\n")
	rows := strings.Split(table, "\n")
	if len(rows) != len(unawares) {
		t.Fatalf("the table has %d rows, and %d clients are played", len(rows), len(unawares))
	}
	for i, c := range unawares {
		if cells := strings.Split(rows[i], " | "); !strings.Contains(cells[0], c.name) || cells[1] != c.version {
			t.Errorf("got %q, want %s at %s", rows[i], c.name, c.version)
		}
	}
}

// clientConfig is all that it takes.
const clientConfig = `
[proxy]
listen = "127.0.0.1:0"
[credentials.api]
preset = %q
proxy = { upstream = %q, key_file = "api.key" }
limits.%s.units = %d
[jobs.page]
credential = "api"
regions = ["US", "GB", "DE"]
schedule = "manual"
timeout = "60s"
command = %s
env = { LC_ALL = "C.UTF-8" }
`

func (c *unaware) meets(t *testing.T, scene string, command []string, want string) {
	fake := &fakeUpstream{scene: scene, github: c.github}
	server := httptest.NewServer(fake)
	t.Cleanup(server.Close)
	list, err := json.Marshal(command) // as TOML has it too
	must(t, err)
	preset, limit, units := "youtube-classic", "daily", 1_000
	if c.github {
		preset, limit = "github-rest", "core"
	}
	if scene == "a day" {
		units = 5
	}
	dir := shortDir(t)
	write(t, dir, "api.key", realKey)
	write(t, dir, "config.toml", fmt.Sprintf(clientConfig, preset, server.URL, limit, units, list))
	startIn(t, dir)
	client := clientIn(dir)
	run := exec.Command("quotactl", "--socket", client.Socket, "run", "page", "--wait")
	output, _ := run.CombinedOutput()
	limits, err := client.Usage(t.Context(), "api", api.UsageQuery{})
	must(t, err)
	ended := lastRun(t, client, "page")
	got := fmt.Sprintf("%d: %s; booked %d, received %d", run.ProcessState.ExitCode(), outcomesOf(ended), limits.Total.Limits[limit], fake.received)
	t.Log(got)
	if got != want {
		t.Errorf("got %s, want %s\n%s\n%s", got, want, output, tails(ended))
	}
	if fake.wrong != nil {
		t.Errorf("without the real key, or with another: %q", fake.wrong)
	}
	if regexp.MustCompile(`/[A-Z2-7]{26}/`).MatchString(tails(ended)) {
		t.Errorf("the client shows a run token: %s", tails(ended))
	}
}

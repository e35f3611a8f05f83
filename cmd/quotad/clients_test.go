package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	sample "quotad/cmd/ytfetch/upstream"
)

// A sdk is a client of YouTube as its provider ships it. Set up makes it ready in a
// directory and returns the command of a job, or says why it cannot be had here.
type sdk struct {
	name  string
	setUp func(t *testing.T, dir string) (command []string, lacking string)
	pages int // that it fetches of a region
}

var sdks = []sdk{
	{"curl", func(t *testing.T, dir string) ([]string, string) {
		return []string{"sh", place(t, dir, "fetch.sh")}, lacks(dir, "curl", "--version")
	}, 1},
	{"Python", func(t *testing.T, dir string) ([]string, string) {
		python := cmp.Or(os.Getenv("QUOTAD_TEST_PYTHON"), "/usr/bin/python3") // whose packages apt installs
		return []string{python, place(t, dir, "fetch.py"), place(t, dir, "youtube.json")}, lacks(dir, python, "-c", "import googleapiclient")
	}, 4},
	{"Node", func(t *testing.T, dir string) ([]string, string) {
		return []string{"node", place(t, dir, "fetch.mjs")}, lacks(dir, "npm", "install", "--no-audit", "--no-fund", "@googleapis/youtube@33")
	}, 4},
	{"PHP", func(t *testing.T, dir string) ([]string, string) {
		// Debian has no package of it: composer require google/apiclient, where that is reachable.
		autoload := os.Getenv("QUOTAD_TEST_PHP_AUTOLOAD")
		return []string{"php", place(t, dir, "fetch.php"), autoload},
			lacks(dir, "php", "-r", "if (!is_file($argv[1])) { echo 'QUOTAD_TEST_PHP_AUTOLOAD names no autoload.php of google/apiclient'; exit(1); }", autoload)
	}, 4},
	{"Go", func(t *testing.T, dir string) ([]string, string) {
		if err := os.Rename(place(t, dir, "fetch.go.txt"), filepath.Join(dir, "fetch.go")); err != nil {
			t.Fatal(err)
		}
		write(t, dir, "go.mod", "module fetch\n")
		return []string{filepath.Join(dir, "fetch")}, cmp.Or(lacks(dir, "go", "get", "google.golang.org/api/youtube/v3@v0.250.0"), lacks(dir, "go", "build", "-o", "fetch", "."))
	}, 4},
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
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, name, string(text))
	return filepath.Join(dir, name)
}

// sdkConfig is all that it takes.
const sdkConfig = `
[proxy]
listen = "127.0.0.1:0"
[credentials.youtube]
preset = "youtube-classic"
[credentials.youtube.proxy]
upstream = %q
key_file = "youtube.key"
[credentials.youtube.limits.tight]
units = %d
only = ["videos.list"]
[jobs.page]
credential = "youtube"
regions = ["US", "GB", "DE"]
every = "24h"
stagger = "0s"
run_at_start = true
command = %s
env = { LC_ALL = "C.UTF-8" }
`

// The official clients, unmodified but for their endpoint: what they call is debited, and
// a denial stops them at once, in words of their own. QUOTAD_TEST_CLIENTS=1 asks for it:
// they come from their registries.
func TestOfficialClients(t *testing.T) {
	if os.Getenv("QUOTAD_TEST_CLIENTS") == "" {
		t.Skip("QUOTAD_TEST_CLIENTS=1 installs the clients of YouTube, and tries them")
	}
	for _, s := range sdks {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			dir := shortDir(t)
			command, lacking := s.setUp(t, dir)
			if lacking != "" {
				t.Skip(lacking)
			}
			upstream, err := sample.New(sample.Config{Key: "the-real-key"})
			if err != nil {
				t.Fatal(err)
			}
			server := httptest.NewServer(upstream)
			t.Cleanup(server.Close)
			list, err := json.Marshal(command) // as TOML has it too
			if err != nil {
				t.Fatal(err)
			}
			write(t, dir, "youtube.key", "the-real-key")
			// Two regions and a part of the third can be paid for.
			write(t, dir, "config.toml", fmt.Sprintf(sdkConfig, server.URL, 2*s.pages+s.pages/2, list))
			startIn(t, dir)
			run := lastRun(t, clientIn(dir), "page")
			want := fmt.Sprintf("US ok %d, GB ok %[1]d, DE exhausted %d", s.pages, s.pages/2)
			if got := outcomesOf(run); got != want {
				t.Errorf("got %s, want %s: %s", got, want, tails(run))
			}
			if said := tails(run); !strings.Contains(said, "quotad: no ") || regexp.MustCompile(`/[A-Z2-7]{26}/`).MatchString(said) {
				t.Errorf("the client does not say why it was denied, or shows a run token: %s", said)
			}
			if counts := upstream.Counts(); counts.Units != 2*s.pages+s.pages/2 || counts.Requests != counts.Units {
				t.Errorf("the upstream counts %+v", counts)
			}
		})
	}
}

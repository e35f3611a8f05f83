package config

import (
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// examples are the commented keys of every-key.toml that show a value where none is the
// default. The comments of others that differ from the default name it.
var examples = []string{
	"master_name", "username", "password_file", "tls", "window", "videos.list", "open_units", "env_file", "env", "listen", "user", "key_file", "key_command", "key", "key_parameter", "billing", "dialect", "routes",
	"jobs", "except_jobs", "near_limit", "exhausted", "outage_began", "outage_ended", "job_failing", "preset", "upstream", "reasons", "headers", "limit_closed", "upstream_refuses", "overspent", "counts_differ", "overdue_began", "overdue_ended", "run_started", "run_ended",
	"units", "limits.day", "operations", "callers", "cert_file", "token_file", "credentials",
}

// explainedKeys is a configuration that explains every key.
func explainedKeys(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("testdata/every-key.toml")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A commented value that is no example is the default: to uncomment it changes nothing.
func TestEveryKeyShowsDefaults(t *testing.T) {
	// For the keys of a ledger in Redis; addrs begin the table, and are a default.
	text := strings.Replace(explainedKeys(t), `backend = "embedded"`, `backend = "redis"`, 1)
	text = strings.Replace(text, "# [ledger.redis]", "[ledger.redis]", 1)
	text = strings.Replace(text, "# [credentials.youtube.on_outage]", "[credentials.youtube.on_outage]", 1)
	commented := regexp.MustCompile(`^# "?([a-z_.]+)"? = ([^#]*)(#.*)?$`)
	shown := 0
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		match := commented.FindStringSubmatch(line)
		if match == nil {
			continue
		}
		shown++
		if slices.Contains(examples, match[1]) || strings.Contains(match[3], "default") {
			continue
		}
		t.Run(match[1], func(t *testing.T) {
			was := loadEvery(t, text)
			lines := slices.Clone(lines)
			lines[i] = strings.TrimPrefix(line, "# ")
			if is := loadEvery(t, strings.Join(lines, "\n")); !reflect.DeepEqual(was, is) {
				t.Errorf("%s is not the default", match[2])
			}
		})
	}
	if shown < 30 {
		t.Errorf("found %d commented keys: the test does not know them any more", shown)
	}
}

func loadEvery(t *testing.T, text string) *Config {
	t.Helper()
	dir := t.TempDir()
	program(t, dir, "ytfetch")
	c, err := Load(write(t, dir, "config.toml", text), Host{StateDirectory: "/state", Programs: dir})
	if err != nil {
		t.Fatal(err)
	}
	c.File, c.file, c.document = "", nil, nil
	for _, job := range c.Jobs {
		job.Command = nil // it names a directory of its own
	}
	return c
}

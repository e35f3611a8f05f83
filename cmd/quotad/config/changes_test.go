package config

import (
	"slices"
	"strings"
	"testing"
)

// A reload says how many tables of each kind have changed.
func TestChanged(t *testing.T) {
	dir := t.TempDir()
	for _, row := range []struct{ name, old, new, want string }{
		{"nothing", "", "", "no key changed"},
		{"a comment", `[ledger]`, "# ours\n[ledger]", "no key changed"},
		{"units", `units = 10_000`, `units = 5_000`, "1 limit changed"},
		{"a cost", `"search.list" = 100`, `"search.list" = { daily = 100, search = 1_000 }`, "1 credential changed"},
		{"a limit more", `[credentials.youtube.operations]`, "[credentials.youtube.limits.third]\nunits = 10_000\nwindow = \"1h\"\n[credentials.youtube.operations]", "1 limit changed"},
		{"a job by another name", `[jobs.trending]`, `[jobs.charts]`, "2 jobs changed"},
		{"a job and a limit", "reserve = 500\n", "\n[jobs.more]\ncredential = \"youtube\"\nschedule = \"manual\"\ncommand = [\"fetch\"]\n[credentials.youtube.limits.daily2]\nunits = 5\nonly = [\"videos.list\"]\n", "1 job, 2 limits changed"},
		{"the level of the log", `[ledger]`, "log.level = \"debug\"\n[ledger]", "settings changed"},
	} {
		t.Run(row.name, func(t *testing.T) {
			was, err := load(t, dir, good)
			must(t, err)
			is, err := load(t, dir, strings.Replace(good, row.old, row.new, 1))
			must(t, err)
			if got := was.Changed(is); got != row.want {
				t.Errorf("got %q, want %q", got, row.want)
			}
		})
	}
}

// What a running quotad keeps needs a restart, table by table.
func TestNeedsRestart(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "token", "a-token-of-the-shop-that-is-long-enough\n")
	for added, want := range map[string][]string{
		"":                                   nil,
		"log.level = \"debug\"\n":            nil,
		"access.admin_group = \"root\"\n":    {"access"},
		"passes.drain = \"10s\"\n":           {"passes"},
		"name = \"other\"\nsocket = \"s\"\n": {"name", "socket"},
		"state_dir = \"there\"\n":            {"state_dir"},
		"metrics.listen = \"127.0.0.1:1\"\n": {"metrics"},
		"proxy.listen = \"127.0.0.1:1\"\n":   {"proxy"},
		"ledger.deadline = \"1s\"\n":         {"ledger"},
		"remote.listen = \"127.0.0.1:1\"\nremote.callers.shop = { token_file = \"token\", credentials = [\"youtube\"] }\n": {"remote"},
		"remote.callers.shop = { token_file = \"token\", credentials = [\"youtube\"] }\n":                                  nil,
	} {
		text := good
		if strings.HasPrefix(added, "ledger.") {
			text = strings.Replace(good, "[ledger]\n", "[ledger]\n"+strings.TrimPrefix(added, "ledger."), 1)
		} else {
			text = added + good
		}
		was, err := load(t, dir, good)
		must(t, err)
		is, err := load(t, dir, text)
		must(t, err)
		if got := was.NeedsRestart(is); !slices.Equal(got, want) {
			t.Errorf("%q: got %v, want %v", added, got, want)
		}
	}
}

package config

import (
	"slices"
	"strings"
	"testing"
)

// A reload names what has changed, and what a running quotad keeps needs a restart.
func TestChanges(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "token", "a-token-of-the-shop-that-is-long-enough\n")
	caller := "remote.callers.shop = { token_file = \"token\", credentials = [\"youtube\"] }\n[ledger]"
	was, err := load(t, dir, good)
	must(t, err)
	for _, row := range []struct {
		old, new, want string
		restart        []string
	}{
		{`[ledger]`, "# ours\n[ledger]", "no setting changed", nil},
		{`units = 10_000`, `units = 5_000`, "credentials changed", nil},
		{`"search.list" = 100`, `"search.list" = { daily = 100, search = 1_000 }`, "credentials changed", nil},
		{`[jobs.trending]`, `[jobs.charts]`, "jobs changed", nil},
		{`[credentials.youtube.operations]`, "[credentials.youtube.limits.third]\nunits = 5\nonly = [\"videos.list\"]\n[jobs.more]\ncredential = \"youtube\"\nschedule = \"manual\"\n" +
			"command = [\"fetch\"]\n[credentials.youtube.operations]", "credentials, jobs changed", nil},
		{`[ledger]`, "log.level = \"debug\"\n[ledger]", "log changed", nil},
		{`[ledger]`, caller, "remote changed", nil},
		{`[ledger]`, "clients.public = { units = 60, window = \"1m\" }\n[ledger]", "clients changed", nil},
		{`[ledger]`, "remote.listen = \"127.0.0.1:1\"\n" + caller, "remote changed", []string{"remote"}},
		{`[ledger]`, "name = \"other\"\nsocket = \"s\"\naccess.admin_group = \"root\"\n[ledger]", "access, name, socket changed", []string{"name", "socket", "access"}},
		{`[ledger]`, "[ledger]\ndeadline = \"1s\"", "ledger changed", []string{"ledger"}},
		{`[ledger]`, "state_dir = \"there\"\npasses.drain = \"1s\"\nmetrics.listen = \"127.0.0.1:1\"\nproxy.listen = \"127.0.0.1:1\"\n[ledger]", "metrics, passes, proxy, state_dir changed",
			[]string{"state_dir", "passes", "metrics", "proxy"}},
	} {
		is, err := load(t, dir, strings.Replace(good, row.old, row.new, 1))
		must(t, err)
		if got, restart := was.Changed(is), was.NeedsRestart(is); got != row.want || !slices.Equal(restart, row.restart) {
			t.Errorf("%s: got %q, %q, want %q, %q", row.new, got, restart, row.want, row.restart)
		}
	}
}

package config

import (
	"strings"
	"testing"
)

// What is hardly meant is a warning with its line.
func TestWarnings(t *testing.T) {
	const hungry = "\ncredentials.youtube.limits.daily.units = 100\ncredentials.youtube.operations.list = 1\n[jobs.one]\ncredential = \"youtube\"\nevery = \"1h\"\n" +
		"expects = { list = 60 }\ncommand = [\"fetch\"]\n"
	for _, row := range []struct{ name, text, want string }{
		{"a schedule that does not fit", hungry, `2: warning: credentials.youtube.limits.daily: ` +
			`youtube daily: the schedule does not fit: 1,440 units asked in any 24h, 1,340 more than the 100 for jobs: one 1,440 (24 runs)`},
		{"a log that is kept no longer than a limit counts", "credentials.youtube.keep = \"1d\"" + strings.Replace(hungry, "1h", "1d", 1),
			`1: warning: credentials.youtube.keep: does nothing: a limit counts what was granted for 24h, and the log keeps that: remove it, or write more`},
		{"a log that is kept for longer", "credentials.youtube.keep = \"2d\"" + strings.Replace(hungry, "1h", "1d", 1), ""},
		{"a proxy without an address", strings.Replace(proxied, `listen = "127.0.0.1:9465"`, "", 1),
			`6: warning: credentials.c.proxy: does nothing without an address: add listen = "127.0.0.1:9465" to [proxy]`},
		{"an address without a proxy", proxied[:strings.Index(proxied, "[credentials.c.proxy]")], `2: warning: proxy.listen: no credential is proxied: add [credentials.NAME.proxy]`},
		{"remote callers without an address", strings.Replace(distant, "listen = \":9466\"\ncert_file = \"c.pem\"\nkey_file = \"c.key\"\n", "", 1),
			`17: warning: remote.callers: does nothing without an address: add listen = ":9466" to [remote]`},
		{"an address without remote callers", strings.Replace(distant[:strings.Index(distant, "[remote.callers")], `, "@shop"`, "", 1),
			`17: warning: remote.listen: no caller is configured: add [remote.callers.NAME] with its token_file and credentials`},
	} {
		if got := said(t, oddDir(t), row.text); got != row.want {
			t.Errorf("%s: got\n%s\nwant\n%s", row.name, got, row.want)
		}
	}
}

// A key in the file is a warning with the place where it belongs, which does not hold it.
func TestKeyInTheFile(t *testing.T) {
	const key = "AIzaSyD-of-thirty-nine-characters-in-all"
	for line, want := range map[string]string{
		`command = ["fetch", "https://x.test/?key=` + key + `&a=1"]`:                  "jobs.one.command: holds a key, which ps shows",
		`command = ["fetch", "--token=0123456789abcdef"]`:                             "jobs.one.command: holds a key, which ps shows",
		`command = ["fetch"]` + "\n" + `env = { YOUTUBE = "` + key + `" }`:            "jobs.one.env.YOUTUBE: holds a key",
		`command = ["fetch"]` + "\n" + `env = { API_TOKEN = "0123456789abcdef" }`:     "jobs.one.env.API_TOKEN: holds a key",
		`command = ["fetch"]` + "\n" + `env = { API_TOKEN = "/etc/quotad/the.token"}`: "",
		`command = ["fetch", "--page-token=CAUQAA", "key=$KEY"]`:                      "",
	} {
		got := said(t, t.TempDir(), "[credentials.y]\nlimits.daily.units = 100\noperations.list = 1\n[jobs.one]\ncredential = \"y\"\nevery = \"1h\"\n"+line+"\n")
		if want == "" && got != "" || !strings.Contains(got, want) || strings.Contains(got, key) {
			t.Errorf("%s: got %s", line, got)
		}
	}
}

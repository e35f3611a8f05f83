package config

import (
	"strings"
	"testing"
)

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

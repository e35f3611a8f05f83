package redisledger

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"quotad/quota/redisledger/redistest"
)

// The appends that the page of the decision has by hand get the answers that it shows.
func TestReadmeAppends(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip(err)
	}
	page, err := os.ReadFile("../slidinglog/README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, block, _ := strings.Cut(string(page), "```console\n")
	block, _, _ = strings.Cut(block, "```")
	var commands, want strings.Builder
	for line := range strings.Lines(block) {
		if command, is := strings.CutPrefix(line, "$ "); is {
			commands.WriteString(command)
		} else {
			want.WriteString(line)
		}
	}
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	socket := strings.TrimPrefix(redistest.Start(t).Addr, "unix://")
	script := strings.ReplaceAll(commands.String(), "lua/", root+"/lua/")
	script = strings.Replace(script, "1795728565964-0", "${last}", 1)
	script = "set -e\nredis-cli() { command redis-cli -s " + socket + ` "$@"; }` + "\n" +
		"place() { redis-cli --raw XREVRANGE log + - COUNT 1 | head -1; }\n" +
		strings.Replace(script, "redis-cli DEL log", "last=$(place)\nredis-cli DEL log", 1)
	cmd := exec.Command("bash", "-c", script)
	cmd.Dir = t.TempDir()
	got, err := cmd.CombinedOutput()
	times := regexp.MustCompile(`\b\d{13}\b`)
	masked := func(text string) string { return times.ReplaceAllString(text, "TIME") }
	if err != nil || masked(string(got)) != masked(want.String()) {
		t.Errorf("%v: got\n%s\nthe page has\n%s", err, got, want.String())
	}
}

package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"quotad/cmd/quotad/config/configtest"
)

// shipped returns the path of a copy of config.toml as it was shipped.
func shipped(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.toml")
	must(t, os.WriteFile(path, configtest.Shipped(t, "../.."), 0o600))
	return path
}

// The example that a newcomer runs is a good file, that fits its limits; so is what its comments say can be done instead.
func TestShippedConfig(t *testing.T) {
	for _, row := range []struct {
		name  string
		edits [][2]string // an expression, and what takes the place of what it matches
		want  string      // of quotad --check
	}{
		{"as it is", nil, `is good: `},
		{"a ledger for several hosts", [][2]string{{`(?m)^backend = .*\n# backend`, "backend"}},
			`warning: redis 127\.0\.0\.1:6379: `},
		{"limits since June 2026", [][2]string{{`(?s)\[credentials\.youtube\.limits\.daily\].*?(\[jobs)`, "[credentials.youtube]\npreset = \"youtube-2026-06\"\n$1"}},
			`(?m)^youtube search: the schedule fits: 12 of 100 calls? asked|(?m)^youtube search: the schedule fits: .* of 100 units asked each day`},
		{"from YouTube", [][2]string{{`"--sample"\]  # from YouTube: without --sample, with (env_file = ".*")`, "]\n$1"}, {`, \]`, "]"}},
			`is good: `},
	} {
		t.Run(row.name, func(t *testing.T) {
			file := shipped(t)
			text, err := os.ReadFile(file)
			must(t, err)
			for _, edit := range row.edits {
				expression := regexp.MustCompile(edit[0])
				if n := len(expression.FindAll(text, -1)); n != 1 {
					t.Fatalf("%q is there %d times", edit[0], n)
				}
				text = expression.ReplaceAll(text, []byte(edit[1]))
			}
			env := filepath.Join(filepath.Dir(file), "youtube.env")
			must(t, errors.Join(os.WriteFile(file, text, 0o600), os.WriteFile(env, []byte("YOUTUBE_API_KEY=a-key\n"), 0o600)))
			var output bytes.Buffer
			code := run([]string{"--check", "--config", file}, &output, &output)
			warned := regexp.MustCompile("warning: [^r]").Match(output.Bytes()) // but for a Redis that is not there
			if code != exitOK || warned || !regexp.MustCompile(row.want).Match(output.Bytes()) {
				t.Errorf("quotad --check: %d, want %q\n%s\nof\n%s", code, row.want, output.String(), text)
			}
		})
	}
}

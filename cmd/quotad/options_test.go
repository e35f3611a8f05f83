package main

import (
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, args string
		want       int
	}{
		{"help", "--help", exitOK},
		{"version", "--version", exitOK},
		{"the manual page", "--man", exitOK},
		{"the reference", "--reference", exitOK},
		{"the reference as a manual page", "--reference=man", exitOK},
		{"the reference in another form", "--reference=html", exitUsage},
		{"the names of presets", "--presets", exitOK},
		{"a preset", "--presets youtube-2026-06", exitOK},
		{"a preset that is misspelt", "--presets youtube-2026-60", exitUsage},
		{"two presets", "--presets omdb openalex", exitUsage},
		{"a good file", "--check --config CONFIG", exitOK},
		{"no such file", "--check --config missing.toml", exitConfig},
		{"not TOML", "--check --config main.go", exitConfig},
		{"a start without a file", "--config missing.toml", exitConfig},
		{"unknown flag", "--chek", exitUsage},
		{"a flag without its value", "--config", exitUsage},
		{"an argument", "--check config.toml", exitUsage},
		{"a good file, strictly", "--check --strict --config CONFIG", exitOK},
		{"strict, but about what", "--strict", exitUsage},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var output strings.Builder
			args := strings.Fields(test.args)
			if last := len(args) - 1; args[last] == "CONFIG" {
				args[last] = shipped(t) // its path may have blanks
			}
			if got := run(args, &output, &output); got != test.want {
				t.Errorf("exit code %d, want %d:\n%s", got, test.want, output.String())
			}
		})
	}
}

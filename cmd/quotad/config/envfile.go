package config

import (
	"fmt"
	"strings"
)

// An envFile holds variables, most of them secret.
type envFile contents

func (f *envFile) decode(n node) { (*contents)(f).openSecret(n, "the job's secrets") }

// envFile reads the file that env_file names: NAME=value on each line, blank
// lines and comments aside. What it holds may be secret: errors name its lines,
// never what stands there.
func (t *jobTable) envFile() map[string]string {
	env := map[string]string{}

	for i, line := range strings.Split(t.EnvFile.text, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, err := parseVariable(line)
		if err != nil {
			t.fail("env_file", "%s:%d: %v", t.EnvFile.path, i+1, err)
			continue
		}
		env[name] = value
	}
	return env
}

// parseVariable reads NAME=value; quotes around the whole value are dropped.
func parseVariable(line string) (name, value string, err error) {
	name, value, found := strings.Cut(line, "=")
	if !found || !isVariable(name) {
		return "", "", fmt.Errorf("not a variable: write NAME=value, NAME of letters, digits and '_'")
	}
	if n := len(value); n > 1 && value[0] == value[n-1] && (value[0] == '"' || value[0] == '\'') {
		value = value[1 : n-1]
	}
	return name, value, nil
}

func isVariable(name string) bool {
	for i, r := range name {
		letter := r == '_' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z'
		if !letter && (i == 0 || r < '0' || r > '9') {
			return false
		}
	}
	return name != ""
}

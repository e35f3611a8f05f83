package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"quotad/regions"
)

// daemonName returns the name by which this daemon is known among those that
// share a ledger. It is made up once and kept in a file.
func daemonName(file string) (string, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		name := strings.ToLower(rand.Text())
		return name, regions.WriteFile(file, []byte(name+"\n"))
	}
	if err != nil {
		return "", fmt.Errorf("cannot read this daemon's name: %w", err)
	}
	return strings.TrimSpace(string(text)), nil
}

// hostName is what this host is called among others, for people; empty if it has
// no name.
func hostName() string {
	name, err := os.Hostname()
	if err != nil {
		return ""
	}
	return name
}

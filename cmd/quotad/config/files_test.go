package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is no regular file could keep a start or a reload waiting for ever.
func TestConfigurationIsARegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for file, want := range map[string]string{
		pipe: "is a named pipe: name a regular file", dir: "is a directory: name a regular file", "/dev/zero": "is a device: name a regular file",
		write(t, dir, "large", strings.Repeat("#", longestFile+1)): "has more than 1048576 bytes: name a smaller file",
	} {
		if _, err := Load(file, Host{}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want an error that ends with %q", file, err, want)
		}
	}
}

// The decoder would take gigabytes for these.
func TestDeepFilesAreRefused(t *testing.T) {
	const size = 200_000
	for _, text := range []string{"[", "{a=", "a.", "'a'.", "a .\t", `"]".`, `["]",`} {
		dir := t.TempDir()
		_, err := load(t, dir, "\nx = 1\ny."+strings.Repeat(text, size/len(text)))
		var wrong Errors
		if !errors.As(err, &wrong) || wrong[0].Line != 3 || !strings.Contains(wrong[0].Message, "more than 32 deep") {
			t.Errorf("%q: got %.200v", text, err)
		}
	}
}

// Who may write the configuration says what quotad runs.
func TestWarningOfAWritableConfiguration(t *testing.T) {
	dir := t.TempDir()
	c, err := load(t, dir, good)
	if err != nil || len(c.Warnings()) > 0 {
		t.Fatalf("got %v, %v", err, c.Warnings())
	}
	if err := os.Chmod(c.File, 0o666); err != nil {
		t.Fatal(err)
	}
	c, err = Load(c.File, Host{StateDirectory: "/state", Programs: dir})
	if err != nil {
		t.Fatal(err)
	}
	want := c.File + ":1: warning: everybody on this host may write this file, and so say what quotad runs: chmod o-w " + c.File
	if got := c.Warnings(); len(got) != 1 || got[0].Warning() != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// A value of an env_file is kept out of logs, unless it is so short that it would be
// found in other words.
func TestSecretsOfAJob(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "youtube.env", "KEY=\"hunter2hunter2\"\nLEVEL=debug\n")
	c, err := load(t, dir, strings.Replace(good, `timeout = "2m"`, `env_file = "youtube.env"`+"\nenv = { URL = \"https://example.org\" }", 1))
	if err != nil {
		t.Fatal(err)
	}
	if got := c.Jobs[0].Secrets; len(got) != 1 || got[0] != "hunter2hunter2" {
		t.Errorf("got %q", got)
	}
}

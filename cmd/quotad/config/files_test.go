package config

import (
	"errors"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
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
		write(t, dir, "large", strings.Repeat("#", maxFile+1)): "has more than 1048576 bytes: name a smaller file",
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

const proxiedBy = good + `
[credentials.youtube.proxy]
upstream = "https://www.googleapis.com"
key_file = %q
routes = {}
`

// What systemd brings with LoadCredential= is not there while the service does not run:
// that is no error of a file that is only checked.
func TestCheckingWithoutTheService(t *testing.T) {
	dir := t.TempDir()
	program(t, dir, "fetch")
	file := write(t, dir, "config.toml", fmt.Sprintf(proxiedBy, "/run/credentials/no.service/key"))
	host := Host{StateDirectory: "/state", Programs: dir}
	if _, err := Load(file, host); err == nil || !strings.Contains(err.Error(), "cannot be read") {
		t.Errorf("at a start: %v", err)
	}
	host.Checking = true
	c, err := Load(file, host)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(c.Warnings()); !strings.Contains(got, "LoadCredential=key:") {
		t.Errorf("got the warnings %s", got)
	}
}

// A key that root has closed to quotad's user is an error with its cure, also for root who
// checks the file.
func TestKeyOfRootAlone(t *testing.T) {
	reader, err := user.Lookup("nobody")
	if os.Getuid() != 0 || err != nil {
		t.Skip("only root can have a file that another user cannot read")
	}
	dir := t.TempDir()
	program(t, dir, "fetch")
	key := write(t, dir, "key", "the-key-of-sixteen\n")
	file := write(t, dir, "config.toml", fmt.Sprintf(proxiedBy, key))
	if err := os.Chmod(file, 0o644); err != nil {
		t.Fatal(err)
	}
	host := Host{StateDirectory: "/state", Programs: dir, Checking: true}
	if _, err := Load(file, host); err != nil {
		t.Fatal(err)
	}
	host.Reader = reader
	if _, err := Load(file, host); err == nil || !strings.Contains(err.Error(), key+" is not for user nobody to read: let quotad's group read it, as root: chgrp ") {
		t.Errorf("got %v", err)
	}
	gid, _ := strconv.Atoi(reader.Gid)
	if err := errors.Join(os.Chown(key, 0, gid), os.Chmod(key, 0o640)); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(file, host); err != nil {
		t.Errorf("with the cure: %v", err)
	}
}

// The configuration itself must be one that the daemon's user can read, whoever checks it.
func TestConfigurationOfAnotherUser(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(file, []byte("[credentials.a]\nlimits.day.units = 1\noperations.list = 1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	daemon := &user.User{Username: "quotad", Uid: "4242", Gid: strconv.Itoa(os.Getgid())}
	want := "cannot read configuration: " + file + " is not for user quotad to read"
	if _, err := Load(file, Host{Checking: true, Reader: daemon}); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "chgrp ") {
		t.Errorf("got %v, want %s, and the cure", err, want)
	}
	daemon.Uid = strconv.Itoa(os.Getuid())
	if _, err := Load(file, Host{Checking: true, Reader: daemon}); err != nil {
		t.Errorf("of its own: %v", err)
	}
}

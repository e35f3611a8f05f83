package config

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"quotad/jobs/process"
)

// What is no regular file could keep a start or a reload waiting for ever.
func TestConfigurationIsARegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	must(t, syscall.Mkfifo(pipe, 0o600))
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
	must(t, os.Chmod(c.File, 0o666))
	c, err = Load(c.File, Host{StateDirectory: "/state", Programs: dir})
	must(t, err)
	want := c.File + ":1: warning: everybody on this host may write this file, and so say what quotad runs: chmod o-w " + c.File
	if got := c.Warnings(); len(got) != 1 || got[0].Warning() != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// A value of an env_file is kept out of logs, unless it is so short that it would be
// found in other words.
func TestSecretsOfAJob(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "youtube.env", "KEY=\"hunter2hunter2\"\nPIN=87654321\nLEVEL=verbose\n") // of eight bytes, and of seven
	c, err := load(t, dir, strings.Replace(good, `timeout = "2m"`, `env_file = "youtube.env"`+"\nenv = { URL = \"https://example.org\" }", 1))
	must(t, err)
	if got, want := c.Jobs[0].Secrets, []string{"87654321", "hunter2hunter2"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
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
	must(t, err)
	if got := fmt.Sprint(c.Warnings()); !strings.Contains(got, "LoadCredential=key:") {
		t.Errorf("got the warnings %s", got)
	}
}

// A pair that is renewed while quotad runs is held to what the start holds it to.
func TestARenewedKey(t *testing.T) {
	dir := t.TempDir()
	key := write(t, dir, "a.key", writeCertificates(t, dir, "a.pem"))
	if _, err := LoadPair(dir+"/a.pem", key); err != nil {
		t.Fatal(err)
	}
	must(t, os.Chmod(key, 0o644))
	want := "everybody on this host may read " + key + ", and with it the key of the certificate: chmod o-r " + key
	if _, err := LoadPair(dir+"/a.pem", key); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// openDir returns a directory that every user may enter, and the user nobody.
func openDir(t *testing.T) (dir string, nobody *process.User) {
	t.Helper()
	nobody, err := process.LookupUser("nobody")
	if os.Getuid() != 0 || err != nil {
		t.Skip("only root can have a file that another user cannot read")
	}
	dir = t.TempDir()
	for at := dir; at != "/tmp" && at != "/"; at = filepath.Dir(at) {
		must(t, os.Chmod(at, 0o755))
	}
	return dir, nobody
}

// A key that root has closed to quotad's user is an error with its cure, also for root who
// checks the file.
func TestKeyOfRootAlone(t *testing.T) {
	dir, reader := openDir(t)
	program(t, dir, "fetch")
	key := write(t, dir, "key", "the-key-of-sixteen\n")
	file := write(t, dir, "config.toml", fmt.Sprintf(proxiedBy, key))
	must(t, os.Chmod(file, 0o644))
	host := Host{StateDirectory: "/state", Programs: dir, Checking: true}
	if _, err := Load(file, host); err != nil {
		t.Fatal(err)
	}
	host.Reader = reader
	if _, err := Load(file, host); err == nil || !strings.Contains(err.Error(), key+" is not for user nobody to read: let quotad's group read it, as root: chgrp ") {
		t.Errorf("got %v", err)
	}
	must(t, errors.Join(os.Chown(key, 0, reader.GID), os.Chmod(key, 0o640)))
	if _, err := Load(file, host); err != nil {
		t.Errorf("with the cure: %v", err)
	}
	closed := filepath.Join(dir, "closed")
	must(t, errors.Join(os.Mkdir(closed, 0o700), os.Rename(key, closed+"/key")))
	write(t, dir, "config.toml", fmt.Sprintf(proxiedBy, closed+"/key"))
	want := "/key is not for user nobody to read, who cannot enter " + closed + ": move it beside the configuration"
	if _, err := Load(file, host); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("in a directory of root alone: got %v", err)
	}
}

// The configuration itself must be one that the daemon's user can read, whoever checks it.
func TestConfigurationOfAnotherUser(t *testing.T) {
	dir, daemon := openDir(t)
	file := write(t, dir, "config.toml", "[credentials.a]\nlimits.day.units = 1\noperations.list = 1\n")
	must(t, os.Chmod(file, 0o600))
	want := "cannot read configuration: " + file + " is not for user nobody to read"
	if _, err := Load(file, Host{Checking: true, Reader: daemon}); err == nil || !strings.HasPrefix(err.Error(), want) || !strings.Contains(err.Error(), "chgrp ") {
		t.Errorf("got %v, want %s, and the cure", err, want)
	}
	must(t, os.Chown(file, daemon.UID, -1))
	if _, err := Load(file, Host{Checking: true, Reader: daemon}); err != nil {
		t.Errorf("of its own: %v", err)
	}
}

// What quotad's user, or that of jobs, cannot execute or enter is said with the directory that is closed and the cure,
// which user reads the file: of quotad itself it is an error, and of jobs a warning.
func TestCommandsOfAnotherUser(t *testing.T) {
	dir, nobody := openDir(t)
	program(t, dir, "fetch")
	script := write(t, dir, "script", "#!/no/such/php\n")
	must(t, errors.Join(os.Mkdir(dir+"/closed", 0o700), os.Mkdir(dir+"/closed/deep", 0o700), os.Chmod(script, 0o755)))
	program(t, dir, "closed/fetch")
	const base = "[credentials.a]\nlimits.day.units = 1\noperations.list = 1\n[jobs.a]\ncredential = \"a\"\nschedule = \"manual\"\n"
	const byNobody = "[passes]\nuser = \"nobody\"\n"
	for _, row := range []struct {
		text   string
		reader *process.User
		user   string // of passes, by the unit
		warn   string
		err    string
	}{
		{base + "command = [\"./fetch\"]\n" + byNobody, nil, "", "", ""},
		{base + "command = [\"./closed/fetch\"]\n" + byNobody, nil, "",
			":7: warning: jobs.a.command: " + dir + "/closed/fetch cannot run: user nobody cannot enter " + dir + "/closed: move the program to where it can, such as /usr/local/bin", ""},
		{base + "command = [\"./fetch\"]\ndir = \"closed\"\n" + byNobody, nil, "", ":8: warning: jobs.a.dir: user nobody cannot enter " + dir + "/closed: no pass can begin", ""},
		{base + "command = [\"./script\"]\n", nil, "", `its first line names the interpreter "/no/such/php", which does not exist`, ""},
		{base + "command = [\"./fetch\"]\n[on_event]\nexhausted = [\"./script\"]\n", nil, "", ":9: warning: on_event.exhausted: " + script + " cannot run: its first line", ""},
		{base + "command = [\"./closed/fetch\"]\n", nobody, "", "", `7: jobs.a.command: cannot use command "./closed/fetch": user nobody cannot enter ` + dir + "/closed"},
		{base + "command = [\"./fetch\"]\ndir = \"closed/deep\"\n", nobody, "", "", "8: jobs.a.dir: user nobody cannot enter " + dir + "/closed: name a directory that it can"},
		{base + "command = [\"./fetch\"]\n" + byNobody, nobody, "daemon", "", "passes of quotad's own user would have its capabilities"},
	} {
		file := write(t, dir, "config.toml", row.text)
		must(t, os.Chmod(file, 0o644))
		c, err := Load(file, Host{StateDirectory: "/tmp/state", Programs: dir, Checking: true, Reader: row.reader, PassesUser: row.user})
		if err != nil || row.err != "" {
			if err == nil || row.err == "" || !strings.Contains(err.Error(), row.err) {
				t.Errorf("%s\ngot the error %v, want %q", row.text, err, row.err)
			}
			continue
		}
		got := ""
		for _, one := range c.Warnings() {
			got += one.Warning() + "\n"
		}
		if row.warn == "" && got != "" || !strings.Contains(got, row.warn) {
			t.Errorf("%s\ngot the warnings %q, want %q", row.text, got, row.warn)
		}
	}
}

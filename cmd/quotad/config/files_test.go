package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
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

// writeCertificates writes two certificates of one key, and returns the key.
func writeCertificates(t *testing.T, dir string, names ...string) (key string) {
	t.Helper()
	secret, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(t, err)
	for i, name := range names {
		template := &x509.Certificate{SerialNumber: big.NewInt(int64(i + 1)), Subject: pkix.Name{CommonName: name}}
		certificate, err := x509.CreateCertificate(rand.Reader, template, template, secret.Public(), secret)
		must(t, err)
		write(t, dir, name, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})))
	}
	der, err := x509.MarshalPKCS8PrivateKey(secret)
	must(t, err)
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

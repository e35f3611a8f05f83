package config

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
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
	must(t, syscall.Mkfifo(pipe, 0o600))
	for file, want := range map[string]string{
		pipe: "is no regular file", dir: "is no regular file", dir + "/none": "no such file or directory",
		write(t, dir, "large", strings.Repeat("#", maxFile+1)): "has more than 1048576 bytes: name a smaller file",
	} {
		if _, err := Load(file, Host{}); err == nil || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: got %v, want an error that ends with %q", file, err, want)
		}
	}
}

// Who may write the configuration says what quotad runs.
func TestWarningOfAWritableConfiguration(t *testing.T) {
	dir := t.TempDir()
	c, err := load(t, dir, good)
	must(t, err)
	must(t, os.Chmod(c.File, 0o666))
	c, err = Load(c.File, Host{StateDirectory: "/state", Programs: dir})
	must(t, err)
	want := c.File + ":1: warning: everybody on this host may write this file, and so say what quotad runs: chmod o-w " + c.File
	if got := c.Warnings(); len(got) != 1 || got[0].Warning() != want {
		t.Errorf("got %v, want %s", got, want)
	}
}

// What systemd brings with LoadCredential= is not there while the service does not run:
// that is no error of a file that is only checked.
func TestCheckingWithoutTheService(t *testing.T) {
	dir := t.TempDir()
	program(t, dir, "fetch")
	file := write(t, dir, "config.toml", strings.Replace(proxied, "a.key", "/run/credentials/no.service/key", 1))
	for checking, want := range map[bool]string{false: "cannot be read", true: "LoadCredential=key:"} {
		c, err := Load(file, Host{StateDirectory: "/state", Programs: dir, Checking: checking})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = c.Warnings().Error()
		}
		if (err == nil) != checking || !strings.Contains(got, want) {
			t.Errorf("checking %v: got %s", checking, got)
		}
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

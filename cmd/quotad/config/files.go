package config

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"quotad/jobs/process"
)

// Contents are the path and the text of a file that a key names.
type contents struct {
	path string // absolute; empty: the key is absent
	text string
	read bool
}

// decode reads the file. Others must not be able to read one whose field has the tag secret.
func (c *contents) decode(n node) {
	name, ok := as[string](n, "a path in quotes")
	if ok && name == "" {
		n.fail("must not be empty")
	}
	if name == "" {
		return
	}
	c.path = n.document.absolute(name)
	file, err := readFile(c.path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && n.document.host.Checking && strings.HasPrefix(c.path, serviceCredentials):
		n.warn("is there only while the service runs: LoadCredential=%s:… of its unit brings it", filepath.Base(c.path))
		return
	case errors.Is(err, fs.ErrPermission):
		n.fail("cannot be read: %v: let user %s read it: chgrp %[2]s %[3]s && chmod 640 %[3]s",
			err, process.NameOf(os.Geteuid()), c.path)
		return
	case err != nil:
		n.fail("cannot be read: %v", err)
		return
	}
	if file.writable {
		n.warn("everybody on this host may write %s: chmod o-w %s", c.path, c.path)
	}
	if secret := n.tag.Get("secret"); secret != "" && file.readable {
		n.fail("everybody on this host may read %s, and with it %s: chmod o-r %s", c.path, secret, c.path)
		return
	}
	c.text, c.read = file.text, true
}

// serviceCredentials is where systemd keeps what LoadCredential= brings, see systemd.exec(5).
const serviceCredentials = "/run/credentials/"

// maxFile is the maximum size of a configuration file, and of each file that it names.
const maxFile = 1 << 20

// A fileText is the text of a file, and what every user of this host may do with it.
type fileText struct {
	text               string
	readable, writable bool
}

// readFile reads a regular file. Reading another one, such as a pipe, could block
// for ever.
func readFile(path string) (fileText, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return fileText{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fileText{}, err
	}
	if !info.Mode().IsRegular() {
		return fileText{}, fmt.Errorf("%s is no regular file", path)
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return fileText{}, err
	}
	if len(text) > maxFile {
		return fileText{}, fmt.Errorf("%s has more than %d bytes: name a smaller file", path, maxFile)
	}
	return fileText{text: string(text), readable: info.Mode()&0o004 != 0, writable: info.Mode()&0o002 != 0}, nil
}

// pair reads the certificate of a table and its key, which it requires with each other; nil: it has none.
func (t *table) pair(certFile, keyFile string) *tls.Certificate {
	if !t.has("cert_file") && !t.has("key_file") {
		return nil
	}
	t.require("cert_file", `"…", the certificate of key_file`)
	t.require("key_file", `"…", the key of cert_file`)
	if certFile == "" || keyFile == "" {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(certFile, keyFile)
	switch {
	case errors.Is(err, fs.ErrNotExist) && t.document.host.Checking: // the service brings it
		return nil
	case err != nil:
		t.fail("cert_file", "cannot be used with key_file: %v", err)
		return nil
	}
	return &pair
}

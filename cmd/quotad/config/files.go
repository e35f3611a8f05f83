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
		n.fail("cannot be read: %v: let user %s read it", err, process.NameOf(os.Geteuid()))
		return
	case err != nil:
		n.fail("cannot be read: %v", err)
		return
	}
	if file.writable {
		n.warn("everybody on this host may write %s: chmod o-w %s", c.path, c.path)
	}
	if err := file.exposes(n.tag.Get("secret")); err != nil {
		n.fail("%v", err)
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
	path, text         string
	readable, writable bool
}

// exposes refuses a file with a secret that every user of this host may read; "": it has none.
func (f fileText) exposes(secret string) error {
	if secret == "" || !f.readable {
		return nil
	}
	return fmt.Errorf("everybody on this host may read %s, and with it %s: chmod o-r %s", f.path, secret, f.path)
}

// LoadPair reads a certificate and its key again, as the start read them: it refuses a key that every
// user of this host may read.
func LoadPair(certFile, keyFile string) (pair tls.Certificate, err error) {
	cert, err := readFile(certFile)
	if err != nil {
		return pair, err
	}
	key, err := readFile(keyFile)
	if err == nil {
		err = key.exposes("the key of the certificate")
	}
	if err != nil {
		return pair, err
	}
	return tls.X509KeyPair([]byte(cert.text), []byte(key.text))
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
		return fileText{}, fmt.Errorf("%s is %s: name a regular file", path, kindOf(info.Mode()))
	}
	text, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return fileText{}, err
	}
	if len(text) > maxFile {
		return fileText{}, fmt.Errorf("%s has more than %d bytes: name a smaller file", path, maxFile)
	}
	return fileText{path: path, text: string(text), readable: info.Mode()&0o004 != 0, writable: info.Mode()&0o002 != 0}, nil
}

func kindOf(mode fs.FileMode) string {
	switch {
	case mode.IsDir():
		return "a directory"
	case mode&fs.ModeNamedPipe != 0:
		return "a named pipe"
	default:
		return "a device"
	}
}

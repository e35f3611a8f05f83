package main

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"quotad/quota/api"
)

// A certificate is the one that remote callers see. It is read again when its files change, as
// often as somebody asks for it, and at most once a second. Of files that cannot be used the one
// before stays.
type certificate struct {
	certFile, keyFile string
	log               zerolog.Logger

	mu     sync.Mutex // guards what follows, held while the files are read
	pair   *tls.Certificate
	marks  [2]fileMark // of the files as they were read last
	looked time.Time
	err    error // why pair is not what the files hold; nil: it is
}

// A fileMark is another one when a file has been changed or replaced.
type fileMark struct {
	inode   uint64
	changed syscall.Timespec
}

func markOf(path string) (mark fileMark) {
	info, err := os.Stat(path)
	if err != nil {
		return mark
	}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		mark = fileMark{stat.Ino, stat.Ctim}
	}
	return mark
}

func openCertificate(certFile, keyFile string, log zerolog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	c.look(time.Now())
	if c.pair == nil {
		return nil, fmt.Errorf("cannot serve remote callers: %w", c.err)
	}
	return c, nil
}

// lookEvery bounds how often the files are looked for changes.
const lookEvery = time.Second

// look reads the files, if they are not as they were. The caller holds mu, or has c to itself.
func (c *certificate) look(now time.Time) {
	marks := [2]fileMark{markOf(c.certFile), markOf(c.keyFile)}
	c.looked = now
	if marks == c.marks && c.pair != nil {
		return
	}
	c.marks = marks
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if c.err = err; err != nil {
		if c.pair != nil {
			c.log.Error().Str("cert_file", c.certFile).Err(err).Time("until", c.pair.Leaf.NotAfter).Msg("cannot use the new certificate: the one before stays")
		}
		return
	}
	if c.pair != nil {
		c.log.Info().Str("cert_file", c.certFile).Time("until", pair.Leaf.NotAfter).Msg("certificate replaced")
	}
	c.pair = &pair
}

func (c *certificate) current() (pair *tls.Certificate, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.looked) >= lookEvery {
		c.look(now)
	}
	return c.pair, c.err
}

// tls is what the door speaks; nil without a certificate.
func (c *certificate) tls() *tls.Config {
	if c == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		pair, _ := c.current()
		return pair, nil
	}}
}

func (c *certificate) state() *api.Certificate {
	pair, err := c.current()
	state := &api.Certificate{NotBefore: pair.Leaf.NotBefore.UTC(), NotAfter: pair.Leaf.NotAfter.UTC(), Names: pair.Leaf.DNSNames}
	for _, address := range pair.Leaf.IPAddresses {
		state.Names = append(state.Names, address.String())
	}
	if err != nil {
		state.Error = err.Error()
	}
	return state
}

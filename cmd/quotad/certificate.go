package main

import (
	"crypto/tls"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"quotad/quota/api"
)

// A certificate is the one for remote callers. Each use reads its files again if they
// have changed, at most once a second. If the new files cannot be used, the former certificate
// stays.
type certificate struct {
	certFile, keyFile string
	log               zerolog.Logger

	mu      sync.Mutex // guards what follows, held while the files are read
	pair    *tls.Certificate
	marks   [2]fileMark // of the files as they were read last
	checked time.Time
	err     error // why pair differs from the files; nil: it does not
}

// A fileMark changes when a file is changed or replaced.
type fileMark struct {
	inode   uint64
	changed syscall.Timespec
}

func markOf(path string) fileMark {
	var stat syscall.Stat_t
	_ = syscall.Stat(path, &stat) // the mark of a missing file is zero
	return fileMark{stat.Ino, stat.Ctim}
}

func openCertificate(certFile, keyFile string, log zerolog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	c.refresh(time.Now())
	if c.pair == nil {
		return nil, fmt.Errorf("cannot serve remote callers: %w", c.err)
	}
	return c, nil
}

// checkEvery bounds how often the files are checked for changes.
const checkEvery = time.Second

// refresh reads the files if they have changed. The caller holds mu, or has c to itself.
func (c *certificate) refresh(now time.Time) {
	marks := [2]fileMark{markOf(c.certFile), markOf(c.keyFile)}
	c.checked = now
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
	if now := time.Now(); now.Sub(c.checked) >= checkEvery {
		c.refresh(now)
	}
	return c.pair, c.err
}

// tls returns the TLS of the door; nil without a certificate.
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

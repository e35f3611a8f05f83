package main

import (
	"crypto/tls"
	"fmt"
	stdlog "log"
	"net"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"quotad/quota/server"
)

// openRemote begins to answer callers on other hosts: the same API, with a token.
func (d *daemon) openRemote() error {
	c := d.config.Remote
	if c.Listen == "" {
		return nil
	}
	var secured *tls.Config
	if c.CertFile != "" {
		one := &certificate{certFile: c.CertFile, keyFile: c.KeyFile, log: d.log}
		if _, err := one.current(nil); err != nil {
			return fmt.Errorf("cannot serve remote callers: %w", err)
		}
		secured = &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: one.current}
	}
	l, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return fmt.Errorf("cannot serve remote callers: %w", err)
	}
	d.serve("answering remote callers", server.NewFrontend(server.FrontendConfig{
		Handler: d.api.Remote(&d.remote), TLS: secured, ErrorLog: stdlog.New(complaints{d.log}, "", 0),
	}), l)
	d.log.Info().Stringer("address", l.Addr()).Bool("tls", secured != nil).Int("callers", len(d.config.Callers)).Msg("serving remote callers")
	return nil
}

// A certificate is the one for remote callers. A handshake reads its files again, at most once a second. If
// the new files cannot be used, the former certificate stays.
type certificate struct {
	certFile, keyFile string
	log               zerolog.Logger

	mu     sync.Mutex // guards what follows, held while the files are read
	pair   *tls.Certificate
	readAt time.Time
	failed string // why the files could not be used last; empty: they could
}

// current returns the certificate to present.
func (c *certificate) current(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.readAt) < time.Second {
		return c.pair, nil
	}
	c.readAt = time.Now()
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	switch {
	case err == nil:
		if c.pair != nil && !c.pair.Leaf.Equal(pair.Leaf) {
			c.log.Info().Str("cert_file", c.certFile).Time("until", pair.Leaf.NotAfter).Msg("certificate replaced")
		}
		c.pair, c.failed = &pair, ""
	case c.pair == nil:
		return nil, err
	case c.failed != err.Error():
		c.failed = err.Error()
		c.log.Error().Str("cert_file", c.certFile).Err(err).Time("until", c.pair.Leaf.NotAfter).Msg("cannot use the new certificate: the one before stays")
	}
	return c.pair, nil
}

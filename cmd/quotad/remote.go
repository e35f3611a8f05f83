package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	stdlog "log"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"

	"quotad/cmd/quotad/config"
	"quotad/quota/api"
	"quotad/quota/server"
)

// A remote serves callers on other hosts: the same API, with a token.
type remote struct {
	*server.Remote
	listener    net.Listener // nil: [remote] has no listen
	frontend    *server.Frontend
	certificate *certificate  // nil: a proxy in front has one
	handshakes  atomic.Uint64 // that failed
}

// openRemote begins to answer callers on other hosts.
func (d *daemon) openRemote() (err error) {
	c, r := d.config.Remote, d.remote
	if c.Listen == "" {
		return nil
	}
	if c.CertFile != "" {
		if r.certificate, err = openCertificate(c.CertFile, c.KeyFile, d.log); err != nil {
			return err
		}
	}
	if r.listener, err = net.Listen("tcp", c.Listen); err != nil {
		return fmt.Errorf("cannot serve remote callers: %w", err)
	}
	r.frontend = server.NewFrontend(server.FrontendConfig{
		Remote: r.Remote, TLS: r.certificate.tls(),
		Connections: d.config.Access.Connections, ConnectionsPerUser: d.config.Access.ConnectionsPerUser,
		ErrorLog: stdlog.New(handshakes{complaints{d.log}, &r.handshakes}, "", 0),
	})
	r.frontend.PassTo(d.api)
	d.serveUntilStop("stop answering remote callers", func() error { return r.frontend.Serve(r.listener) }, r.frontend.Shutdown)
	d.log.Info().Stringer("address", r.listener.Addr()).Bool("tls", r.certificate != nil).Int("callers", len(c.Callers)).Msg("serving remote callers")
	return nil
}

// state returns what operators can read about the remote callers.
func (r *remote) state() api.Remote {
	state := r.State()
	if r.listener == nil {
		return state
	}
	connections := r.frontend.Connections()
	state.Address, state.Connections, state.TurnedAway = r.listener.Addr().String(), connections.Open, connections.Refused
	state.Handshakes = r.handshakes.Load()
	if r.certificate != nil {
		state.Certificate = r.certificate.state()
	}
	return state
}

// Handshakes counts the connections that failed before TLS, of which a public listener has
// many, and logs other complaints.
type handshakes struct {
	complaints
	failed *atomic.Uint64
}

// Write counts or logs one message.
func (h handshakes) Write(message []byte) (int, error) {
	if !bytes.Contains(message, []byte("TLS handshake error")) {
		return h.complaints.Write(message)
	}
	h.failed.Add(1)
	h.log.Debug().Msg(string(bytes.TrimSpace(message)))
	return len(message), nil
}

// A certificate is the one for remote callers. A use reads its files again, at most once a second. If
// the new files cannot be used, the former certificate stays.
type certificate struct {
	certFile, keyFile string
	log               zerolog.Logger

	mu     sync.Mutex // guards what follows, held while the files are read
	pair   *tls.Certificate
	readAt time.Time
	err    error // why pair differs from the files; nil: it does not
}

func openCertificate(certFile, keyFile string, log zerolog.Logger) (*certificate, error) {
	c := &certificate{certFile: certFile, keyFile: keyFile, log: log}
	c.refresh(time.Now())
	if c.pair == nil {
		return nil, fmt.Errorf("cannot serve remote callers: %w", c.err)
	}
	return c, nil
}

// maxAge bounds how often the files are read.
const maxAge = time.Second

// refresh reads the files. The caller holds mu, or has c to itself.
func (c *certificate) refresh(now time.Time) {
	c.readAt = now
	before, known := c.pair, c.err
	pair, err := config.LoadPair(c.certFile, c.keyFile)
	if err == nil && before != nil && untimely(before.Leaf, now) == nil {
		err = untimely(pair.Leaf, now)
	}
	c.err = err
	switch {
	case err == nil:
		c.pair = &pair
		if before != nil && !before.Leaf.Equal(pair.Leaf) {
			c.log.Info().Str("cert_file", c.certFile).Time("until", pair.Leaf.NotAfter).Msg("certificate replaced")
		}
	case before != nil && (known == nil || known.Error() != err.Error()):
		c.log.Error().Str("cert_file", c.certFile).Err(err).Time("until", before.Leaf.NotAfter).Msg("cannot use the new certificate: the one before stays")
	}
}

// untimely returns why a certificate is of no use now; nil: it is valid.
func untimely(leaf *x509.Certificate, now time.Time) error {
	switch {
	case now.After(leaf.NotAfter):
		return fmt.Errorf("it expired at %s", leaf.NotAfter.UTC().Format(time.RFC3339))
	case now.Before(leaf.NotBefore):
		return fmt.Errorf("it is not valid before %s: is this host's clock right?", leaf.NotBefore.UTC().Format(time.RFC3339))
	}
	return nil
}

func (c *certificate) current() (pair *tls.Certificate, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := time.Now(); now.Sub(c.readAt) >= maxAge {
		c.refresh(now)
	}
	return c.pair, c.err
}

// tls returns the TLS of the frontend; nil without a certificate.
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

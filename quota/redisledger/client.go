package redisledger

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"quotad/quota"
)

// noRetries turns off go-redis' own retries, which do not know what a script has
// debited. This package repeats the calls that may be repeated.
const noRetries = -1

// answerTime is how long a call waits at least for its answer before it is repeated: a fraction of the
// time in which every daemon must have put back what a lost log lacks, even if replies are lost.
const answerTime = 500 * time.Millisecond

// A connection is not used for longer than this, so that one that leads to a server which an address
// meant before is given up.
const (
	connectionAge    = 50 * time.Second
	connectionJitter = 10 * time.Second
)

// oneDial makes a refused connection an error at once.
const oneDial = 1

// client returns the client of a configuration that validate accepts.
func (c Config) client(s *Store) redis.UniversalClient {
	// What go-redis would print is in the errors that it returns.
	logging.Disable()
	// It would also subscribe to a managed service's maintenance, and look the address up by
	// DNS for that before it returns: even a path.
	options := redis.UniversalOptions{
		Addrs: c.Addrs, MasterName: c.MasterName,
		Username: c.Username, Password: c.Password,
		TLSConfig:  c.TLS,
		Protocol:   2, // or it would look for pushes before each call, and there are none
		MaxRetries: noRetries, DialerRetries: oneDial, ContextTimeoutEnabled: true,
		DisableIdentity: true, // a round trip less for each connection
		ReadTimeout:     max(answerTime, c.Deadline/2), WriteTimeout: max(answerTime, c.Deadline/2),
		ConnMaxLifetime: connectionAge, ConnMaxLifetimeJitter: connectionJitter,
		Dialer:                   s.dial,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	if path, unix := c.socket(); unix {
		simple := options.Simple()
		simple.Network, simple.Addr = "unix", path
		return s.node(simple)
	}
	switch {
	case c.MasterName != "":
		n, guarded := &node{store: s}, options.Failover()
		guarded.OnConnect = n.onConnect
		return n.begin(redis.NewFailoverClient(guarded))
	case len(c.Addrs) > 1 || c.cluster:
		cluster := options.Cluster()
		cluster.NewClient = s.node
		return redis.NewClusterClient(cluster)
	}
	return s.node(options.Simple())
}

// socket returns the path of a Unix socket.
func (c Config) socket() (path string, unix bool) { return strings.CutPrefix(c.Addrs[0], "unix://") }

func (c Config) validate() error {
	if len(c.Addrs) == 0 {
		return fmt.Errorf("no address of a Redis server is given")
	}
	if strings.ContainsAny(c.KeyPrefix, "{}") {
		return fmt.Errorf("key prefix %q must not hold braces: they mark the part of a key that a Cluster hashes", c.KeyPrefix)
	}
	if _, unix := c.socket(); unix && (len(c.Addrs) > 1 || c.MasterName != "") {
		return fmt.Errorf("address %q: a Unix socket leads to one server; it goes with no other address", c.Addrs[0])
	} else if unix {
		return nil
	}
	for _, addr := range c.Addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return fmt.Errorf("address %q is neither host:port nor unix:///path", addr)
		}
	}
	return nil
}

// replace replaces a client, and with it all connections, at most once a second. Calls that are under way
// may still be answered on the old ones.
func (s *Store) replace(was redis.UniversalClient, config Config) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current() != was || s.ctx.Err() != nil || time.Since(s.replaced) < time.Second {
		return
	}
	next := config.client(s)
	s.client.Store(&next)
	s.replaced = time.Now()
	s.background.Go(func() {
		quota.Sleep(s.ctx, connectTime)
		was.Close()
	})
}

// enterCluster uses the one address as that of a Cluster, if a client could not know that, and reports
// whether another client is to be called.
func (s *Store) enterCluster(was redis.UniversalClient) bool {
	if _, known := was.(*redis.ClusterClient); known {
		return false
	}
	config := s.config
	if _, unix := config.socket(); unix || config.MasterName != "" {
		return false
	}
	config.cluster = true
	s.replace(was, config)
	return s.current() != was
}

// connectTime is how long a connection may take to be made, its TLS handshake included.
const connectTime = 5 * time.Second

// A dialError is why a connection was not made: no call has been carried out on it.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

// dial makes a connection. It records why that failed last, for those who did not wait that long.
func (s *Store) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	dialer := &net.Dialer{KeepAlive: 5 * time.Minute}
	dial := dialer.DialContext
	if s.config.TLS != nil {
		dial = (&tls.Dialer{NetDialer: dialer, Config: s.config.TLS}).DialContext
	}
	conn, err := dial(ctx, network, addr)
	if err == nil {
		s.undialed.Store(nil)
		return conn, nil
	}
	if s.config.TLS != nil && !isDialing(err) {
		err = fmt.Errorf("%w: if that port is not for TLS, remove [ledger.redis.tls]", err)
	}
	err = dialError{err}
	s.undialed.Store(&err)
	return nil, err
}

// isDialing reports whether there was no connection for TLS yet, or whether TLS says what is wrong.
func isDialing(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial" || errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(tls.AlertError))
}

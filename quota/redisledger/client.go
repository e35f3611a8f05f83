package redisledger

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"
)

// noRetries turns off go-redis' own retries, which do not know what a script has
// debited. This package repeats the calls that may be repeated.
const noRetries = -1

// answerTime is how long a call waits for its answer before it is repeated: a fraction of the
// time in which every daemon must have put back what a lost log lacks, even if replies are lost.
const answerTime = 500 * time.Millisecond

// oneDial makes a refused connection an error at once.
const oneDial = 1

func (c Config) client() (redis.UniversalClient, error) {
	// What go-redis would print is in the errors that it returns.
	logging.Disable()
	// It would also subscribe to a managed service's maintenance, and look the address up by
	// DNS for that before it returns: even a path.
	options := redis.UniversalOptions{
		Addrs: c.Addrs, MasterName: c.MasterName,
		Username: c.Username, Password: c.Password, DB: c.DB,
		TLSConfig:  c.TLS,
		Protocol:   2, // or it would look for pushes before each call, and there are none
		MaxRetries: noRetries, DialerRetries: oneDial, ContextTimeoutEnabled: true,
		ReadTimeout: answerTime, WriteTimeout: answerTime,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
	options.Dialer = dialer(c.TLS)
	if len(c.Addrs) == 0 {
		return nil, fmt.Errorf("no address of a Redis server is given")
	}
	path, unix := strings.CutPrefix(c.Addrs[0], "unix://")
	if unix && (len(c.Addrs) > 1 || c.MasterName != "") {
		return nil, fmt.Errorf("address %q: a Unix socket leads to one server; it goes with no other address", c.Addrs[0])
	}
	if unix {
		simple := options.Simple()
		simple.Network, simple.Addr = "unix", path
		return redis.NewClient(simple), nil
	}
	for _, addr := range c.Addrs {
		if _, _, err := net.SplitHostPort(addr); err != nil {
			return nil, fmt.Errorf("address %q is neither host:port nor unix:///path", addr)
		}
	}
	return redis.NewUniversalClient(&options), nil
}

// connectTime is how long a connection may take to be made, its TLS handshake included.
const connectTime = 5 * time.Second

// A dialError is why a connection was not made: no call has been carried out on it.
type dialError struct{ error }

func (e dialError) Unwrap() error { return e.error }

func dialer(config *tls.Config) func(ctx context.Context, network, addr string) (net.Conn, error) {
	dial := redis.NewDialer(&redis.Options{TLSConfig: config, DialTimeout: connectTime})
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, dialError{err}
		}
		return conn, nil
	}
}

// Package redisledger keeps the quota ledger in Redis, so that several hosts
// share one budget: every decision is one call of a script, on Redis' own clock.
package redisledger

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/redis/go-redis/v9/maintnotifications"

	"quotad/lua"
	"quotad/quota"
)

// DefaultKeyPrefix is in front of every key where Config names no other.
const DefaultKeyPrefix = "quotad:"

// A Config says where Redis is and who asks.
type Config struct {
	// Addrs are "host:port" or "unix:///path". Several are a Cluster's nodes, or
	// with MasterName the Sentinels that know the master.
	Addrs      []string
	MasterName string
	Username   string
	Password   string
	DB         int         // not with a Cluster
	TLS        *tls.Config // nil: no TLS
	KeyPrefix  string      // of every key, DefaultKeyPrefix if empty; no braces
	// Daemon names this daemon among all that share the ledger: at most 64
	// characters without spaces, the same after a restart.
	Daemon string
}

// A Ledger is a quota.Ledger in Redis, Redis Cluster or Valkey, from version 6.2 on.
type Ledger struct {
	client  redis.UniversalClient
	scripts scripts
	prefix  string
	daemon  string

	boot  string        // tells this process' calls from an earlier one's
	calls atomic.Uint64 // numbers them
	skew  atomic.Int64  // Redis' clock less the host's, in ms

	mu    sync.Mutex // guards what follows
	lanes map[string]*lane
	marks map[string]quota.Mark
	rests map[string]rest
}

// A lane keeps calls that write by name one after the other: Redis remembers only
// a daemon's last one.
type lane struct {
	sync.Mutex // guards unanswered, and is held during a call
	// unanswered is the last call if its outcome is unknown.
	unanswered *unanswered
}

type unanswered struct {
	name string
	asks []quota.Ask
}

var _ quota.Restorer = (*Ledger)(nil)

type scripts struct {
	acquire, adjust, count, log, reset, restore, settle, usage, wake, when *redis.Script
	claim, hold, load, save                                                *redis.Script // of Hosts
}

// Open returns a ledger that connects when it is first used: a Redis that is
// down delays nobody's start. The config's mistakes are errors.
func Open(config Config) (*Ledger, error) {
	return open(config, lua.All())
}

func open(config Config, sources lua.Scripts) (*Ledger, error) {
	client, err := config.client()
	if err != nil {
		return nil, err
	}
	if config.KeyPrefix == "" {
		config.KeyPrefix = DefaultKeyPrefix
	}
	if strings.ContainsAny(config.KeyPrefix, "{}") {
		return nil, fmt.Errorf("key prefix %q must not hold braces: they mark the part of a key that a Cluster hashes", config.KeyPrefix)
	}
	if config.Daemon == "" || len(config.Daemon) > 64 || strings.ContainsAny(config.Daemon, " \n") {
		return nil, fmt.Errorf("a daemon's name has 1 to 64 characters and no spaces: %q", config.Daemon)
	}
	return &Ledger{
		client:  client,
		scripts: newScripts(sources),
		prefix:  config.KeyPrefix,
		daemon:  config.Daemon,
		boot:    rand.Text(),
		lanes:   make(map[string]*lane),
		marks:   make(map[string]quota.Mark),
		rests:   make(map[string]rest),
	}, nil
}

func newScripts(s lua.Scripts) scripts {
	return scripts{
		acquire: redis.NewScript(s.Acquire),
		adjust:  redis.NewScript(s.Adjust),
		count:   redis.NewScript(s.Count),
		log:     redis.NewScript(s.Log),
		reset:   redis.NewScript(s.Reset),
		restore: redis.NewScript(s.Restore),
		settle:  redis.NewScript(s.Settle),
		usage:   redis.NewScript(s.Usage),
		wake:    redis.NewScript(s.Wake),
		when:    redis.NewScript(s.When),
		claim:   redis.NewScript(s.Claim),
		hold:    redis.NewScript(s.Hold),
		load:    redis.NewScript(s.Load),
		save:    redis.NewScript(s.Save),
	}
}

// noRetries turns off go-redis' own retries, which know nothing of what a
// script has debited; this package repeats calls itself, by name.
const noRetries = -1

// answerTime is how long one answer is waited for before the call is repeated: a
// fraction of the time in which every daemon must have put back what a lost log
// lacks, whatever replies go astray.
const answerTime = 500 * time.Millisecond

// oneDial has a server that refuses connections found out at once.
const oneDial = 1

func (c Config) client() (redis.UniversalClient, error) {
	// What go-redis would print on its own is in the errors it returns.
	logging.Disable()
	// Of a managed service's maintenance it would hear on its own, too, and for that
	// asks a name server who the address is, before it returns: even about a path.
	options := redis.UniversalOptions{
		Addrs: c.Addrs, MasterName: c.MasterName,
		Username: c.Username, Password: c.Password, DB: c.DB,
		TLSConfig:  c.TLS,
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

// Close closes the connections.
func (l *Ledger) Close() error { return l.client.Close() }

// keys returns the names of a credential's keys, all of one hash tag.
func (l *Ledger) keys(credential string) []string {
	tag := l.prefix + "{" + credential + "}:"
	return []string{tag + "account", tag + "log", tag + "settled", tag + "keys"}
}

func (l *Ledger) lane(name string) *lane {
	l.mu.Lock()
	defer l.mu.Unlock()
	found := l.lanes[name]
	if found == nil {
		found = &lane{}
		l.lanes[name] = found
	}
	return found
}

// call returns a name for a script call that no other call of this daemon has, and
// that tells it from the earlier ones of this process.
func (l *Ledger) call() string {
	return l.boot[:8] + "." + strconv.FormatUint(l.calls.Add(1), 36)
}

// Now is Redis' time as far as it is known here: for the bounds of calendar
// periods, which the scripts check against the real one.
func (l *Ledger) Now() time.Time {
	return time.Now().Add(time.Duration(l.skew.Load()) * time.Millisecond)
}

// Expect implements quota.Restorer.
func (l *Ledger) Expect(credential string, m quota.Mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.marks[credential] = m
}

// Known implements quota.Restorer.
func (l *Ledger) Known(credential string) quota.Mark {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.marks[credential]
}

// learn takes in the mark of an answer to a call that was sent as the mark sent was
// known. Answers of calls at the same time may come in any order: of one epoch the
// newest entry counts, and another epoch only if none was learnt in the meantime.
func (l *Ledger) learn(credential string, sent, m quota.Mark) {
	l.mu.Lock()
	defer l.mu.Unlock()
	known := l.marks[credential]
	switch {
	case known.Epoch == m.Epoch && !known.Newest.Less(m.Newest):
	case known.Epoch != m.Epoch && known.Epoch != sent.Epoch:
	default:
		l.marks[credential] = m
	}
}

// Health implements quota.Ledger.
func (l *Ledger) Health(ctx context.Context) quota.Health {
	h := quota.Health{Backend: "redis", State: "ok", Reachable: true}
	if err := l.client.Ping(ctx).Err(); err != nil {
		h.State, h.Reachable = "unreachable: "+err.Error(), false
		return h
	}
	h.Warnings = l.unsafeSettings(ctx)
	return h
}

package redisledger

import (
	"cmp"
	"context"
	"crypto/tls"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"quotad/lua"
	"quotad/quota/slidinglog"
)

// DefaultKeyPrefix is in front of every key where Config names no other.
const DefaultKeyPrefix = "quotad:"

// A Config says where Redis is.
type Config struct {
	// Addrs are "host:port" or "unix:///path". Several are a Cluster's nodes, or
	// with MasterName the Sentinels that know the master.
	Addrs      []string `toml:"addrs"`
	MasterName string   `toml:"master_name"`
	Username   string   `toml:"username"`
	Password   string
	TLS        *tls.Config // nil: no TLS
	KeyPrefix  string      `toml:"key_prefix"` // of every key, DefaultKeyPrefix if empty; no braces
	// Deadline is that of the calls; 0 is 250 ms.
	Deadline time.Duration

	cluster bool // the one address is that of a Cluster
}

// A Store is a slidinglog.Engine in Redis, Redis Cluster or Valkey, from version 6.2 on, and keeps what else hosts
// share. Each credential has two keys.
type Store struct {
	config     Config // with its defaults
	client     atomic.Pointer[redis.UniversalClient]
	scripts    map[slidinglog.Script]script // also those of clients
	declare    *redis.Script
	pauses     sync.Map              // by address: the pause of a node that did not answer a call of clients
	answered   atomic.Bool           // a script was carried out
	undialed   atomic.Pointer[error] // why the last connection was not made; nil: it was
	ctx        context.Context       // ends with Close
	stop       context.CancelFunc
	background sync.WaitGroup

	mu       sync.Mutex // guards what follows
	replaced time.Time  // when the client was replaced last
	lacks    []string   // what the server lacked when it was last asked
	asked    time.Time  // when that was
}

var _ slidinglog.Engine = (*Store)(nil)

// OpenStore returns a store that connects when it is first used: a Redis that is down delays
// no start. Mistakes in the configuration are errors.
func OpenStore(config Config) (*Store, error) { return openStore(config, lua.All(lua.Usual())) }

func openStore(config Config, sources map[string]string) (*Store, error) {
	config.KeyPrefix = cmp.Or(config.KeyPrefix, DefaultKeyPrefix)
	config.Deadline = cmp.Or(config.Deadline, 250*time.Millisecond)
	if err := config.validate(); err != nil {
		return nil, err
	}
	s := &Store{config: config, scripts: map[slidinglog.Script]script{}, declare: redis.NewScript(sources["declare"])}
	for name, source := range sources {
		s.scripts[slidinglog.Script(name)] = newScript(source)
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	client := config.client(s)
	s.client.Store(&client)
	return s, nil
}

// Close closes the connections.
func (s *Store) Close() error {
	s.stop()
	s.background.Wait()
	return s.current().Close()
}

package redisledger

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"slices"
	"strings"
	"sync"
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
	Addrs      []string
	MasterName string
	Username   string
	Password   string
	DB         int         // not with a Cluster
	TLS        *tls.Config // nil: no TLS
	KeyPrefix  string      // of every key, DefaultKeyPrefix if empty; no braces
}

// A Store is a slidinglog.Store in Redis, Redis Cluster or Valkey, from version 6.2 on. Each
// credential has one key, a stream, and so has each job that hosts share.
type Store struct {
	client  redis.UniversalClient
	appends script // append.lua
	swaps   script // swap.lua
	// patience is how long after it was read a client's record may be replaced: what is granted counts
	// from when it was read.
	patience time.Duration
	away     sync.Map // by node, a redis.UniversalClient: why it is not called for clients, an error
	prefix   string
	name     string
	ctx      context.Context // ends with Close
	stop     context.CancelFunc
	pingers  sync.WaitGroup

	mu       sync.Mutex // guards what follows
	settings []string   // what unsafeSettings returned last
	asked    time.Time  // when that was
	refused  bool       // the server does not allow CONFIG GET
}

var _ slidinglog.Store = (*Store)(nil)

// OpenStore returns a store that connects when it is first used: a Redis that is down delays
// no start. Mistakes in the configuration are errors.
func OpenStore(config Config) (*Store, error) { return openStore(config, lua.All()) }

func openStore(config Config, sources lua.Scripts) (*Store, error) {
	config.KeyPrefix = cmp.Or(config.KeyPrefix, DefaultKeyPrefix)
	if strings.ContainsAny(config.KeyPrefix, "{}") {
		return nil, fmt.Errorf("key prefix %q must not hold braces: they mark the part of a key that a Cluster hashes", config.KeyPrefix)
	}
	client, err := config.client()
	if err != nil {
		return nil, err
	}
	s := &Store{
		client: client, appends: newScript(sources.Append), swaps: newScript(sources.Swap),
		patience: swapTime, prefix: config.KeyPrefix, name: config.name(),
	}
	s.ctx, s.stop = context.WithCancel(context.Background())
	return s, nil
}

// name says which logs a configuration leads to: the same for all ways to write it down.
func (c Config) name() string {
	where := "master " + c.MasterName // Sentinels may come and go
	if c.MasterName == "" {
		addrs := slices.Clone(c.Addrs)
		slices.Sort(addrs)
		where = strings.Join(slices.Compact(addrs), ",")
	}
	return fmt.Sprintf("redis %s, database %d, key prefix %q", where, c.DB, c.KeyPrefix)
}

// Name implements slidinglog.Store.
func (s *Store) Name() string { return s.name }

// Close closes the connections.
func (s *Store) Close() error {
	s.stop()
	s.pingers.Wait()
	return s.client.Close()
}

// key is that of a credential's log. Its hash tag is the credential's name.
func (s *Store) key(credential string) string { return s.prefix + "{" + credential + "}:log" }

// settingsTime is for how long what CONFIG GET answered counts.
const settingsTime = time.Minute

// Health implements slidinglog.Store.
func (s *Store) Health(ctx context.Context) (warnings []string, err error) {
	if err := s.client.Ping(ctx).Err(); err != nil {
		return nil, failure(false, err)
	}
	s.mu.Lock()
	due := !s.refused && time.Since(s.asked) >= settingsTime
	if due {
		s.asked = time.Now() // others do not ask meanwhile
	}
	warnings = s.settings
	s.mu.Unlock()
	if !due {
		return warnings, nil
	}
	warnings, err = unsafeSettings(ctx, s.client)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.settings, s.refused = warnings, err != nil && !mayHaveRun(err)
	return warnings, nil
}

// unsafeSettings names the settings of a server under which it could lose records without
// anybody's mistake. A server that does not say, because CONFIG is renamed or forbidden, is
// trusted; its error is returned.
func unsafeSettings(ctx context.Context, client redis.UniversalClient) (warnings []string, err error) {
	values := make(map[string]string)
	for _, name := range []string{"maxmemory-policy", "appendonly", "save"} {
		found, err := client.ConfigGet(ctx, name).Result()
		if err != nil {
			return nil, err
		}
		values[name] = found[name]
	}
	if policy := values["maxmemory-policy"]; policy != "" && policy != "noeviction" {
		warnings = append(warnings, fmt.Sprintf("maxmemory-policy is %s: Redis may evict the log, set it to noeviction", policy))
	}
	switch {
	case values["appendonly"] == "no" && values["save"] == "":
		warnings = append(warnings, "nothing is persisted: a restart of Redis loses the log, set appendonly to yes")
	case values["appendonly"] == "no":
		warnings = append(warnings, "only snapshots are persisted: a crash of Redis loses the grants since the last one, set appendonly to yes")
	}
	return warnings, nil
}

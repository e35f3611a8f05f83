package redisledger

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

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
	// Host is what people call this daemon's host, Daemon if empty.
	Host string
}

// Local is what a ledger has on this host. The zero value is nothing: a ledger that
// refuses while Redis is away, and puts nothing back when Redis has lost the log.
type Local struct {
	// Journal is a directory for this daemon's own record of what it was granted. Empty:
	// there is none.
	Journal string
	Keep    time.Duration // how long the journal keeps a line; twice the longest window is enough
	// Deadline bounds a call while it is found out how Redis is; 0 is 250 ms.
	Deadline time.Duration
	// Quiet is how long nothing is granted after a loss of the log, while every daemon puts
	// back what it knows; 0 is 3 s. A daemon that stays away is waited for ten times as
	// long, and how often a log is looked at follows from it, too.
	Quiet   time.Duration
	Observe func(Event) // is told of edges; nil: nobody is
}

// A Ledger is a quota.Ledger in Redis, Redis Cluster or Valkey, from version 6.2 on.
type Ledger struct {
	client    redis.UniversalClient
	scripts   scripts
	prefix    string
	tag       string // stands for the daemon in Redis: 8 characters
	host      string // for people
	seq       int64  // of what is granted offline, the same for this daemon only
	deadline  time.Duration
	quietTime time.Duration
	journal   *journal // nil: there is none
	observe   func(Event)

	boot    string                // tells this process' calls from an earlier one's
	calls   atomic.Uint64         // numbers them
	views   sync.Map              // by credential
	failing atomic.Pointer[error] // why the journal could not be written, nil when it can
	untold  atomic.Bool           // Redis refuses to tell its settings
	clients clients

	accounts sync.Map       // by credential
	mu       sync.Mutex     // held while SetCredentials runs
	watchers sync.WaitGroup // one for each account of SetCredentials
	ctx      context.Context
	stop     context.CancelFunc // of ctx, and of the watchers with it
}

var _ quota.Ledger = (*Ledger)(nil)

type scripts struct {
	acquire, adjust, close, count, fence, merge, replay, reset, restore, settle, usage *redis.Script
	claim, hold, load, save                                                            *redis.Script // of Hosts
}

// Open returns a ledger that connects when it is first used: a Redis that is
// down delays nobody's start. The config's mistakes are errors.
func Open(config Config, local Local) (*Ledger, error) {
	return open(config, local, lua.All())
}

func open(config Config, local Local, sources lua.Scripts) (*Ledger, error) {
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
	hash := sha256.Sum256([]byte(config.Daemon))
	l := &Ledger{
		client: client, scripts: newScripts(sources), prefix: config.KeyPrefix,
		host:     cmp.Or(config.Host, config.Daemon),
		tag:      base32.StdEncoding.EncodeToString(hash[:5]),
		seq:      sequenceOf(hash),
		deadline: local.Deadline, quietTime: local.Quiet, observe: local.Observe,
		boot:    rand.Text()[:8],
		clients: clients{scripts: newClientScripts(sources)},
	}
	if l.deadline == 0 {
		l.deadline = 250 * time.Millisecond
	}
	if l.quietTime == 0 {
		l.quietTime = quietTime
	}
	if l.observe == nil {
		l.observe = func(Event) {}
	}
	if local.Journal != "" {
		if l.journal, err = openJournal(local.Journal, local.Keep); err != nil {
			return nil, errors.Join(err, client.Close())
		}
	}
	l.ctx, l.stop = context.WithCancel(context.Background())
	return l, nil
}

// sequenceOf draws from a daemon's name where the sequence numbers of its own ids
// begin: from 2^16 to 2^48, where Redis draws none, and away from other daemons'.
func sequenceOf(hash [32]byte) int64 {
	return int64(max(1, binary.BigEndian.Uint32(hash[8:]))) << 16
}

func newScripts(s lua.Scripts) scripts {
	return scripts{
		acquire: redis.NewScript(s.Acquire),
		adjust:  redis.NewScript(s.Adjust),
		close:   redis.NewScript(s.Close),
		count:   redis.NewScript(s.Count),
		fence:   redis.NewScript(s.Fence),
		merge:   redis.NewScript(s.Merge),
		replay:  redis.NewScript(s.Replay),
		reset:   redis.NewScript(s.Reset),
		restore: redis.NewScript(s.Restore),
		settle:  redis.NewScript(s.Settle),
		usage:   redis.NewScript(s.Usage),
		claim:   redis.NewScript(s.Claim),
		hold:    redis.NewScript(s.Hold),
		load:    redis.NewScript(s.Load),
		save:    redis.NewScript(s.Save),
	}
}

// SetCredentials says which credentials there are, with their policies by name. From
// then on their logs are watched.
func (l *Ledger) SetCredentials(credentials []*quota.Credential, policies map[string]Policy) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range credentials {
		a := l.account(c.Name)
		a.mu.Lock()
		first := a.credential == nil
		a.credential, a.policy = c, policies[c.Name]
		for _, g := range a.offline {
			if first && g.pending && a.down == nil { // the outage goes on until it is booked
				a.down, a.since = errReplaying, time.Now()
			}
		}
		a.mu.Unlock()
		if first {
			l.watchers.Go(func() { l.watch(a) })
		}
		a.wake()
	}
}

// account returns the account of a credential, which begins with what the journal knows.
func (l *Ledger) account(name string) *account {
	if found, ok := l.accounts.Load(name); ok {
		return found.(*account)
	}
	a := newAccount(l, name)
	if l.journal != nil {
		m, grants := l.journal.known(name)
		a.position, a.offline, a.closed = m.position, grants, l.journal.closings(name)
		maps.Copy(a.used, m.used)
		maps.Copy(a.daemons, m.daemons)
		for _, g := range grants {
			if a.lastID.Less(g.id) {
				a.lastID = g.id
			}
		}
	}
	found, _ := l.accounts.LoadOrStore(name, a)
	return found.(*account)
}

// Close ends the watch, and closes the connections and the journal.
func (l *Ledger) Close() error {
	l.stop()
	l.watchers.Wait()
	err := l.client.Close()
	if l.journal != nil {
		err = errors.Join(err, l.journal.close())
	}
	return err
}

// keys returns the names of a credential's keys that its scripts use, all of one hash tag.
func (l *Ledger) keys(credential, view string) []string {
	var keys []string
	for _, name := range []string{"account", "log", "settled", "requests", "view:" + view, "staged"} {
		keys = append(keys, l.key(credential, name))
	}
	return keys
}

func (l *Ledger) key(credential, name string) string {
	return l.prefix + "{" + credential + "}:" + name
}

func (l *Ledger) noteJournal(err error) {
	if err == nil {
		l.failing.Store(nil)
		return
	}
	l.failing.Store(&err)
}
